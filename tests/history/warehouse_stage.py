"""Warehouses of a few rows, and commands run on them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.warehouse.writer import append_rows
from tests.support.row_writer import RowWriter

START_MS = 1_750_000_000_000
"""2025-06-15T15:06:40Z"""

Row = dict[str, Any]


def write(warehouse: Path, *batches: Mapping[str, Sequence[Row]]) -> Path:
    """Each batch is a commit, and a file, of each of its tables."""
    writer = RowWriter(warehouse)
    for batch_id, rows in enumerate(batches):
        append_rows(writer, {name: list(of_table) for name, of_table in rows.items()}, "app", batch_id)
    return warehouse


def run(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--warehouse", str(warehouse)])


def rows_of(warehouse: Path, *arguments: str) -> list[Row]:
    """What the command prints as JSON."""
    result = run(warehouse, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    rows: list[Row] = json.loads(result.stdout)
    return rows


def alert(incident: str, state: str, second: int, **columns: Any) -> Row:
    return {
        "alert_id": incident,
        "incident_id": f"{incident}-1",
        "kind": "starved_queue",
        "severity": "critical",
        "state": state,
        "reason": "hold_over" if state == "FIRING" else None,
        "cause": "frozen_client",
        "cluster": "c",
        "consumer_group": "billing",
        "topic": "orders",
        "queues": ["broker-a:0", "broker-a:1"],
        "summary": "Nobody consumes 2 queues.",
        "advice": "Restart it.",
        "evidence": '{"client_addr": "10.0.0.1:5"}',
        "started_at": START_MS,
        "fired_at": START_MS + 5_000 if state != "PENDING" else None,
        "changed_at": START_MS + second * 1000,
    } | columns


def assignment(queue_id: int, verdict: str, second: int, **columns: Any) -> Row:
    return {
        "cluster": "c",
        "consumer_group": "billing",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": queue_id,
        "planned_owner": "A@1",
        "observed_owners": ["A@1"],
        "verdict": verdict,
        "completeness": 1.0,
        "since": START_MS + second * 1000,
        "changed_at": START_MS + second * 1000,
    } | columns


def backlog(queue_id: int, messages: int | None, second: int, **columns: Any) -> Row:
    of_queue = {"cluster": "c", "consumer_group": "billing", "topic": "orders", "broker_name": "broker-a"}
    row = of_queue | {"queue_id": queue_id, "messages": messages, "changed_at": START_MS + second * 1000}
    return row | columns


def member(client_id: str, change: str, second: int, **columns: Any) -> Row:
    return {
        "cluster": "c",
        "consumer_group": "billing",
        "broker_name": "broker-a",
        "client_id": client_id,
        "client_addr": f"{client_id.partition('@')[0]}:5",
        "language": "JAVA",
        "client_version": "5.3.3",
        "topics": ["orders"],
        "strategy": "AVG",
        "change": change,
        "last_heartbeat": START_MS + second * 1000,
        "changed_at": START_MS + second * 1000,
    } | columns


def fault(client_id: str, second: int, *, available: bool, **columns: Any) -> Row:
    return {
        "cluster": "c",
        "broker_name": "broker-b",
        "client_id": client_id,
        "client_version": "5.1.4",
        "current_latency_ms": 10 if available else 3_001,
        "isolation": not available,
        "start_timestamp": START_MS + second * 1000 + 30_000,
        "available": available,
        "changed_at": START_MS + second * 1000,
    } | columns


def delivery(incident: str, outcome: str, second: int, **columns: Any) -> Row:
    return {
        "incident_id": f"{incident}-1",
        "state": "FIRING",
        "receiver": "pager",
        "attempt": 1 if outcome == "DELIVERED" else 0,
        "code": 202 if outcome == "DELIVERED" else None,
        "latency_ms": 12,
        "delivered_at": START_MS + second * 1000,
        "delivery_key": f"{incident}-1:firing:{START_MS + 5_000}",
        "kind": "starved_queue",
        "status": "firing",
        "changed_at": START_MS + 5_000,
        "outcome": outcome,
        "reason": None,
        "route": "all",
    } | columns
