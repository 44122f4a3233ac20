"""A history as a cluster of a thousand groups leaves it: its rows made by columns."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from schemas.tables import ALERT_DELIVERIES, ALERTS, ASSIGNMENTS, FAULT_ITEMS, MEMBERSHIPS, TABLES, Table
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.tables import table_path
from tests.support.row_writer import create_tables

START_MS = 1_790_000_000_000
DAYS = 7
END_MS = START_MS + DAYS * 86_400_000
GROUPS, BROKERS, QUEUES = 1_000, 4, 16

SHARES: Mapping[str, float] = {
    ASSIGNMENTS.name: 0.70,
    MEMBERSHIPS.name: 0.10,
    FAULT_ITEMS.name: 0.10,
    ALERTS.name: 0.05,
    ALERT_DELIVERIES.name: 0.05,
}
"""Share of each table in all rows."""


def write_history(warehouse: Path, rows: int, files: int) -> dict[str, int]:
    """Make the tables, each in `files` files of one commit each; return the rows of each."""
    create_tables(warehouse)
    counts = {name: int(rows * share) for name, share in SHARES.items()}
    rng = np.random.default_rng(7)
    for name, count in counts.items():
        for begin, end in pairwise(count * number // files for number in range(files + 1)):
            part = rows_of(TABLES[name], np.arange(begin, end), count, rng)
            write_deltalake(table_path(warehouse, name), part, mode="append")
    return counts


def rows_of(table: Table, numbers: np.ndarray, rows: int, rng: np.random.Generator) -> pa.Table:
    """Return the rows with these numbers, of `rows` in all."""
    count = len(numbers)
    groups, queues = rng.integers(0, GROUPS, count), rng.integers(0, QUEUES, count)
    clients = [
        f"10.0.{group % 250}.{queue % 5}@{group}#81203344120019" for group, queue in zip(groups, queues, strict=True)
    ]
    incidents = numbers // 4  # each has four rows
    at = pa.array((START_MS + numbers * (DAYS * 86_400_000 // rows)) * 1000, pa.timestamp("us", "UTC"))
    states = ("PENDING", "FIRING", "RECOVERING", "RESOLVED")
    given: dict[str, object] = {
        "cluster": ["prod-1"] * count,
        "consumer_group": [f"group-{group:04}" for group in groups],
        "topic": [f"topic-{group % 300:03}" for group in groups],
        "broker_name": [f"broker-{'abcd'[queue % BROKERS]}" for queue in queues],
        "queue_id": queues // BROKERS,
        "planned_owner": clients,
        "observed_owners": [[client] for client in clients],
        "client_id": clients,
        "client_addr": [f"{client.partition('@')[0]}:50509" for client in clients],
        "verdict": rng.choice(["OK", "UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED"], count, p=[0.9, 0.05, 0.03, 0.02]),
        "change": rng.choice(["JOINED", "LEFT"], count),
        "available": rng.random(count) < 0.5,
        "incident_id": [
            f"{int(incident) * 2_654_435_761 % 2**64:016x}-{START_MS + incident}" for incident in incidents
        ],
        "kind": ["starved_queue"] * count,
        "state": [states[number % 4] for number in numbers],
        "queues": [[f"broker-a:{queue}"] for queue in queues],
        "summary": [f"Group group-{group:04} does not consume 1 queue of topic-{group % 300:03}." for group in groups],
        "evidence": [
            json.dumps({"client_addr": f"10.0.0.{queue}:5", "max_offset": int(group)})
            for group, queue in zip(groups, queues, strict=True)
        ],
        "outcome": ["DELIVERED"] * count,
        "receiver": ["pager"] * count,
        "completeness": np.ones(count),
        "batch_id": numbers // 100,
    }
    columns = []
    for field in arrow_schema(table):
        if pa.types.is_timestamp(field.type):
            columns.append(at)
        elif field.name in given or not field.nullable:
            filling = 0 if pa.types.is_integer(field.type) else False if pa.types.is_boolean(field.type) else "x"
            columns.append(pa.array(given.get(field.name, [filling] * count), field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.table(columns, schema=arrow_schema(table))
