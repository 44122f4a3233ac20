"""A real Chromium and a real board over modelled incidents; each test has a browser context of its own."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from conf.settings import Settings
from streaming.board.security import Door
from streaming.board.server import BoardServer
from tests.board.modelled import NOW_MS, write_modelled

CHROMIUM_ARGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
expect.set_options(timeout=60_000)  # a busy machine is no failure

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}


def chromium() -> str:
    """Where Chromium is. Fails with what to install."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return pytest.fail("no chromium on the PATH; install Debian's chromium: apt-get install chromium")


@contextmanager
def serve(
    warehouse: Path, clock_ms: Callable[[], int] = lambda: NOW_MS, door: Door | None = None, **board: Any
) -> Iterator[str]:
    """A board over `warehouse` on a free port of the loopback, by default with the clock standing at NOW_MS."""
    settings = Settings.load(
        paths={"warehouse": warehouse}, board={"port": 0, "refresh_seconds": 1, "threads": 4, **board}
    )
    server = BoardServer(settings, clock_ms, door)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.close()
        thread.join(10)


@pytest.fixture(scope="session")
def modelled_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modelled incidents; nobody writes to it."""
    warehouse = tmp_path_factory.mktemp("modelled") / "warehouse"
    write_modelled(warehouse)
    return warehouse


@pytest.fixture(scope="session")
def board_url(modelled_warehouse: Path) -> Iterator[str]:
    """A board over the modelled incidents, its clock standing at NOW_MS."""
    with serve(modelled_warehouse) as url:
        yield url


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium for the tests of this package, and no longer: while Playwright is open its event loop runs in this
    thread, and nothing else may run one."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        yield running
        running.close()


class Tab:
    """A page of the browser that remembers what it complained of; `quiet` may be asked at any time."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._note(request.url))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _note(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.foreign.append(url)

    def open(self, url: str) -> Page:
        """Go there, and wait until the page's body stands and its figures are drawn."""
        self.page.goto(url)
        return self.settled()

    def settled(self) -> Page:
        """Wait until the page's body stands and its figures are laid out, not only begun."""
        self.page.wait_for_selector("#page #title")
        self.page.wait_for_function("() => [...document.querySelectorAll('#page .figure')].every(one => one.isHeard)")
        return self.page

    def words(self) -> str:
        """The text of the page without its ages, which count on."""
        return str(
            self.page.evaluate(
                """() => { const copy = document.getElementById('page').cloneNode(true);
                copy.querySelectorAll('time.age').forEach((one) => one.remove()); return copy.textContent; }"""
            )
        )

    def is_narrow_enough(self) -> bool:
        """Whether nothing makes the page scroll sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def faults(self) -> list[str]:
        """What axe finds serious or critical: the rule, and where."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@pytest.fixture
def new_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Makes tabs, each in a context of its own: `new_tab(scheme="dark", size=PHONE)`. They must have been quiet."""
    contexts = []
    tabs: list[Tab] = []

    def make(scheme: Any = "light", size: dict[str, int] = DESK, **options: Any) -> Tab:
        context = browser.new_context(color_scheme=scheme, viewport=size, reduced_motion="reduce", **options)  # type: ignore[arg-type]  # a dict of two ints is what it takes
        context.set_default_timeout(60_000)
        contexts.append(context)
        tabs.append(Tab(context.new_page()))
        return tabs[-1]

    yield make
    for context in contexts:
        context.close()
    assert [tab.foreign for tab in tabs if tab.foreign] == []


@pytest.fixture
def tab(new_tab: Callable[..., Tab]) -> Iterator[Tab]:
    """A tab at a desk in light; at the end its console must hold no error and no warning."""
    one = new_tab()
    yield one
    assert one.complaints == []
