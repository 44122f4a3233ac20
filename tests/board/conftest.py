"""A real Chromium and a real board over modelled incidents; tests have the one page one after the other."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Error, Page, Request, Response, ViewportSize, expect, sync_playwright

from conf.settings import Settings
from streaming.board.web.access import AccessControl
from streaming.board.web.app import BoardServer
from tests.board.modelled import write_modelled
from tests.board.tables import NOW_MS

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

PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 900}

REFRESH_SECONDS = 0.25
"""How often pages ask: more often than the settings allow, so that tests wait less."""


def is_update(exchange: Request | Response) -> bool:
    """Whether a script requested it: an update or another page, and no first load."""
    request = exchange if isinstance(exchange, Request) else exchange.request
    return request.resource_type == "fetch"


def chromium() -> str:
    """Where Chromium is. Fails with what to install."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return pytest.fail("no chromium on the PATH; install Debian's chromium: apt-get install chromium")


@contextmanager
def serve(
    warehouse: Path,
    clock_ms: Callable[[], int] = lambda: NOW_MS,
    access: AccessControl | None = None,
    language: str = "en",
    **board: Any,
) -> Iterator[str]:
    """A board over `warehouse` on a free port of the loopback, by default with the clock standing at NOW_MS."""
    settings = Settings.load(
        language=language, paths={"warehouse": warehouse}, board={"port": 0, "threads": 4, **board}
    )
    often = settings.board.model_copy(update={"refresh_seconds": REFRESH_SECONDS})
    server = BoardServer(settings.model_copy(update={"board": often}), clock_ms, access)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.close()
        thread.join(10)


@pytest.fixture(scope="session")
def modelled_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modelled incidents; tests must not write to it."""
    warehouse = tmp_path_factory.mktemp("modelled") / "warehouse"
    write_modelled(warehouse)
    return warehouse


@pytest.fixture(scope="session")
def board_url(modelled_warehouse: Path) -> Iterator[str]:
    """A board over the modelled incidents, its clock standing at NOW_MS."""
    with serve(modelled_warehouse) as url:
        yield url


class Tab:
    """A page of the browser that remembers what it complained of; `quiet` may be asked at any time."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", self._fail)
        page.on("request", self._note)

    def close(self) -> None:
        """Listen no longer; the page stays."""
        self.page.remove_listener("console", self._hear)
        self.page.remove_listener("pageerror", self._fail)
        self.page.remove_listener("request", self._note)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _fail(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _note(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, url: str) -> Page:
        """Go there, and wait for the page's body and scripts."""
        self.page.goto(url)
        return self.settled()

    def reload(self) -> Page:
        """Read the same address anew."""
        self.page.reload()
        return self.settled()

    @contextmanager
    def on_phone(self) -> Iterator[Page]:
        """The page read anew on a phone: narrow, touched, and laid out as a phone's browser does."""
        self.page.set_viewport_size(PHONE)
        session = self.page.context.new_cdp_session(self.page)
        session.send("Emulation.setDeviceMetricsOverride", {**PHONE, "deviceScaleFactor": 1, "mobile": True})
        session.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        try:
            yield self.reload()
        finally:
            session.detach()
            self.page.set_viewport_size(DESK)

    def settled(self) -> Page:
        """Wait until the page's body is there and its scripts have begun."""
        self.page.wait_for_selector("#page #title")
        self.page.wait_for_function("() => document.readyState === 'complete'")
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

    def faults(self, *rules: str) -> list[str]:
        """What axe finds serious or critical, by `rules` or by every rule: the rule, and where."""
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found = Axe().run(self.page, options={"resultTypes": ["violations"], **only}).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@pytest.fixture(scope="package")
def page(board_url: str) -> Iterator[Page]:
    """The one page of the one Chromium of this package, and no longer: while Playwright is open its event loop runs in
    this thread, and nothing else may run one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(60_000)
        yield context.new_page()
        browser.close()


@pytest.fixture
def loud_tab(page: Page, board_url: str) -> Iterator[Tab]:
    """The page on a first visit, at a desk, in light. It requests nothing from foreign servers."""
    page.unroute_all(behavior="ignoreErrors")
    page.goto(board_url + "assets/icon.svg")  # of the same origin: another one would take another process
    page.evaluate("localStorage.clear(); sessionStorage.clear()")
    page.context.clear_cookies()
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESK)
    page.mouse.move(0, 0)
    one = Tab(page)
    yield one
    one.close()
    assert one.foreign == []


@pytest.fixture
def tab(loud_tab: Tab) -> Iterator[Tab]:
    """The same, and at the end its console must hold no error and no warning."""
    yield loud_tab
    assert loud_tab.complaints == []
