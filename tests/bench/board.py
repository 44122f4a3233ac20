"""`python -m tests.bench.board`: what each page costs over 1,000 groups, 20,000 queues and a million rows of history.

server: the time of the answer. From nothing: until the page is shown in a browser that has no cache. Within: the same
from another page of the board; the longest task and the CPU of the tab's main thread are of this way. An empty page is
measured in the same run. Compare within a run; absolute figures are the machine's.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from tests.bench.board_warehouse import CLUSTER, GIANT, Size, write_warehouse
from tests.bench.machine import read_machine
from tests.bench.page_loads import PageLoad, measure_pages
from tests.bench.scratch import say
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


def main() -> None:
    options = _parse()
    machine = read_machine()
    now_ms = time.time_ns() // 1_000_000
    with tempfile.TemporaryDirectory(prefix="balancewatch-bench-", ignore_cleanup_errors=True) as folder:
        say("writing the warehouse")
        rows = write_warehouse(Path(folder), Size(), now_ms)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
            say("loading each page")
            loads = measure_pages(browser, Path(folder), now_ms, PAGES, options.times)
            browser.close()
    console = Console(width=max(Console().width, 124))
    console.print(f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib} GiB, load {machine.load} before")
    console.print(", ".join(f"{count:,} {name}" for name, count in rows.items()))
    console.print(_table(loads))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(_report(loads, rows), indent=2) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.board", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--times", type=int, default=5, help="loads of each page, whose median counts (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path(".bench/board.json"), help="default: %(default)s")
    return parser.parse_args()


def _report(loads: list[PageLoad], rows: Mapping[str, int]) -> dict[str, object]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"at": at, "machine": asdict(read_machine()), "rows": dict(rows), "pages": [asdict(load) for load in loads]}


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
    main()
