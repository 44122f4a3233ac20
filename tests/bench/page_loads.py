"""What a page of the board costs: the server's time and bytes, and in Chromium the time until it stands and its tasks.

Each load is a new browser context without a cache, and the clock stands a minute later, so that nothing is kept of the
load before. A task is what keeps the browser from answering: Chromium reports those over 50 ms. Tasks are counted when
the page is reached from another one that has an empty figure, so that reading Plotly's script is not among them.
"""

import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
from playwright.sync_api import Browser
from waitress.server import create_server

from conf.settings import Settings
from streaming.board import elements as el
from streaming.board.app import Board, make_app
from streaming.board.figures import figure
from streaming.board.page import Page, View
from streaming.board.pages import PAGES

MINUTE = 60_000

OBSERVE = """
window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(one => window.tasks.push(one.duration)))
  .observe({ type: "longtask", buffered: true });
window.waitFor = function (title) {
  window.stoodAt = 0;
  (function look() {
    const shown = document.querySelector("#page #title");
    const stands = shown && shown.textContent !== title
      && [...document.querySelectorAll("#page .figure")].every(one => one.querySelector(".main-svg"));
    if (stands) window.stoodAt = performance.now(); else requestAnimationFrame(look);
  })();
};
window.waitFor(null);
"""

SETTLE_MS = 400
"""After the page stands, tasks that it still causes are waited for so long."""


@dataclass(frozen=True)
class PageLoad:
    """Medians of several loads of one URL."""

    name: str
    server_ms: float
    answer_bytes: int
    stands_ms: float
    """From nothing, Plotly's script included."""
    reached_ms: float
    """From another page of the board."""
    longest_task_ms: float
    tasks_ms: float
    nodes: int


def _bare(view: View) -> el.Component:
    return el.heading("Bare")


def _drawn(view: View) -> el.Component:
    return el.html.Div([el.heading("Drawn"), figure("drawn", go.Figure(), "nothing", 300)])


def _drawn_too(view: View) -> el.Component:
    return el.html.Div([el.heading("Drawn too"), figure("drawn-too", go.Figure(), "nothing", 300)])


FLOOR = (
    Page("bare", "/bare", "Bare", _bare),
    Page("drawn", "/drawn", "Drawn", _drawn),
    Page("drawn_too", "/drawn-too", "Drawn too", _drawn_too),
)
"""An empty page, and one with an empty figure: what the frame and Plotly cost by themselves."""


class Measured:
    """A served board over one warehouse, whose clock is moved on for each load."""

    def __init__(self, warehouse: Path, now_ms: int) -> None:
        self._now_ms = now_ms
        settings = Settings.load(paths={"warehouse": warehouse}, board={"port": 0, "refresh_seconds": 60})
        pages = (*PAGES, *FLOOR)
        self.board = Board(settings.board, warehouse, lambda: self._now_ms, pages)
        app = make_app(self.board, settings.board, pages)
        self._server = create_server(app.server, host="127.0.0.1", port=0, threads=4)
        self.url = f"http://127.0.0.1:{self._server.effective_port}"
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.close()
        self._thread.join(10)

    def load(self, browser: Browser, name: str, path: str, times: int) -> PageLoad:
        """The page, loaded so many times."""
        loads = [self._load(browser, path) for _ in range(times)]
        medians = [statistics.median(values) for values in zip(*loads, strict=True)]
        return PageLoad(name, medians[0], round(medians[1]), *medians[2:6], nodes=round(medians[6]))

    def _load(self, browser: Browser, path: str) -> tuple[float, ...]:
        server_ms, size = self._render(path)
        (stands_ms,) = self._browse(browser, path, ["window.stoodAt"])
        reached = self._browse(
            browser,
            "/drawn",
            [
                "window.tasks = []",
                "window.waitFor('Drawn')",
                "window.setOff = performance.now()",
                f"balancewatch.go({json.dumps(path)})",
            ],
            [
                "window.stoodAt - window.setOff",
                "Math.max(0, ...window.tasks)",
                "window.tasks.reduce((a, b) => a + b, 0)",
                "document.querySelectorAll('#page *').length",
            ],
        )
        return server_ms, size, stands_ms, *reached

    def _browse(self, browser: Browser, path: str, *steps: Sequence[str]) -> tuple[float, ...]:
        """The values of the last step's expressions; before each step the page stands and is quiet."""
        self._now_ms += MINUTE
        context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        try:
            page = context.new_page()
            page.add_init_script(OBSERVE)
            page.goto(self.url + path)
            values: list[float] = []
            for step in steps:
                page.wait_for_function("() => window.stoodAt", timeout=60_000)
                page.wait_for_timeout(SETTLE_MS)
                self._now_ms += MINUTE
                values = page.evaluate(f"() => [{', '.join(f'({one})' for one in step)}]")
            return tuple(values)
        finally:
            context.close()

    def _render(self, path: str) -> tuple[float, int]:
        """The server's own time for the answer, ms, and its size."""
        self._now_ms += MINUTE
        where, _, search = path.partition("?")
        started = time.perf_counter()
        body, _, _ = self.board.render(where, f"?{search}", None)
        return (time.perf_counter() - started) * 1000, len((body or "").encode())


@contextmanager
def measured(warehouse: Path, now_ms: int) -> Iterator[Measured]:
    board = Measured(warehouse, now_ms)
    try:
        yield board
    finally:
        board.close()


def measure_pages(
    browser: Browser, warehouse: Path, now_ms: int, pages: Sequence[tuple[str, str]], times: int
) -> list[PageLoad]:
    """The floor first, then each (name, path), from a board of its own."""
    with measured(warehouse, now_ms) as board:
        floor = [("empty page", "/bare"), ("empty figure", "/drawn-too")]
        return [board.load(browser, name, path, times) for name, path in [*floor, *pages]]
