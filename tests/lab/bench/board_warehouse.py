"""A warehouse as a large installation has it: the tables' rows are made up, seeded, and written without Spark.

1,000 groups of ten queues and five members, one more group of 10,000 queues, a day of moves; in every fiftieth group
something is wrong now. 200 brokers are avoided now and then by some of fifty producers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from schemas.tables import TABLES
from streaming.warehouse.rows import arrow_schema, arrow_table
from streaming.warehouse.tables import table_path
from tests.support.row_writer import create_tables

CLUSTER = "prod-1"
GIANT = "giant"
DAY_MS = 86_400_000
WRONG = ("UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED")


@dataclass(frozen=True)
class Size:
    """How large the warehouse is; `assignment_rows` is the length of its history."""

    groups: int = 1_000
    queues_per_group: int = 10
    members_per_group: int = 5
    giant_queues: int = 10_000
    giant_members: int = 500
    assignment_rows: int = 1_000_000
    brokers: int = 200
    producers: int = 50
    broker_rows: int = 40_000
    files: int = 100


def write_warehouse(root: Path, end_ms: int, size: Size | None = None) -> Mapping[str, int]:
    """Write every table; return the rows of each. History ends at `end_ms`."""
    size = size or Size()
    create_tables(root)
    rng = np.random.default_rng(1)
    tables = {
        "assignments": _assignments(size, end_ms, rng),
        "memberships": _memberships(size, end_ms),
        "alerts": _alerts(size, end_ms),
        "broker_health": _broker_health(size, end_ms, rng),
        "fault_items": _fault_items(size, end_ms, rng),
    }
    for name, rows in tables.items():
        files = size.files if name == "assignments" else max(1, size.files // 10)
        step = -(-len(rows) // files)
        for start in range(0, len(rows), step):
            write_deltalake(table_path(root, name), rows.slice(start, step), mode="append")
    return {name: len(rows) for name, rows in tables.items()}


def broker(number: int) -> str:
    return f"broker-{number:03}"


def client_id(group: int, member: int) -> str:
    return f"10.{group // 250}.{group % 250}.{member % 250 + 1}@{4000 + member}#{70511902733401 + group * 997 + member}"


def _queues(size: Size) -> list[tuple[str, str, int, str, int]]:
    """(group, topic, group number, broker, queue_id) of every queue."""
    queues = []
    for group in range(size.groups):
        for queue in range(size.queues_per_group):
            name = broker((group + queue % 2) % size.brokers)
            queues.append((f"group-{group:04}", f"topic-{group % 400:03}", group, name, queue // 2))
    for queue in range(size.giant_queues):
        queues.append((GIANT, "firehose", size.groups, broker(queue % size.brokers), queue // size.brokers))
    return queues


def _assignments(size: Size, end_ms: int, rng: Any) -> pa.Table:
    """Each queue moves between two members now and then; at the end some of every fiftieth group are wrong."""
    queues = _queues(size)
    moves = size.assignment_rows // len(queues)
    times = np.sort(rng.integers(end_ms - DAY_MS, end_ms - 3_600_000, (moves, len(queues))), axis=0)
    numbers = np.arange(len(queues))
    columns: dict[str, list[Any]] = {name: [] for name in arrow_schema(TABLES["assignments"]).names}
    for move in range(moves):
        is_last = move == moves - 1
        for number, (group, topic, group_number, broker_name, queue_id) in zip(numbers, queues, strict=True):
            members = size.giant_members if group == GIANT else size.members_per_group
            owner = client_id(group_number, (int(number) + move) % members)
            verdict, planned, observed = "OK", owner, [owner]
            if is_last and group_number % 50 == 7 and number % 3 == 0:
                verdict = WRONG[group_number // 50 % 4]
            elif is_last and group == GIANT and number % 97 == 0:
                verdict = WRONG[int(number) % 4]
            if verdict == "UNOWNED":
                planned, observed = None, []
            elif verdict == "NOT_CONSUMED":
                observed = []
            elif verdict == "DOUBLE_CONSUMED":
                observed = [owner, client_id(group_number, (int(number) + move + 1) % members)]
            elif verdict == "MISPLACED":
                observed = [client_id(group_number, (int(number) + move + 1) % members)]
            time_us = int(times[move, number]) * 1000
            row = (CLUSTER, group, topic, broker_name, queue_id, planned, observed, verdict, 1.0, time_us, time_us)
            for values, value in zip(columns.values(), (*row, None, move), strict=True):
                values.append(value)
    schema = arrow_schema(TABLES["assignments"])
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema).sort_by("changed_at")


def _memberships(size: Size, end_ms: int) -> pa.Table:
    rows = []
    for group in range(size.groups + 1):
        name = GIANT if group == size.groups else f"group-{group:04}"
        topic = "firehose" if group == size.groups else f"topic-{group % 400:03}"
        for member in range(size.giant_members if group == size.groups else size.members_per_group):
            for view in range(2):
                rows.append(
                    {
                        "cluster": CLUSTER,
                        "consumer_group": name,
                        "broker_name": broker((group + view) % size.brokers),
                        "client_id": client_id(group, member),
                        "client_addr": f"10.{group // 250}.{group % 250}.{member % 250 + 1}:{30000 + member + view}",
                        "language": "JAVA",
                        "client_version": "V4_9_8",
                        "topics": [topic],
                        "strategy": "AVG",
                        "change": "JOINED",
                        "last_heartbeat": end_ms - 20_000,
                        "changed_at": end_ms - DAY_MS + member * 1000,
                    }
                )
    return arrow_table(rows, TABLES["memberships"], 0)


def _alerts(size: Size, end_ms: int) -> pa.Table:
    rows = []
    for group in range(7, size.groups, 50):
        started_ms = end_ms - 3_000_000 - group * 1000
        rows.append(
            {
                "alert_id": f"{group:016x}",
                "incident_id": f"{group:016x}-{started_ms}",
                "kind": "starved_queue",
                "severity": "critical",
                "state": "FIRING",
                "cause": "frozen_client",
                "cluster": CLUSTER,
                "consumer_group": f"group-{group:04}",
                "topic": f"topic-{group % 400:03}",
                "broker_name": broker(group % size.brokers),
                "queues": [f"{broker(group % size.brokers)}:0"],
                "summary": f"Nobody consumes 1 queue of topic topic-{group % 400:03}.",
                "advice": "Restart it.",
                "evidence": "{}",
                "started_at": started_ms,
                "fired_at": started_ms + 10_000,
                "changed_at": started_ms + 10_000,
            }
        )
    return arrow_table(rows, TABLES["alerts"], 0)


def _broker_health(size: Size, end_ms: int, rng: Any) -> pa.Table:
    rows = []
    moments = np.sort(rng.integers(end_ms - DAY_MS, end_ms, size.broker_rows))
    numbers = rng.integers(0, size.brokers, size.broker_rows)
    avoiders = rng.integers(0, size.producers, size.broker_rows)
    for moment, number, k in zip(moments.tolist(), numbers.tolist(), avoiders.tolist(), strict=True):
        k_now = 0 if k % 3 else k
        rows.append(
            {
                "cluster": CLUSTER,
                "broker_name": broker(number),
                "unavailable_producers": k_now,
                "producers": size.producers,
                "unavailable_until": moment + 30_000 if k_now else None,
                "changed_at": moment,
            }
        )
    return arrow_table(rows, TABLES["broker_health"], 0)


def _fault_items(size: Size, end_ms: int, rng: Any) -> pa.Table:
    rows = []
    for number in range(size.brokers):
        for producer in range(size.producers):
            start_ms = end_ms - int(rng.integers(0, DAY_MS))
            for is_available, at_ms in ((False, start_ms), (True, start_ms + 30_000)):
                if is_available and number % 20 == 3 and producer % 5 == 0:
                    continue
                rows.append(
                    {
                        "cluster": CLUSTER,
                        "broker_name": broker(number),
                        "client_id": f"10.9.0.{producer}@{6000 + producer}#{producer}",
                        "client_version": "V4_9_8" if producer % 4 else "V5_1_4",
                        "current_latency_ms": int(rng.integers(550, 4000)),
                        "isolation": producer % 7 == 0,
                        "start_timestamp": end_ms + 30_000,
                        "available": is_available,
                        "changed_at": at_ms,
                    }
                )
    return arrow_table(rows, TABLES["fault_items"], 0)
