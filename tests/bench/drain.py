"""Events a second of draining send latencies through the fault_items query, beside only reading them from Kafka."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Settings
from streaming.ingest.topics import create_topics
from streaming.queries import fault_items
from streaming.queries.rows import Rows
from streaming.queries.running import start_query
from streaming.queries.source import read_messages
from streaming.queries.warehouse import DeltalakeWriter
from streaming.session import start_spark
from tests.bench.events import SENDS_PER_SECOND, clocks, send_latencies, write_messages
from tests.bench.figures import Spread, phases_of, spread_of, state_of
from tests.bench.memory import Memory, MemorySampler
from tests.bench.scratch import SPARK_LOG, Scratch, say, scratch


@dataclass(frozen=True)
class Run:
    """One drain under a fresh checkpoint, its first batch and a cut last one apart.

    `events_per_second` is of the batches' own time (triggerExecution), `wall_events_per_second` from the start of
    the first to the end of the last. `rows` counts what went to Delta in all batches, a table.
    """

    events: int
    batches: int
    events_per_second: float
    wall_events_per_second: float
    phases_ms: dict[str, int]
    state: dict[str, int]
    rows: dict[str, int]


@dataclass(frozen=True)
class DrainResult:
    """`ratio` is each drain over the read beside it, in the same session."""

    batch: int
    drained: Spread
    read: Spread
    ratio: Spread
    drains: list[Run]
    reads: list[Run]
    memory: Memory


def measure_drain(events: int, batch: int, repetitions: int) -> DrainResult:
    """Preload `events` and a batch of warm-up, then read and drain them in turns."""
    with scratch(batch) as place, MemorySampler() as sampler:
        sampler.leave_out(place.kafka.pid)
        settings = place.settings_for("session")
        create_topics(settings.kafka)
        spark = start_spark(settings, SPARK_LOG)
        try:
            _preload(spark, settings, events + batch)
            reads, drains = [], []
            for number in range(1, repetitions + 1):
                reads.append(_read(spark, place, number))
                drains.append(_drain(spark, place, number))
                say(
                    f"drain {number}/{repetitions}: {drains[-1].events_per_second:,.0f} events/s, "
                    f"only reading {reads[-1].events_per_second:,.0f}"
                )
        finally:
            spark.stop()
    return DrainResult(
        batch,
        spread_of([run.events_per_second for run in drains]),
        spread_of([run.events_per_second for run in reads]),
        spread_of([d.events_per_second / r.events_per_second for d, r in zip(drains, reads, strict=True)]),
        drains,
        reads,
        sampler.peak,
    )


def _preload(spark: SparkSession, settings: Settings, count: int) -> None:
    span_ms = count * 1000 // SENDS_PER_SECOND
    start_ms = time.time_ns() // 1_000_000 - span_ms
    began = time.monotonic()
    write_messages(send_latencies(spark, start_ms, count), settings.kafka)
    write_messages(clocks(spark, start_ms, start_ms + span_ms), settings.kafka)
    say(f"drain: {count:,} send latencies in Kafka after {time.monotonic() - began:.0f} s")


def _drain(spark: SparkSession, place: Scratch, number: int) -> Run:
    settings = place.settings_for(f"drain-{number}")
    rows: dict[str, int] = {}

    def count(_: str, __: int, of_batch: Rows) -> None:
        for table, of_table in of_batch.items():
            rows[table] = rows.get(table, 0) + len(of_table)

    running = start_query(
        fault_items.NAME,
        fault_items.start_dataframe(spark, settings),
        settings,
        DeltalakeWriter(settings.paths.warehouse),
        available_now=True,
        on_rows=count,
    )
    running.query.awaitTermination()
    return _run_of(running.query.recentProgress, place.max_offsets_per_trigger, rows)


def _read(spark: SparkSession, place: Scratch, number: int) -> Run:
    """The same topics and options, each value only measured for its length."""
    settings = place.settings_for(f"read-{number}")

    def measure(messages: DataFrame, _: int) -> None:
        messages.select(F.sum(F.length("value"))).collect()

    query = (
        read_messages(spark, settings, fault_items.TOPICS)
        .writeStream.option("checkpointLocation", str(settings.paths.checkpoints / "read"))
        .foreachBatch(measure)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return _run_of(query.recentProgress, place.max_offsets_per_trigger, {})


def _run_of(progresses: Sequence[Any], batch: int, rows: dict[str, int]) -> Run:
    steady = [progress for progress in progresses[1:] if progress.numInputRows > batch // 2]
    if not steady:
        raise ValueError(f"no batch of {batch} events after the first; give more --events")
    events = sum(progress.numInputRows for progress in steady)
    spent = [progress.durationMs["triggerExecution"] / 1000 for progress in steady]
    wall = _seconds(steady[-1]) + spent[-1] - _seconds(steady[0])
    return Run(events, len(steady), events / sum(spent), events / wall, phases_of(steady), state_of(steady), rows)


def _seconds(progress: Any) -> float:
    """When the batch was triggered."""
    return datetime.fromisoformat(progress.timestamp).timestamp()
