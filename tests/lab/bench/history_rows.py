"""A history as a cluster of a thousand groups leaves it: its rows made by columns, in few files or in many."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema, write_deltalake
from deltalake.transaction import AddAction

from schemas.tables import ALERT_DELIVERIES, ALERTS, ASSIGNMENTS, FAULT_ITEMS, MEMBERSHIPS, TABLES, Table
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.tables import open_table, table_path
from tests.support.row_writer import create_tables

START_MS = 1_790_000_000_000
DAYS = 7
GROUPS, BROKERS, QUEUES = 1_000, 4, 16
COMMIT_FILES = 100

SHARES: Mapping[str, float] = {
    ASSIGNMENTS.name: 0.70,
    MEMBERSHIPS.name: 0.10,
    FAULT_ITEMS.name: 0.10,
    ALERTS.name: 0.05,
    ALERT_DELIVERIES.name: 0.05,
}
"""Share of each table in all rows."""


def end_ms() -> int:
    return START_MS + DAYS * 86_400_000


def write_history(warehouse: Path, rows: int, files: int) -> dict[str, int]:
    """Make the tables, each in `files` files of one commit each; return the rows of each."""
    create_tables(warehouse)
    counts = {name: int(rows * share) for name, share in SHARES.items()}
    for name, count in counts.items():
        for part in _parts(TABLES[name], count, files):
            write_deltalake(table_path(warehouse, name), part, mode="append")
    return counts


def write_small_files(warehouse: Path, table: Table, rows: int, files: int) -> None:
    """Write the table in many small files, as micro-batches leave them; a commit has COMMIT_FILES of them."""
    handle, schema = open_table(warehouse, table), Schema.from_arrow(arrow_schema(table))
    folder, actions = Path(table_path(warehouse, table.name)), list[AddAction]()
    for number, part in enumerate(_parts(table, rows, files), 1):
        actions.append(_write_file(folder, number, part))
        if len(actions) == COMMIT_FILES or number == files:
            handle.create_write_transaction(actions, "append", schema, [])
            actions = []


def _write_file(folder: Path, number: int, part: pa.Table) -> AddAction:
    path = folder / f"part-{number:06d}.snappy.parquet"
    pq.write_table(part, path)
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for field in part.schema:
        if pa.types.is_timestamp(field.type):
            ends = pc.min_max(part[field.name]).as_py()
            least[field.name], most[field.name] = (
                f"{ends[end]:%Y-%m-%dT%H:%M:%S}.{ends[end].microsecond // 1000:03d}Z" for end in ("min", "max")
            )
    stats = {"numRecords": part.num_rows, "minValues": least, "maxValues": most, "nullCount": {}}
    return AddAction(path.name, path.stat().st_size, {}, START_MS, True, json.dumps(stats))


def _parts(table: Table, rows: int, files: int) -> Iterator[pa.Table]:
    """Yield the parts in order of time, evenly over the days."""
    rng = np.random.default_rng(7)
    for begin, end in pairwise(rows * number // files for number in range(files + 1)):
        yield rows_of(table, np.arange(begin, end), rows, rng)


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
