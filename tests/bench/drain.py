"""Events a second of draining send latencies through the service to Delta, beside only reading them from Kafka."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from conf.settings import Settings
from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.kafka_io.topics import create_topics
from streaming.queries.balance import read_messages
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.spark.session import start_spark
from tests.bench.figures import Spread, busiest, ended_at, phases_of, spread_of, started_at, state_of
from tests.bench.latency import add_phases
from tests.bench.memory import Memory, MemorySampler, add_memory
from tests.bench.preload import write_sends
from tests.bench.scratch import SPARK_LOG, Scratch, say, scratch
from tests.calling import Calling


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
    with scratch(batch) as place, MemorySampler(place.kafka.pid) as sampler:
        settings = place.settings_for("session")
        create_topics(settings.kafka)
        spark = start_spark(settings, SPARK_LOG)
        try:
            write_sends(spark, settings.kafka, events + batch)
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


def _drain(spark: SparkSession, place: Scratch, number: int) -> Run:
    rows: dict[str, int] = {}

    def count(batch: WrittenBatch) -> None:
        for table, of_table in batch.rows.items():
            rows[table] = rows.get(table, 0) + len(of_table)

    settings = place.settings_for(f"drain-{number}", quality={"every_batches": 0})
    with Service(settings, available_now=True, listeners=(Calling(count),), spark=spark) as service:
        service.wait(threading.Event())
        progresses = busiest([query.recentProgress for query in service.queries])
    return _run_of(progresses, place.max_offsets_per_trigger, rows)


def _read(spark: SparkSession, place: Scratch, number: int) -> Run:
    """The same topics and options, each value only measured for its length."""
    settings: Settings = place.settings_for(f"read-{number}")

    def measure(messages: DataFrame, _: int) -> None:
        messages.select(F.sum(F.length("value"))).collect()

    query = (
        read_messages(spark, settings, (SEND_LATENCIES, CLOCKS))
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
    spent = sum(progress.durationMs["triggerExecution"] / 1000 for progress in steady)
    wall = ended_at(steady[-1]) - started_at(steady[0])
    return Run(events, len(steady), events / spent, events / wall, phases_of(steady), state_of(steady), rows)


def add_drain(table: Table, result: DrainResult) -> None:
    """Rows of the bench's table."""
    table.add_row("drain to Delta", _rate(result.drained), _between(result.drained), f"{result.batch:,} a batch")
    table.add_row("drain, reading only", _rate(result.read), _between(result.read))
    ratio = result.ratio
    table.add_row("drain / reading", f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}")
    add_phases(table, "drain", result.drains[-1].phases_ms)
    add_memory(table, "drain", result.memory)


def _rate(spread: Spread) -> str:
    return f"{spread.median:,.0f} events/s"


def _between(spread: Spread) -> str:
    return f"{spread.low:,.0f} to {spread.high:,.0f}"
