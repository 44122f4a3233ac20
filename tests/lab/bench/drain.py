"""Events a second of draining send latencies through the service to Delta, beside only reading them from Kafka."""

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from conf.settings import Kafka, Settings
from streaming.kafka_io.topics import create_topics
from streaming.queries.balance import read_messages
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.spark.session import start_spark
from tests.lab.bench.events import SENDS_PER_SECOND, clocks, send_latencies, write_messages
from tests.lab.bench.figures import (
    Spread,
    add_phases,
    busiest,
    ended_at,
    phases_of,
    seconds_of,
    spread_of,
    started_at,
    state_of,
)
from tests.lab.bench.process_tree import Memory, TreeWatch, add_memory
from tests.lab.bench.scratch import SPARK_LOG, Scratch, say, scratch
from tests.support.calling import Calling


@dataclass(frozen=True)
class Run:
    """One drain under a fresh checkpoint, without its first batch and a cut last one.

    `events_per_second` is of the batches' own time (triggerExecution), `wall_events_per_second` from the start of
    the first to the end of the last. `rows` counts what went to Delta in all batches, by table.
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
    with scratch(batch) as place, TreeWatch(os.getpid(), place.kafka.pid) as watch:
        settings = place.settings_for("session")
        create_topics(settings.kafka)
        spark = start_spark(settings, SPARK_LOG)
        try:
            _write_sends(spark, settings.kafka, events + batch)
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
        watch.peak,
    )


def preload(bootstrap_servers: str, count: int) -> None:
    """Write send latencies and clock events into Kafka, in a Spark session of this process."""
    settings = Settings.load(kafka={"bootstrap_servers": bootstrap_servers, "options": {}})
    create_topics(settings.kafka)
    spark = start_spark(settings, SPARK_LOG)
    try:
        _write_sends(spark, settings.kafka, count)
    finally:
        spark.stop()


def _write_sends(spark: SparkSession, kafka: Kafka, count: int) -> None:
    span_ms = count * 1000 // SENDS_PER_SECOND
    start_ms = time.time_ns() // 1_000_000 - span_ms
    began = time.monotonic()
    write_messages(send_latencies(spark, start_ms, count), kafka)
    write_messages(clocks(spark, start_ms, start_ms + span_ms), kafka)
    say(f"{count:,} send latencies in Kafka after {time.monotonic() - began:.0f} s")


def _drain(spark: SparkSession, place: Scratch, number: int) -> Run:
    rows = Counter[str]()

    def count(batch: WrittenBatch) -> None:
        rows.update({table: len(of_table) for table, of_table in batch.rows.items()})

    settings = place.settings_for(f"drain-{number}", quality={"every_batches": 0})
    with Service(settings, available_now=True, listeners=(Calling(count),), spark=spark) as service:
        service.wait(threading.Event())
        progresses = busiest([service.running.query.recentProgress])
    return _run_of(progresses, place.max_offsets_per_trigger, rows)


def _read(spark: SparkSession, place: Scratch, number: int) -> Run:
    """The same topics and options, each value only measured for its length."""
    settings = place.settings_for(f"read-{number}")

    def measure(messages: DataFrame, _: int) -> None:
        messages.select(F.sum(F.length("value"))).collect()

    query = (
        read_messages(spark, settings)
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
        raise ValueError(f"no batch of {batch} events after the first: too few events")
    events = sum(progress.numInputRows for progress in steady)
    spent = sum(map(seconds_of, steady))
    wall = ended_at(steady[-1]) - started_at(steady[0])
    return Run(events, len(steady), events / spent, events / wall, phases_of(steady), state_of(steady), dict(rows))


def add_drain(table: Table, result: DrainResult) -> None:
    """Rows of the bench's table."""
    for name, rate, beside in (
        ("drain to Delta", result.drained, f"{result.batch:,} a batch"),
        ("drain, reading only", result.read, ""),
    ):
        table.add_row(name, f"{rate.median:,.0f} events/s", f"{rate.low:,.0f} to {rate.high:,.0f}", beside)
    ratio = result.ratio
    table.add_row("drain / reading", f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}")
    add_phases(table, "drain", result.drains[-1].phases_ms)
    add_memory(table, "drain", result.memory)
