"""`python -m tests.lab.bench.board`: the cost of each page over 1,000 groups, 20,000 queues and a million rows.

server: the time of the answer. From nothing: until the page is shown in a browser that has no cache. Within: the same
from another page of the board; the longest task and the CPU of the tab's main thread are of this way. An empty page is
measured in the same run. Compare within a run; absolute figures are the machine's.
"""

import argparse
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, sync_playwright
from playwright.sync_api import Page as Tab
from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from streaming.board.page import Page, View
from streaming.board.pages import PAGES as BOARD_PAGES
from streaming.board.web.access import AccessControl
from streaming.board.web.app import Board, make_app
from streaming.system.bounded_server import BoundedServer, Bounds
from tests.board.conftest import CHROMIUM_ARGS, chromium
from tests.lab.bench.board_warehouse import CLUSTER, GIANT, write_warehouse
from tests.lab.bench.scratch import read_machine, say, scratch_folder, write_report

MINUTE = 60_000

OBSERVE = """
window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(one => window.tasks.push(one.duration)))
  .observe({ type: "longtask", buffered: true });
window.waitFor = function (title) {
  window.stoodAt = 0;
  (function look() {
    const shown = document.querySelector("#page #title");
    if (shown && shown.textContent !== title) window.stoodAt = performance.now(); else requestAnimationFrame(look);
  })();
};
window.waitFor(null);
"""

SET_OFF = """path => {
    window.tasks = []; window.waitFor('Bare'); window.setOff = performance.now();
    const link = document.createElement('a'); link.href = path; document.body.append(link); link.click();
}"""

ARRIVED = """
[window.stoodAt - window.setOff, Math.max(0, ...window.tasks), document.querySelectorAll("#page *").length]
"""

SETTLE_MS = 400
"""Time after the page is shown in which its tasks still count."""


@dataclass(frozen=True)
class PageLoad:
    """Medians of several loads of one URL."""

    name: str
    server_ms: float
    server_cpu_ms: float
    answer_bytes: int
    stands_ms: float
    """From nothing."""
    reached_ms: float
    """From another page of the board."""
    longest_task_ms: float
    browser_cpu_ms: float
    """Of the way from another page: CPU of the tab's main thread, which others on the machine do not lengthen."""
    nodes: int


class Bare(Page[None]):
    """An empty page: the cost of the frame alone."""

    def body(self, view: View) -> str:
        return f'<h1 id="title" tabindex="-1">{self.title}</h1>'


FLOOR: tuple[Page[Any], ...] = (
    Bare("bare", "/bare", "Bare", lambda _: None),
    Bare("bare_too", "/bare-too", "Bare too", lambda _: None),
)


class Measured:
    """A served board over one warehouse, whose clock advances with each load."""

    def __init__(self, warehouse: Path, now_ms: int) -> None:
        self._now_ms = now_ms
        settings = Settings.load(paths={"warehouse": warehouse}, board={"port": 0, "refresh_seconds": 60})
        pages = (*BOARD_PAGES, *FLOOR)
        self.board = Board(settings.board, warehouse, lambda: self._now_ms, pages)
        listening = socket.create_server(("127.0.0.1", 0))
        self._server = BoundedServer(make_app(self.board, AccessControl.of(settings.board)), Bounds())
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)

    def load(self, browser: Browser, name: str, path: str, times: int) -> PageLoad:
        """Load the page `times` times."""
        loads = [self._load(browser, path) for _ in range(times)]
        medians = [statistics.median(values) for values in zip(*loads, strict=True)]
        return PageLoad(name, *medians[:2], round(medians[2]), *medians[3:7], nodes=round(medians[7]))

    def _load(self, browser: Browser, path: str) -> tuple[float, ...]:
        answer = self._render(path)
        with self._tab(browser, path) as tab:
            stands_ms = tab.evaluate("window.stoodAt")
        with self._tab(browser, "/bare") as tab:
            session = tab.context.new_cdp_session(tab)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            cpu_ms = -_cpu_ms(session)
            tab.evaluate(SET_OFF, path)
            self._wait(tab)
            cpu_ms += _cpu_ms(session)
            reached_ms, longest_ms, nodes = tab.evaluate(ARRIVED)
        return *answer, stands_ms, reached_ms, longest_ms, cpu_ms, nodes

    @contextmanager
    def _tab(self, browser: Browser, path: str) -> Iterator[Tab]:
        """Yield the page in its own context, shown and quiet."""
        context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        try:
            tab = context.new_page()
            tab.add_init_script(OBSERVE)
            self._now_ms += MINUTE
            tab.goto(self.url + path)
            self._wait(tab)
            self._now_ms += MINUTE
            yield tab
        finally:
            context.close()

    def _wait(self, tab: Tab) -> None:
        tab.wait_for_function("() => window.stoodAt", timeout=60_000)
        tab.wait_for_timeout(SETTLE_MS)

    def _render(self, path: str) -> tuple[float, float, int]:
        """Return the server's time for the answer and its CPU, ms, and the answer's size."""
        self._now_ms += MINUTE
        where, _, search = path.partition("?")
        started, cpu = time.perf_counter(), time.process_time()
        body, _, _ = self.board.render(self.board.pages[where], search)
        took = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
        return *took, len(body.html.encode() if body else b"")


def _cpu_ms(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration") * 1000


def measure_pages(
    browser: Browser, warehouse: Path, now_ms: int, pages: Sequence[tuple[str, str]], times: int
) -> list[PageLoad]:
    """Measure the floor first, then each (name, path), from their own board."""
    board = Measured(warehouse, now_ms)
    try:
        return [board.load(browser, name, path, times) for name, path in [("empty page", "/bare-too"), *pages]]
    finally:
        board.close()


GROUP = f"cluster={CLUSTER}&group=group-0007"
LARGE = f"cluster={CLUSTER}&group={GIANT}"

PAGES = (
    ("groups", "/groups"),
    ("groups, searched", "/groups?q=0007"),
    ("group of 10 queues", f"/group?{GROUP}"),
    ("group of 10,000 queues", f"/group?{LARGE}"),
    ("the same 3 hours ago", f"/group?{LARGE}&at=3h"),
    ("history of 10 queues", f"/history?{GROUP}&since=24h"),
    ("history of 10,000 queues", f"/history?{LARGE}&since=24h"),
    ("brokers, 200 for a day", "/brokers?since=24h"),
    ("overview", "/"),
    ("alerts", "/alerts"),
)


def measure_board(name: str, pages: Sequence[tuple[str, str]], write: Callable[[Path, int], Mapping[str, int]]) -> None:
    """Load each of (name, path) over a warehouse that `write` makes; print a table and write `.bench/NAME.json`."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.lab.bench.{name}", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--times", type=int, default=5, help="loads of each page, whose median counts (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path(f".bench/{name}.json"), help="default: %(default)s")
    options = parser.parse_args()
    machine = read_machine()
    now_ms = time.time_ns() // 1_000_000
    with scratch_folder() as folder, sync_playwright() as playwright:
        say("writing the warehouse")
        rows = write(folder, now_ms)
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        say("loading each page")
        loads = measure_pages(browser, folder, now_ms, pages, options.times)
        browser.close()
    console = Console(width=max(Console().width, 124))
    console.print(str(machine))
    console.print(", ".join(f"{count:,} {table}" for table, count in rows.items()))
    console.print(_table(loads))
    write_report(options.json, machine, rows=dict(rows), pages=[asdict(load) for load in loads])


def _table(loads: list[PageLoad]) -> Table:
    table = Table("page", title="medians")
    for heading in ("server", "its CPU", "answer", "from nothing", "within", "longest task", "CPU", "nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for load in loads:
        table.add_row(
            load.name,
            f"{load.server_ms:,.0f} ms",
            f"{load.server_cpu_ms:,.0f} ms",
            f"{load.answer_bytes / 1024:,.0f} KiB",
            f"{load.stands_ms:,.0f} ms",
            f"{load.reached_ms:,.0f} ms",
            f"{load.longest_task_ms:,.0f} ms",
            f"{load.browser_cpu_ms:,.0f} ms",
            f"{load.nodes:,}",
            end_section=load.name == "empty page",
        )
    return table


if __name__ == "__main__":
    measure_board("board", PAGES, write_warehouse)
