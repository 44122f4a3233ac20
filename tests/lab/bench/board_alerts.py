"""`python -m tests.lab.bench.board_alerts`: the overview and the alerts page over 10,000 incidents, half of them open.

The columns are those of tests/lab/bench/board.py.
"""

from pathlib import Path

import numpy as np
from deltalake import write_deltalake

from schemas.tables import TABLES
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path
from tests.lab.bench.board import measure_board
from tests.support.row_writer import create_tables

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


def write_incidents(root: Path, end_ms: int) -> dict[str, int]:
    """Write four rows an incident over a day, every second one open, every sixth an effect of the first; and
    quarantine. Return the rows of each table."""
    create_tables(root)
    rng = np.random.default_rng(1)
    starts = np.sort(rng.integers(end_ms - DAY_MS, end_ms - 60_000, INCIDENTS))
    rows = [row for number in range(INCIDENTS) for row in _steps(number, int(starts[number]), end_ms)]
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
    tables = {"alerts": rows, "quarantine": quarantine}
    for name, of_table in tables.items():
        for start in range(0, len(of_table), 4_000):
            part = arrow_table(of_table[start : start + 4_000], TABLES[name], 0)
            write_deltalake(table_path(root, name), part, mode="append")
    return {name: len(of_table) for name, of_table in tables.items()}


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
    measure_board("board_alerts", PAGES, write_incidents)
