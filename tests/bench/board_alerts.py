"""`python -m tests.bench.board_alerts`: the overview and the alerts page over 10,000 incidents, half of them firing.

The columns are those of tests/bench/board.py; an empty page and an empty figure of the same run stand beside.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from schemas.tables import TABLES
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path
from tests.bench.machine import read_machine
from tests.bench.page_loads import PageLoad, measure_pages
from tests.bench.scratch import say
from tests.board.conftest import CHROMIUM_ARGS, chromium
from tests.row_writer import create_tables

INCIDENTS = 10_000
KINDS = (
    "starved_queue",
    "duplicate_client_id",
    "double_consumed_queue",
    "split_view",
    "broker_isolated",
    "group_offline",
)
DAY_MS = 86_400_000

PAGES = (
    ("overview", "/"),
    ("alerts of a day", "/alerts"),
    ("alerts of a month", "/alerts?since=30d"),
    ("alerts, page 100", "/alerts?page=100"),
    ("alerts of one group", "/alerts?group=group-0007"),
    ("an incident with 1,600 effects", "/incident?id=incident-00000"),
    ("quality, 50,000 quarantined", "/quality"),
)


def main() -> None:
    options = _parse()
    now_ms = time.time_ns() // 1_000_000
    with tempfile.TemporaryDirectory(prefix="balancewatch-bench-", ignore_cleanup_errors=True) as folder:
        say("writing the warehouse")
        write_incidents(Path(folder), now_ms)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
            say("loading each page")
            loads = measure_pages(browser, Path(folder), now_ms, PAGES, options.times)
            browser.close()
    machine = read_machine()
    console = Console(width=max(Console().width, 124))
    console.print(f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib} GiB, load {machine.load}")
    console.print(_table(loads))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.board_alerts")
    parser.add_argument("--times", type=int, default=5, help="loads of each page, whose median counts (%(default)s)")
    return parser.parse_args()


def _table(loads: list[PageLoad]) -> Table:
    table = Table("page", title=f"{INCIDENTS:,} incidents, medians")
    for heading in ("server", "answer", "from nothing", "within", "longest task", "nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for load in loads:
        table.add_row(
            load.name,
            f"{load.server_ms:,.0f} ms",
            f"{load.answer_bytes / 1024:,.0f} KiB",
            f"{load.stands_ms:,.0f} ms",
            f"{load.reached_ms:,.0f} ms",
            f"{load.longest_task_ms:,.0f} ms",
            f"{load.nodes:,}",
            end_section=load.name == "empty figure",
        )
    return table


def write_incidents(root: Path, end_ms: int) -> None:
    """Four rows an incident over a day, every second one open, every sixth an effect of the first; and quarantine."""
    create_tables(root)
    rng = np.random.default_rng(1)
    starts = np.sort(rng.integers(end_ms - DAY_MS, end_ms - 60_000, INCIDENTS))
    rows = [row for number in range(INCIDENTS) for row in _steps(number, int(starts[number]), end_ms)]
    _append(root, "alerts", rows)
    quarantine = [
        {
            "topic": "rocketmq.pulls",
            "partition": 0,
            "offset": number,
            "raw": b"x" * 400,
            "reasons": [("not_json", "missing: topic", "too_large")[number % 3]],
            "ingest_time": int(time_ms),
        }
        for number, time_ms in enumerate(rng.integers(end_ms - DAY_MS, end_ms, 50_000))
    ]
    _append(root, "quarantine", quarantine)


def _append(root: Path, name: str, rows: list[dict[str, object]]) -> None:
    table: pa.Table = arrow_table(rows, TABLES[name], 0)
    for start in range(0, len(table), 4_000):
        write_deltalake(table_path(root, name), table.slice(start, 4_000), mode="append")


def _steps(number: int, start_ms: int, end_ms: int) -> list[dict[str, object]]:
    incident_id = f"incident-{number:05}"
    is_open = number % 2 == 0
    over_ms = min(end_ms, start_ms + 600_000)
    times = [("PENDING", start_ms), ("FIRING", start_ms + 10_000), ("FIRING", start_ms + 20_000)]
    times.append(("FIRING", start_ms + 30_000) if is_open else ("RESOLVED", over_ms))
    group = f"group-{number % 1_000:04}"
    return [
        {
            "alert_id": incident_id,
            "incident_id": incident_id,
            "kind": KINDS[number % len(KINDS)],
            "severity": ("critical", "error", "warning")[number % 3],
            "state": state,
            "reason": "hold_over",
            "cause": "frozen_client",
            "cluster": f"prod-{number % 4}",
            "consumer_group": group,
            "topic": "orders",
            "queues": [f"broker-{number % 200:03}:{queue}" for queue in range(4)],
            "summary": f"Nobody consumes 4 queues of topic orders in group {group} since a while ago. Why: it froze.",
            "advice": "Look at 10.20.0.12@5120#81203344120874 (full GC, swapped out, suspended?) and restart it.",
            "evidence": '{"client_addr": "10.20.0.12:5120"}',
            "inhibited_by": "incident-00000" if number % 6 == 4 else None,
            "started_at": start_ms,
            "fired_at": None if state == "PENDING" else start_ms + 10_000,
            "changed_at": time_ms,
        }
        for state, time_ms in times
    ]


if __name__ == "__main__":
    main()
