"""`python -m tests.bench.board`: the cost of each page over 1,000 groups, 20,000 queues and a million rows.

server: the time of the answer. From nothing: until the page is shown in a browser that has no cache. Within: the same
from another page of the board; the longest task and the CPU of the tab's main thread are of this way. An empty page is
measured in the same run. Compare within a run; absolute figures are the machine's.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from tests.bench.board_warehouse import CLUSTER, GIANT, write_warehouse
from tests.bench.page_loads import PageLoad, measure_pages
from tests.bench.scratch import read_machine, say, scratch_folder, write_report
from tests.board.conftest import CHROMIUM_ARGS, chromium

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
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}", description=__doc__.split("\n\n", 1)[1])
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
