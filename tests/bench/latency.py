"""How long after an event its row is in Delta, at 1,000 events/s, beside an empty batch; over fresh tables or old."""

import multiprocessing
import threading
import time
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from conf.settings import Kafka
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from tests.bench.aged_tables import age_tables
from tests.bench.figures import Percentiles, latencies_of, percentiles_of, phases_of, ratio_of, started_at, state_of
from tests.bench.memory import Memory, MemorySampler, add_memory
from tests.bench.pacer import clock, pace
from tests.bench.scratch import SPARK_LOG, say, scratch

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
    floor_ms      a batch that reads one clock event of a cluster nothing is known of, by query
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


class Recorder:
    """A BatchListener: keeps when each row was committed, and the event time it tells."""

    def __init__(self) -> None:
        self.flips: list[tuple[int, int]] = []
        self.alerts: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def on_batch(self, batch: WrittenBatch) -> None:
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            self.flips += [
                (row["changed_at"], now_ms) for row in batch.rows.get("fault_items", ()) if not row["available"]
            ]
            self.alerts += [(row["changed_at"], now_ms) for row in batch.rows.get("alerts", ())]


def measure_latency(
    warm_up_seconds: float, seconds: float, floor_events: int, commits: int = 0, is_kept: bool = True
) -> LatencyResult:
    """Start the service, publish for both spans, measure the second; then the floor, with nothing else going on.

    With `commits` each table has so many before, as `run` has kept it, or with `is_kept` false as if nobody ever had,
    and nobody does now.
    """
    recorder = Recorder()
    with scratch(MAX_OFFSETS_PER_TRIGGER) as place, MemorySampler(place.kafka.pid) as sampler:
        more = {} if is_kept else {"maintain": {"beside_seconds": 0}}
        settings = place.settings_for("service", **more)
        if commits:
            age_tables(settings.paths.warehouse, commits, is_kept=is_kept)
        with Service(settings, listeners=(recorder,), jvm_log=SPARK_LOG) as service:
            say("latency: the first batch")
            _make_ready(service, settings.kafka)
            process = multiprocessing.get_context("spawn").Process(
                target=pace, args=(settings.kafka, warm_up_seconds + seconds), daemon=True
            )
            process.start()
            sampler.leave_out(process.pid or 0)
            try:
                say(f"latency: warming up for {warm_up_seconds:.0f} s")
                service.wait(threading.Event(), warm_up_seconds)
                say(f"latency: measuring for {seconds:.0f} s")
                from_ms = time.time_ns() // 1_000_000
                service.wait(threading.Event(), seconds)
                to_ms = time.time_ns() // 1_000_000
                process.join(30)
            finally:
                process.terminate()
            service.wait_until_idle(30)
            live = {query.name: _between(query.recentProgress, from_ms, to_ms) for query in service.queries}
            if floor_events:
                say(f"latency: the floor, {floor_events} clock events")
            floor = _measure_floor(service, settings.kafka, floor_events) if floor_events else {}
    span = seconds * 1000
    return LatencyResult(
        commits,
        warm_up_seconds,
        sum(progress.numInputRows for of_query in live.values() for progress in of_query) / span * 1000,
        latencies_of(recorder.flips, from_ms, to_ms),
        latencies_of(recorder.alerts, from_ms, to_ms),
        {name: percentiles_of(_durations(of_query)) for name, of_query in floor.items()},
        {name: phases_of(of_query) for name, of_query in floor.items()},
        {name: _batches(of_query, seconds) for name, of_query in live.items()},
        sampler.peak,
    )


def _make_ready(service: Service, kafka: Kafka) -> None:
    """Each query's first batch starts Python workers and makes state schemas; it is not what is measured."""
    with Publisher(kafka) as publisher:
        publisher.publish(CLOCKS, _idle_clock())
        publisher.flush()
    service.wait_until_idle()


def _idle_clock() -> dict[str, Any]:
    """A tick of a cluster nothing is known of: a batch that reads it has nothing to do."""
    return clock("nobody", (), time.time_ns() // 1_000_000)


def _measure_floor(service: Service, kafka: Kafka, count: int) -> dict[str, list[Any]]:
    from_ms = time.time_ns() // 1_000_000
    with Publisher(kafka) as publisher:
        for _ in range(count):
            publisher.publish(CLOCKS, _idle_clock())
            publisher.flush()
            service.wait(threading.Event(), FLOOR_INTERVAL_SECONDS)
    return {
        query.name: [
            progress
            for progress in _between(query.recentProgress, from_ms, from_ms + (1 << 40))
            if progress.numInputRows == 1
        ]
        for query in service.queries
    }


def _between(progresses: list[Any], from_ms: int, to_ms: int) -> list[Any]:
    """Batches triggered in the span that read something."""
    return [
        progress for progress in progresses if progress.numInputRows and from_ms <= started_at(progress) * 1000 < to_ms
    ]


def _durations(progresses: list[Any]) -> list[int]:
    return [progress.durationMs["triggerExecution"] for progress in progresses]


def _batches(progresses: list[Any], seconds: float) -> Batches:
    read = sum(progress.numInputRows for progress in progresses)
    return Batches(
        len(progresses),
        read / seconds,
        percentiles_of(_durations(progresses)),
        phases_of(progresses),
        state_of(progresses),
    )


def add_latency(table: Table, name: str, result: LatencyResult, fresh: LatencyResult | None = None) -> None:
    """Rows of the bench's table; beside `fresh`, the same over fresh tables, only what may differ."""
    rate = f"{result.events_per_second:,.0f} rows/s were read"
    table.add_row(f"{name}, FaultItem unavailable", *in_ms(result.flips), _beside(result, fresh) or rate)
    table.add_row(f"{name}, alert", *in_ms(result.alerts), "from the clock event that completes it")
    for query, batches in result.batches.items():
        live, floor = batches.duration_ms, result.floor_ms.get(query)
        if floor is not None:
            ratio = f"{live.p50 / floor.p50:.1f} of it under load" if floor.p50 else ""
            table.add_row(f"empty batch, {query}", *in_ms(floor), ratio)
        table.add_row(f"batch under load, {query}", *in_ms(live), f"{batches.count} batches")
        add_phases(table, query, batches.phases_ms)
    add_memory(table, name, result.memory)


def _beside(result: LatencyResult, fresh: LatencyResult | None) -> str:
    if not result.commits:
        return ""
    text = f"over {result.commits:,} commits a table"
    ratio = ratio_of(result.flips.p50, fresh.flips.p50) if fresh is not None else None
    return f"{text}: {ratio:.2f} of fresh ones" if ratio is not None else text


def add_phases(table: Table, name: str, phases_ms: dict[str, int]) -> None:
    longest = [f"{phase} {ms}" for phase, ms in phases_ms.items() if phase != "triggerExecution" and ms][:4]
    table.add_row(f"phases, {name}", f"{phases_ms.get('triggerExecution', 0):,} ms", "median batch", ", ".join(longest))


def in_ms(percentiles: Percentiles) -> tuple[str, str]:
    return f"{percentiles.p50:,.0f} ms", f"p95 {percentiles.p95:,.0f} ms, {percentiles.count} samples"
