"""A batch that touches every group of a large fleet, one that touches one in a hundred, and one very large group."""

import os
import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Kafka
from streaming.kafka_io.publisher import Publisher
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.text.times import wall_ms
from tests.lab.bench.events import BROKERS, CLUSTER, LARGE, SMALL, Fleet, clock, write_messages
from tests.lab.bench.figures import Figures, seconds_of
from tests.lab.bench.latency import publish_idle
from tests.lab.bench.process_tree import TreeWatch
from tests.lab.bench.scratch import scratch, spark_session
from tests.support.idle import wait_until_idle
from tests.support.laboratory import say

PATIENCE_SECONDS = 600


class Gate:
    """A BatchListener that, unless it is open, holds the query at the end of a batch: later events are one batch."""

    def __init__(self) -> None:
        self.is_open, self.is_held = threading.Event(), threading.Event()
        self.is_open.set()

    def on_batch(self, batch: WrittenBatch) -> None:
        self.is_held.set()
        self.is_open.wait(PATIENCE_SECONDS)


def measure_assignments(groups: int, repetitions: int) -> Figures:
    """Make `groups` groups of 16 queues and 5 clients, touch them all, and 1 %, several times; then a large one."""
    few = max(1, groups // 100)
    with TreeWatch(os.getpid()) as watch:
        batches = run_plan(watch, SMALL, [groups, *([groups] * repetitions), *([few] * repetitions)])
        of_large = run_plan(watch, LARGE, [1] * (repetitions + 1))
    figures = Figures()
    for name, progresses, count in (
        ("new groups", batches[:1], groups),
        ("all touched", batches[1 : repetitions + 1], groups),
        ("1 % touched", batches[repetitions + 1 :], few),
        (f"new group, {LARGE.queues:,} queues, {LARGE.clients} clients", of_large[:1], 1),
        ("the same, touched", of_large[1:], 1),
    ):
        seconds = list(map(seconds_of, progresses))
        beside = f"{count:,} groups, {progresses[-1].numInputRows:,} rows"
        figures.add_spread(f"assignments, {name}", seconds, "{:.2f} s", beside)
    figures.add_memory("assignments", watch.peak())
    return figures


def run_plan(watch: TreeWatch, fleet: Fleet, plan: Sequence[int], **more: dict[str, Any]) -> list[Any]:
    """Run a batch for each step of the plan, which is the number of groups it touches; return their progresses.

    `more` are sections of other settings; `kafka` is of the topics.
    """
    gate = Gate()
    with scratch(0, **more.pop("kafka", {})) as place:
        watch.left_out.add(place.kafka.pid)
        queries = {"rest_ms": 0} | more.pop("queries", {})
        settings = place.settings_for("assignments", quality={"every_batches": 0}, queries=queries, **more)
        with spark_session(settings) as spark, Service(settings, listeners=(gate,), spark=spark) as service:
            batches: list[Any] = []
            for number, groups in enumerate(plan, 1):
                _touch(gate, spark, settings.kafka, fleet, groups, wall_ms())
                wait_until_idle(service, PATIENCE_SECONDS)
                batches.append(_newest_batch(service, groups * (fleet.queues + fleet.clients)))
                what = f"{groups:,} groups of {fleet.queues:,} queues and {fleet.clients} clients"
                say(f"assignments {number}/{len(plan)}: {what}: {seconds_of(batches[-1]):.2f} s")
    if len({progress.batchId for progress in batches}) < len(batches):
        raise RuntimeError("a batch was counted twice: one of the steps was not read in one")
    return batches


def _touch(gate: Gate, spark: SparkSession, kafka: Kafka, fleet: Fleet, groups: int, at_ms: int) -> None:
    """Hold the query with a clock event of another cluster, write an entire batch, and release it."""
    with Publisher(kafka) as publisher:
        gate.is_open.clear()
        gate.is_held.clear()
        try:
            publish_idle(publisher, at_ms)
            if not gate.is_held.wait(PATIENCE_SECONDS):
                raise TimeoutError(f"the query ended no batch in {PATIENCE_SECONDS} s")
            write_messages(spark, fleet.touch(range(groups), at_ms), kafka)
            publisher.publish(*clock(CLUSTER, BROKERS, at_ms + 1))
            publisher.flush()
        finally:
            gate.is_open.set()


def _newest_batch(service: Service, rows: int) -> Any:
    """The newest that read at least `rows`."""
    found = [one for one in service.running.query.recentProgress if one.numInputRows >= rows]
    if not found:
        raise RuntimeError(f"no batch had {rows:,} rows: they were not read in one")
    return max(found, key=lambda progress: progress.timestamp)
