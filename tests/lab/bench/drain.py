"""Events a second of draining send latencies through the service to Delta, beside only reading them from Kafka."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Kafka, Settings
from streaming.queries.balance import read_messages
from streaming.service.service import Service
from tests.lab.bench.events import BROKERS, CLUSTER, Message, Sender, clock, write_messages
from tests.lab.bench.figures import Figures, ended_at, seconds_of, started_at
from tests.lab.bench.process_tree import TreeWatch
from tests.lab.bench.scratch import Scratch, scratch, spark_session
from tests.support.laboratory import say

SENDS_PER_SECOND, SLOW_ONE_IN, TICK_MS = 5_000, 1_000, 5_000


def measure_drain(events: int, batch: int, repetitions: int) -> Figures:
    """Preload `events` and a batch of warm-up, then read and drain them in turns."""
    with scratch(batch) as place, TreeWatch(os.getpid(), place.kafka.pid) as watch:
        settings = place.settings_for("session")
        with spark_session(settings) as spark:
            _write_sends(spark, settings.kafka, events + batch)
            reads, drains, walls = list[float](), list[float](), list[float]()
            for number in range(1, repetitions + 1):
                reads.append(_speed_of(_steady(_read(spark, place, number), batch)))
                steady = _steady(_drain(spark, place, number), batch)
                drains.append(_speed_of(steady))
                rows = sum(progress.numInputRows for progress in steady)
                walls.append(rows / (ended_at(steady[-1]) - started_at(steady[0])))
                say(f"drain {number}/{repetitions}: {drains[-1]:,.0f} events/s, only reading {reads[-1]:,.0f}")
    figures = Figures()
    figures.add_spread("drain to Delta", drains, "{:,.0f} events/s", f"{batch:,} a batch")
    figures.add_spread("drain, with the pauses between batches", walls, "{:,.0f} events/s")
    figures.add_spread("drain, reading only", reads, "{:,.0f} events/s")
    figures.add_spread("drain / reading", [one / other for one, other in zip(drains, reads, strict=True)], "{:.2f}")
    figures.add_phases("drain", steady)
    figures.add_memory("drain", watch.peak())
    return figures


def preload(bootstrap_servers: str, count: int) -> None:
    """Write send latencies and clock events into Kafka, in a Spark session of this process."""
    settings = Settings.load(kafka={"bootstrap_servers": bootstrap_servers, "options": {}})
    with spark_session(settings) as spark:
        _write_sends(spark, settings.kafka, count)


def _write_sends(spark: SparkSession, kafka: Kafka, count: int) -> None:
    """Attempts up to now in event-time order, then the clock events of their span, the last one after all of them."""
    span_ms = count * 1000 // SENDS_PER_SECOND
    start_ms = time.time_ns() // 1_000_000 - span_ms

    def messages() -> Iterator[Message]:
        sender = Sender(1, SLOW_ONE_IN)
        for number in range(count):
            yield sender.send(number, start_ms + number * 1000 // SENDS_PER_SECOND)
        for at_ms in range(start_ms, start_ms + span_ms + TICK_MS, TICK_MS):
            yield clock(CLUSTER, BROKERS, at_ms)

    began = time.monotonic()
    write_messages(spark, messages(), kafka)
    say(f"{count:,} send latencies in Kafka after {time.monotonic() - began:.0f} s")


def _drain(spark: SparkSession, place: Scratch, number: int) -> Sequence[Any]:
    settings = place.settings_for(f"drain-{number}", quality={"every_batches": 0})
    with Service(settings, available_now=True, spark=spark) as service:
        service.wait(threading.Event())
        return list(service.running.query.recentProgress)


def _read(spark: SparkSession, place: Scratch, number: int) -> Sequence[Any]:
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
    return list(query.recentProgress)


def _steady(progresses: Sequence[Any], batch: int) -> list[Any]:
    """Without the first batch and a cut last one."""
    steady = [progress for progress in progresses[1:] if progress.numInputRows > batch // 2]
    if not steady:
        raise ValueError(f"no batch of {batch} events after the first: too few events")
    return steady


def _speed_of(steady: Sequence[Any]) -> float:
    """Events a second of the batches' own time."""
    return float(sum(progress.numInputRows for progress in steady) / sum(map(seconds_of, steady)))
