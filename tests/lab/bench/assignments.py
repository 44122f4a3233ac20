"""A batch that touches every group of a large fleet, one that touches one in a hundred, and one very large group."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from rich.table import Table

from conf.settings import Kafka
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.spark.session import start_spark
from tests.lab.bench.events import BROKERS, CLUSTER, LARGE, SMALL, Shape, clock, touch, write_messages
from tests.lab.bench.figures import Spread, phases_of, seconds_of, spread_of, state_of
from tests.lab.bench.latency import publish_idle
from tests.lab.bench.process_tree import Memory, TreeWatch, add_memory
from tests.lab.bench.scratch import SPARK_LOG, say, scratch
from tests.support.idle import wait_until_idle

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
    """`first` makes the state of all groups, `all` and `few` change it; `large_first` and `large` are of one group."""

    first: Touched
    all: Touched
    few: Touched
    large_first: Touched
    large: Touched
    memory: Memory


class Gate:
    """A BatchListener that, while shut, holds every query at the end of a batch: events of that time are one batch."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._held: set[str] = set()

    def on_batch(self, batch: WrittenBatch) -> None:
        with self._lock:
            self._held.add(batch.query)
        self._open.wait(PATIENCE_SECONDS)

    def shut(self) -> None:
        with self._lock:
            self._held.clear()
            self._open.clear()

    def open(self) -> None:
        self._open.set()

    def wait_until_held(self, names: set[str]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not names <= self._held:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{', '.join(sorted(names - self._held))} ended no batch in {PATIENCE_SECONDS} s")
            time.sleep(0.01)


def measure_assignments(groups: int, repetitions: int) -> AssignmentsResult:
    """Make `groups` groups of 16 queues and 5 clients, touch them all, and 1 %, several times; then a large one."""
    few = max(1, groups // 100)
    with TreeWatch(os.getpid()) as watch:
        batches = _measure(watch, SMALL, [groups, *([groups] * repetitions), *([few] * repetitions)])
        of_large = _measure(watch, LARGE, [1] * (repetitions + 1))
    return AssignmentsResult(
        _touched(groups, batches[:1]),
        _touched(groups, batches[1 : repetitions + 1]),
        _touched(few, batches[repetitions + 1 :]),
        _touched(1, of_large[:1]),
        _touched(1, of_large[1:]),
        watch.peak,
    )


def _measure(watch: TreeWatch, shape: Shape, plan: list[int]) -> list[Any]:
    """Run a batch for each step of the plan, which is the number of groups it touches."""
    gate = Gate()
    with scratch(0) as place:
        watch.left_out.add(place.kafka.pid)
        settings = place.settings_for("assignments", quality={"every_batches": 0}, queries={"rest_ms": 0})
        create_topics(settings.kafka)
        spark = start_spark(settings, SPARK_LOG)
        try:
            with Service(settings, listeners=(gate,), spark=spark) as service:
                start_ms = time.time_ns() // 1_000_000 - len(plan) * STEP_MS
                batches = []
                for number, groups in enumerate(plan):
                    _touch(service, gate, spark, settings.kafka, shape, groups, start_ms + number * STEP_MS)
                    wait_until_idle(service, PATIENCE_SECONDS)
                    batches.append(_newest_batch(service, groups * (shape.queues + shape.clients)))
                    what = f"{groups:,} groups of {shape.queues:,} queues and {shape.clients} clients"
                    say(f"assignments {number + 1}/{len(plan)}: {what}: {seconds_of(batches[-1]):.2f} s")
                gate.open()
        finally:
            gate.open()
            spark.stop()
    return batches


def _touch(
    service: Service, gate: Gate, spark: SparkSession, kafka: Kafka, shape: Shape, groups: int, at_ms: int
) -> None:
    """Hold the queries with a clock event of another cluster, write an entire batch, and release them."""
    with Publisher(kafka) as publisher:
        gate.shut()
        publish_idle(publisher, at_ms)
        gate.wait_until_held({service.running.query.name})
        write_messages(touch(spark, groups, at_ms, shape), kafka)
        publisher.publish(CLOCKS, clock(CLUSTER, BROKERS, at_ms + 1))
        publisher.flush()
        gate.open()


def _newest_batch(service: Service, rows: int) -> Any:
    """The newest that read at least `rows`, of any query."""
    found = [one for one in service.running.query.recentProgress if one.numInputRows >= rows]
    if not found:
        raise RuntimeError(f"no batch had {rows:,} rows: they were not read in one")
    return max(found, key=lambda progress: progress.timestamp)


def _touched(groups: int, batches: Sequence[Any]) -> Touched:
    if len({progress.batchId for progress in batches}) < len(batches):
        raise RuntimeError("a batch was counted twice: one of the steps was not read in one")
    seconds = list(map(seconds_of, batches))
    rows = [progress.numInputRows for progress in batches]
    return Touched(
        groups,
        rows[-1],
        spread_of(seconds),
        spread_of([count / spent for count, spent in zip(rows, seconds, strict=True)]),
        phases_of(batches),
        state_of(batches),
    )


def add_assignments(table: Table, result: AssignmentsResult) -> None:
    """Rows of the bench's table."""
    rows: tuple[tuple[str, Touched], ...] = (
        ("new groups", result.first),
        ("all touched", result.all),
        ("1 % touched", result.few),
        (f"new group, {LARGE.queues:,} queues, {LARGE.clients} clients", result.large_first),
        ("the same, touched", result.large),
    )
    for what, touched in rows:
        seconds = touched.seconds
        table.add_row(
            f"assignments, {what}",
            f"{seconds.median:.2f} s",
            f"{seconds.low:.2f} to {seconds.high:.2f} s",
            f"{touched.groups:,} groups, {touched.rows:,} rows, {touched.rows_per_second.median:,.0f} rows/s",
        )
    add_memory(table, "assignments", result.memory)
