"""A batch of the assignments query that touches every group, and one that touches one in a hundred."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.ingest.publisher import Publisher
from streaming.ingest.topics import create_topics
from streaming.queries import assignments
from streaming.queries.rows import Rows
from streaming.queries.running import start_query
from streaming.queries.warehouse import DeltalakeWriter
from streaming.session import start_spark
from tests.bench.events import BROKERS, CLIENTS, CLUSTER, QUEUES, heartbeats, pulls, routes, write_messages
from tests.bench.figures import Spread, phases_of, spread_of, state_of
from tests.bench.memory import Memory, MemorySampler
from tests.bench.pacer import clock
from tests.bench.scratch import SPARK_LOG, say, scratch

STEP_MS = 1_000
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Touched:
    """Batches that each touched `groups` groups. `rows` counts Kafka rows of one of them."""

    groups: int
    rows: int
    seconds: Spread
    rows_per_second: Spread
    phases_ms: dict[str, int]
    state: dict[str, int]


@dataclass(frozen=True)
class AssignmentsResult:
    """`first` makes the state of all groups, `all` and `few` change it."""

    first: Touched
    all: Touched
    few: Touched
    memory: Memory


class Gate:
    """An `on_rows` that holds the query at the end of a batch while it is shut, so that all that is written
    meanwhile is one batch."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._held = threading.Event()

    def __call__(self, name: str, batch_id: int, rows: Rows) -> None:
        self._held.set()
        self._open.wait(PATIENCE_SECONDS)

    def shut(self) -> None:
        self._held.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def wait_until_held(self) -> None:
        if not self._held.wait(PATIENCE_SECONDS):
            raise TimeoutError(f"the assignments query ended no batch in {PATIENCE_SECONDS} s")


def measure_assignments(groups: int, repetitions: int) -> AssignmentsResult:
    """Make `groups` groups of 16 queues and 5 clients, then touch them all, and 1 %, several times."""
    with scratch(0) as place, MemorySampler() as sampler:
        sampler.leave_out(place.kafka.pid)
        settings = place.settings_for("assignments")
        create_topics(settings.kafka)
        spark = start_spark(settings, SPARK_LOG)
        gate = Gate()
        try:
            running = start_query(
                assignments.NAME,
                assignments.start_dataframe(spark, settings),
                settings,
                DeltalakeWriter(settings.paths.warehouse),
                on_rows=gate,
            )
            plan = [groups, *([groups] * repetitions), *([max(1, groups // 100)] * repetitions)]
            start_ms = time.time_ns() // 1_000_000 - len(plan) * STEP_MS
            for number, touched in enumerate(plan):
                _touch(spark, settings, gate, touched, start_ms + number * STEP_MS)
                running.query.processAllAvailable()
                say(f"assignments {number + 1}/{len(plan)}: {touched:,} groups")
            batches = [progress for progress in running.query.recentProgress if progress.numInputRows > 1]
            running.stop()
        finally:
            gate.open()
            spark.stop()
    if len(batches) != len(plan):
        raise RuntimeError(f"{len(plan)} batches were due, {len(batches)} came")
    return AssignmentsResult(
        _touched(groups, batches[:1]),
        _touched(groups, batches[1 : repetitions + 1]),
        _touched(plan[-1], batches[repetitions + 1 :]),
        sampler.peak,
    )


def _touch(spark: SparkSession, settings: Settings, gate: Gate, groups: int, at_ms: int) -> None:
    """Hold the query with a clock event of another cluster, write a whole batch, and let go."""
    with Publisher(settings.kafka) as publisher:
        gate.shut()
        publisher.publish(CLOCKS, clock("nobody", (), at_ms))
        publisher.flush()
        gate.wait_until_held()
        write_messages(
            routes(spark, at_ms).union(heartbeats(spark, groups, at_ms)).union(pulls(spark, groups, at_ms)),
            settings.kafka,
        )
        publisher.publish(CLOCKS, clock(CLUSTER, BROKERS, at_ms + 1))
        publisher.flush()
        gate.open()


def _touched(groups: int, batches: Sequence[Any]) -> Touched:
    seconds = [progress.durationMs["triggerExecution"] / 1000 for progress in batches]
    rows = [progress.numInputRows for progress in batches]
    if max(rows) < groups * (QUEUES + CLIENTS):
        raise RuntimeError(f"a batch of {groups} groups had {max(rows)} rows")
    return Touched(
        groups,
        rows[-1],
        spread_of(seconds),
        spread_of([count / spent for count, spent in zip(rows, seconds, strict=True)]),
        phases_of(batches),
        state_of(batches),
    )
