"""The cost of each page of the board over 1,000 groups, 20,000 queues, a million rows and 10,000 incidents.

The time of the server's answer, and the longest task of Chromium's main thread while it shows the page.
"""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

from conf.settings import Settings
from streaming.board.web.app import BoardServer
from streaming.text.times import wall_ms
from tests.board.conftest import CHROMIUM_ARGS, chromium
from tests.lab.bench.board_warehouse import CLUSTER, GIANT, write_warehouse
from tests.lab.bench.figures import Figures
from tests.lab.bench.scratch import scratch_folder
from tests.support.laboratory import say

MINUTE = 60_000

OBSERVE = """
window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(one => window.tasks.push(one.duration)))
  .observe({ type: "longtask", buffered: true });
"""

SETTLE_MS = 400
"""Time after the page is shown in which its tasks still count."""

GROUP = f"cluster={CLUSTER}&group=group-0007"
LARGE = f"cluster={CLUSTER}&group={GIANT}"

PAGES = (
    ("a group that is unknown, the floor", "/group?cluster=none&group=none"),
    ("groups", "/groups"),
    ("groups, searched", "/groups?q=0007"),
    ("group of 10 queues", f"/group?{GROUP}"),
    ("group of 10,000 queues", f"/group?{LARGE}"),
    ("the same 3 hours ago", f"/group?{LARGE}&at=3h"),
    ("history of 10 queues", f"/history?{GROUP}&since=24h"),
    ("history of 10,000 queues", f"/history?{LARGE}&since=24h"),
    ("brokers, 200 for a day", "/brokers?since=24h"),
    ("overview", "/"),
    ("alerts of a day", "/alerts"),
    ("alerts of a month", "/alerts?since=30d"),
    ("alerts, page 100", "/alerts?page=100"),
    ("alerts of one group", "/alerts?group=group-0007"),
    ("an incident with 1,600 effects", "/incident?id=incident-00000"),
    ("quality, 50,000 quarantined", "/quality"),
)


def measure_board(times: int) -> Figures:
    """Load each page `times` times; medians. The clock advances before each load, so no answer comes from a cache."""
    figures = Figures()
    now_ms = wall_ms()
    with scratch_folder() as folder, sync_playwright() as playwright:
        say("board: writing the warehouse")
        rows = write_warehouse(folder, now_ms)
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        with _served(folder, now_ms) as (clock, url):
            for name, path in PAGES:
                say(f"board: {name}")
                server, tasks = list[float](), list[float]()
                for _ in range(times):
                    clock[0] += MINUTE
                    began = time.perf_counter()
                    httpx.get(url + path, timeout=60, trust_env=False)
                    server.append(time.perf_counter() - began)
                    clock[0] += MINUTE
                    tasks.append(_longest_task_ms(browser, url + path) / 1000)
                beside = f"longest task {statistics.median(tasks):.2f} s"
                figures.add_spread(f"board, {name}", server, "{:.2f} s", beside)
                figures.values[f"board, {name}, longest task"] = tasks
        browser.close()
    figures.add(
        "board, rows", f"{sum(rows.values()):,}", "", ", ".join(f"{count:,} {name}" for name, count in rows.items())
    )
    return figures


@contextmanager
def _served(warehouse: Path, now_ms: int) -> Iterator[tuple[list[int], str]]:
    """A board on a free port: its clock, which the caller sets, and its URL."""
    clock = [now_ms]
    settings = Settings.load(paths={"warehouse": warehouse}, board={"port": 0, "refresh_seconds": 60})
    server = BoardServer(settings, lambda: clock[0])
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield clock, server.url.rstrip("/")
    finally:
        server.close()
        thread.join(10)


def _longest_task_ms(browser: Browser, url: str) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    try:
        tab = context.new_page()
        tab.add_init_script(OBSERVE)
        tab.goto(url)
        tab.wait_for_selector("#title", timeout=60_000)
        tab.wait_for_timeout(SETTLE_MS)
        return float(tab.evaluate("Math.max(0, ...window.tasks)"))
    finally:
        context.close()
