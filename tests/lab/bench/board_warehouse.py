"""A warehouse as a large installation has it: the tables' rows are made up, seeded, and written without Spark.

1,000 groups of ten queues and five members, one more group of 10,000 queues, a day of moves; in every fiftieth group
queues have a wrong verdict now. 200 brokers are avoided by turns by fifty producers. Half of the incidents are open.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import write_deltalake

from schemas.tables import TABLES
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path
from tests.support.row_writer import create_tables

CLUSTER = "prod-1"
GIANT = "giant"
DAY_MS = 86_400_000
WRONG = ("UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED")
KINDS = (
    "starved_queue",
    "duplicate_client_id",
    "double_consumed_queue",
    "split_view",
    "broker_isolated",
    "group_offline",
)
COMMIT_ROWS = 20_000
BROKERS, PRODUCERS = 200, 50

Rows = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Size:
    """How large the warehouse is; `assignment_rows` is the length of its history."""

    groups: int = 1_000
    queues_per_group: int = 10
    members_per_group: int = 5
    giant_queues: int = 10_000
    giant_members: int = 500
    assignment_rows: int = 1_000_000
    broker_rows: int = 40_000
    incidents: int = 10_000
    quarantined: int = 50_000


def write_warehouse(root: Path, end_ms: int, size: Size | None = None) -> Mapping[str, int]:
    """Write every table; return the rows of each. History ends at `end_ms`."""
    size = size or Size()
    create_tables(root)
    rng = np.random.default_rng(1)
    tables: dict[str, Rows] = {
        "assignments": _assignments(size, end_ms, rng),
        "memberships": _memberships(size, end_ms),
        "alerts": _alerts(size, end_ms, rng),
        "broker_health": _broker_health(size, end_ms, rng),
        "fault_items": _fault_items(end_ms, rng),
        "quarantine": _quarantine(size, end_ms, rng),
    }
    counts = dict.fromkeys(tables, 0)
    for name, rows in tables.items():
        rest = iter(rows)
        while chunk := list(islice(rest, COMMIT_ROWS)):
            write_deltalake(table_path(root, name), arrow_table(chunk, TABLES[name], 0), mode="append")
            counts[name] += len(chunk)
    return counts


def broker(number: int) -> str:
    return f"broker-{number:03}"


def client_id(group: int, member: int) -> str:
    return f"10.{group // 250}.{group % 250}.{member % 250 + 1}@{4000 + member}#{70511902733401 + group * 997 + member}"


def _groups(size: Size) -> Iterator[tuple[int, str, str, int, int]]:
    """Number, name, topic, queues and members of each group."""
    for number in range(size.groups):
        yield number, f"group-{number:04}", f"topic-{number % 400:03}", size.queues_per_group, size.members_per_group
    yield size.groups, GIANT, "firehose", size.giant_queues, size.giant_members


def _assignments(size: Size, end_ms: int, rng: Any) -> Iterator[dict[str, Any]]:
    """Each queue moves between two members by turns; at the end some of every fiftieth group are wrong."""
    queues = [(*group, queue) for group in _groups(size) for queue in range(group[3])]
    moves = size.assignment_rows // len(queues)
    slot_ms = (DAY_MS - 3_600_000) / moves
    for move in range(moves):
        times = (end_ms - DAY_MS + (move + np.sort(rng.random(len(queues)))) * slot_ms).astype(int).tolist()
        for time_ms, index in zip(times, rng.permutation(len(queues)).tolist(), strict=True):
            number, group, topic, _, members, queue = queues[index]
            owner, other = (client_id(number, (queue + move + step) % members) for step in (0, 1))
            is_wrong = move == moves - 1 and (
                queue % 97 == 0 if group == GIANT else number % 50 == 7 and queue % 3 == 0
            )
            verdict = WRONG[(number // 50 + queue) % 4] if is_wrong else "OK"
            observed = {
                "UNOWNED": [],
                "NOT_CONSUMED": [],
                "DOUBLE_CONSUMED": [owner, other],
                "MISPLACED": [other],
            }.get(verdict, [owner])
            yield {
                "cluster": CLUSTER,
                "consumer_group": group,
                "topic": topic,
                "broker_name": broker((number + queue % 2 if group != GIANT else queue) % BROKERS),
                "queue_id": queue // (2 if group != GIANT else BROKERS),
                "planned_owner": None if verdict == "UNOWNED" else owner,
                "observed_owners": observed,
                "verdict": verdict,
                "completeness": 1.0,
                "since": time_ms,
                "changed_at": time_ms,
            }


def _memberships(size: Size, end_ms: int) -> Iterator[dict[str, Any]]:
    for number, group, topic, _, members in _groups(size):
        for member in range(members):
            for view in range(2):
                yield {
                    "cluster": CLUSTER,
                    "consumer_group": group,
                    "broker_name": broker((number + view) % BROKERS),
                    "client_id": client_id(number, member),
                    "client_addr": f"10.{number // 250}.{number % 250}.{member % 250 + 1}:{30000 + member + view}",
                    "language": "JAVA",
                    "client_version": "V4_9_8",
                    "topics": [topic],
                    "strategy": "AVG",
                    "change": "JOINED",
                    "last_heartbeat": end_ms - 20_000,
                    "changed_at": end_ms - DAY_MS + member * 1000,
                }


def _alerts(size: Size, end_ms: int, rng: Any) -> Iterator[dict[str, Any]]:
    """Four rows an incident over a day, every second one open, every sixth an effect of the first."""
    for number, start_ms in enumerate(np.sort(rng.integers(end_ms - DAY_MS, end_ms - 60_000, size.incidents)).tolist()):
        end = ("FIRING", start_ms + 30_000) if number % 2 == 0 else ("RESOLVED", min(end_ms, start_ms + 600_000))
        for state, time_ms in (
            ("PENDING", start_ms),
            ("FIRING", start_ms + 10_000),
            ("FIRING", start_ms + 20_000),
            end,
        ):
            group = f"group-{number % 1_000:04}"
            yield {
                "alert_id": f"incident-{number:05}",
                "incident_id": f"incident-{number:05}",
                "kind": KINDS[number % len(KINDS)],
                "severity": ("critical", "error", "warning")[number % 3],
                "state": state,
                "reason": "hold_over",
                "cause": "frozen_client",
                "cluster": f"prod-{number % 4}",
                "consumer_group": group,
                "topic": "orders",
                "queues": [f"{broker(number % BROKERS)}:{queue}" for queue in range(4)],
                "summary": f"No client consumes 4 queues of topic orders in group {group} since a while ago: it froze.",
                "advice": "Check 10.20.0.12@5120#81203344120874 (full GC, swapped out, suspended?) and restart it.",
                "evidence": '{"client_addr": "10.20.0.12:5120"}',
                "inhibited_by": "incident-00000" if number % 6 == 4 else None,
                "started_at": start_ms,
                "fired_at": None if state == "PENDING" else start_ms + 10_000,
                "changed_at": time_ms,
            }


def _broker_health(size: Size, end_ms: int, rng: Any) -> Iterator[dict[str, Any]]:
    for moment in np.sort(rng.integers(end_ms - DAY_MS, end_ms, size.broker_rows)).tolist():
        avoiders = int(rng.integers(0, PRODUCERS))
        unavailable = 0 if avoiders % 3 else avoiders
        yield {
            "cluster": CLUSTER,
            "broker_name": broker(int(rng.integers(0, BROKERS))),
            "unavailable_producers": unavailable,
            "producers": PRODUCERS,
            "unavailable_until": moment + 30_000 if unavailable else None,
            "changed_at": moment,
        }


def _fault_items(end_ms: int, rng: Any) -> Iterator[dict[str, Any]]:
    for number in range(BROKERS):
        for producer in range(PRODUCERS):
            start_ms = end_ms - int(rng.integers(0, DAY_MS))
            for is_available, at_ms in ((False, start_ms), (True, start_ms + 30_000)):
                if is_available and number % 20 == 3 and producer % 5 == 0:
                    continue
                yield {
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


def _quarantine(size: Size, end_ms: int, rng: Any) -> Iterator[dict[str, Any]]:
    for number, time_ms in enumerate(rng.integers(end_ms - DAY_MS, end_ms, size.quarantined).tolist()):
        yield {
            "topic": "rocketmq.pulls",
            "partition": 0,
            "offset": number,
            "raw": b"x" * 400,
            "reasons": [("not_json", "missing: topic", "too_large")[number % 3]],
            "ingest_time": time_ms,
        }
