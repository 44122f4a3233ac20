"""How long after an event its row is in Delta, at 1,000 events/s, beside an empty batch; over fresh tables or old."""

import os
import threading
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from conf.settings import Kafka
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.text.times import wall_ms
from tests.lab.bench.aged_tables import age_tables
from tests.lab.bench.events import clock
from tests.lab.bench.figures import (
    Percentiles,
    add_phases,
    latencies_of,
    percentiles_of,
    phases_of,
    ratio_of,
    seconds_of,
    started_at,
    state_of,
)
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import Memory, TreeWatch, add_memory
from tests.lab.bench.scratch import SPARK_LOG, say, scratch
from tests.support.calling import Calling
from tests.support.idle import wait_until_idle

FLOOR_INTERVAL_SECONDS = 1.2
"""Long enough for a batch to end before the next clock event comes."""

MAX_OFFSETS_PER_TRIGGER = 1_000_000


@dataclass(frozen=True)
class Batches:
    """A query's batches in the measured span; ms."""

    count: int
    events_per_second: float
    duration_ms: Percentiles
    phases_ms: dict[str, int]
    state: dict[str, int]


@dataclass(frozen=True)
class LatencyResult:
    """ms from an event's creation to the commit of the row it caused.

    commits       that each table had when the service started
    flips         a slow attempt → its FaultItem unavailable
    alerts        the clock event that completes a proof → the alert's FIRING or RESOLVED row
    floor_ms      a batch that reads one clock event of an unknown cluster, by query
    """

    commits: int
    warm_up_seconds: float
    events_per_second: float
    flips: Percentiles
    alerts: Percentiles
    floor_ms: dict[str, Percentiles]
    floor_phases_ms: dict[str, dict[str, int]]
    batches: dict[str, Batches]
    memory: Memory


def measure_latency(warm_up_seconds: float, seconds: float, floor_events: int, commits: int = 0) -> LatencyResult:
    """Start the service, publish for both spans, measure the second; then the floor, without other events.

    With `commits` each table has that many before, compacted as `run` does.
    """
    flips: list[tuple[int, int]] = []
    alerts: list[tuple[int, int]] = []

    def record(batch: WrittenBatch) -> None:
        done_ms = wall_ms()
        flips.extend((row["changed_at"], done_ms) for row in batch.rows.get("fault_items", ()) if not row["available"])
        alerts.extend((row["changed_at"], done_ms) for row in batch.rows.get("alerts", ()))

    with scratch(MAX_OFFSETS_PER_TRIGGER) as place, TreeWatch(os.getpid(), place.kafka.pid) as watch:
        settings = place.settings_for("service")
        if commits:
            age_tables(settings.paths.warehouse, commits)
        with Service(settings, listeners=(Calling(record),), jvm_log=SPARK_LOG) as service:
            say("latency: the first batch")
            make_ready(service, settings.kafka)
            with publishing(pace, settings.kafka, warm_up_seconds + seconds) as pacer:
                watch.left_out.add(pacer.pid or 0)
                say(f"latency: warming up for {warm_up_seconds:.0f} s")
                service.wait(threading.Event(), warm_up_seconds)
                say(f"latency: measuring for {seconds:.0f} s")
                from_ms = wall_ms()
                service.wait(threading.Event(), seconds)
                to_ms = wall_ms()
                pacer.join(30)
            wait_until_idle(service, 30)
            query = service.running.query
            live = {query.name: _between(query.recentProgress, from_ms, to_ms)}
            if floor_events:
                say(f"latency: the floor, {floor_events} clock events")
            floor = _measure_floor(service, settings.kafka, floor_events) if floor_events else {}
    return LatencyResult(
        commits,
        warm_up_seconds,
        sum(progress.numInputRows for of_query in live.values() for progress in of_query) / seconds,
        latencies_of(flips, from_ms, to_ms),
        latencies_of(alerts, from_ms, to_ms),
        {name: _durations(of_query) for name, of_query in floor.items()},
        {name: phases_of(of_query) for name, of_query in floor.items()},
        {
            name: Batches(
                len(of_query),
                sum(progress.numInputRows for progress in of_query) / seconds,
                _durations(of_query),
                phases_of(of_query),
                state_of(of_query),
            )
            for name, of_query in live.items()
        },
        watch.peak,
    )


def make_ready(service: Service, kafka: Kafka) -> None:
    """Run each query's first batch, which starts Python workers and makes state schemas."""
    with Publisher(kafka) as publisher:
        publish_idle(publisher)
    wait_until_idle(service)


def publish_idle(publisher: Publisher, at_ms: int | None = None) -> None:
    """Publish a clock event of an unknown cluster: a batch that reads it has nothing to do."""
    publisher.publish(CLOCKS, clock("unknown", (), at_ms or wall_ms()))
    publisher.flush()


def _measure_floor(service: Service, kafka: Kafka, count: int) -> dict[str, list[Any]]:
    from_ms = wall_ms()
    with Publisher(kafka) as publisher:
        for _ in range(count):
            publish_idle(publisher)
            service.wait(threading.Event(), FLOOR_INTERVAL_SECONDS)
    query = service.running.query
    return {query.name: [one for one in _between(query.recentProgress, from_ms, wall_ms()) if one.numInputRows == 1]}


def _between(progresses: list[Any], from_ms: int, to_ms: int) -> list[Any]:
    """Batches triggered in the span that read something."""
    return [one for one in progresses if one.numInputRows and from_ms <= started_at(one) * 1000 < to_ms]


def _durations(progresses: list[Any]) -> Percentiles:
    return percentiles_of(1000 * seconds_of(progress) for progress in progresses)


def add_latency(table: Table, name: str, result: LatencyResult, fresh: LatencyResult | None) -> None:
    """Rows of the bench's table, with the ratio to the `fresh` tables of the same run if these are old."""
    beside = f"{result.events_per_second:,.0f} rows/s were read"
    if result.commits:
        ratio = ratio_of(result.flips.p50, fresh.flips.p50) if fresh is not None else None
        beside = f"over {result.commits:,} commits a table" + (f": {ratio:.2f} of fresh ones" if ratio else "")
    table.add_row(f"{name}, FaultItem unavailable", *result.flips.cells, beside)
    table.add_row(f"{name}, alert", *result.alerts.cells, "from the clock event that completes it")
    for query, batches in result.batches.items():
        live, floor = batches.duration_ms, result.floor_ms.get(query)
        if floor is not None:
            ratio = ratio_of(live.p50, floor.p50)
            table.add_row(f"empty batch, {query}", *floor.cells, f"{ratio:.1f} of it under load" if ratio else "")
        table.add_row(f"batch under load, {query}", *live.cells, f"{batches.count} batches")
        add_phases(table, query, batches.phases_ms)
    add_memory(table, name, result.memory)
