"""How long after an event its row is in Delta, at 1,000 events/s, beside an empty batch; over fresh tables or old."""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conf.settings import Kafka
from streaming.kafka_io.publisher import Publisher
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from streaming.text.times import wall_ms
from tests.lab.bench.aged_tables import age_tables
from tests.lab.bench.events import clock
from tests.lab.bench.figures import Figures, Percentiles, latencies_of, percentiles_of, seconds_of, started_at
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import TreeWatch
from tests.lab.bench.scratch import SPARK_LOG, scratch
from tests.support.calling import Calling
from tests.support.idle import wait_until_idle
from tests.support.laboratory import say
from tests.support.s3_server import BUCKET, environment_of, s3_server

FLOOR_INTERVAL_SECONDS = 1.2
"""Long enough for a batch to end before the next clock event comes."""

MAX_OFFSETS_PER_TRIGGER = 1_000_000


def measure_latency(
    warm_up_seconds: float, seconds: float, floor_events: int, commits: int = 0, is_in_bucket: bool = False
) -> Figures:
    """Start the service, publish for both spans, measure the second; then the floor, without other events.

    A FaultItem counts from a slow attempt, an alert from the clock event that completes a proof, to the commit of its
    row. The floor is a batch that reads one clock event of an unknown cluster. With `commits` each table has that many
    before, compacted as `run` does. With `is_in_bucket` the
    checkpoints are in the tests' S3 server.
    """
    flips: list[tuple[int, int]] = []
    alerts: list[tuple[int, int]] = []

    def record(batch: WrittenBatch) -> None:
        done_ms = wall_ms()
        flips.extend((row["changed_at"], done_ms) for row in batch.rows.get("fault_items", ()) if not row["available"])
        alerts.extend((row["changed_at"], done_ms) for row in batch.rows.get("alerts", ()))

    with (
        scratch(MAX_OFFSETS_PER_TRIGGER) as place,
        checkpoints_in_bucket(place.folder) if is_in_bucket else contextlib.nullcontext({}) as paths,
        TreeWatch(os.getpid(), place.kafka.pid) as watch,
    ):
        settings = place.settings_for("service", paths=paths)
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
            live = batches_between(service, from_ms, to_ms)
            floor = _measure_floor(service, settings.kafka, floor_events) if floor_events else []
    name = f"latency over {commits:,} commits a table" if commits else "latency"
    name += ", checkpoints in a bucket" if is_in_bucket else ""
    figures = Figures()
    rate = sum(progress.numInputRows for progress in live) / seconds
    figures.add_percentiles(f"{name}, FaultItem", latencies_of(flips, from_ms, to_ms), f"{rate:,.0f} rows/s were read")
    figures.add_percentiles(f"{name}, alert", latencies_of(alerts, from_ms, to_ms), "from its clock event")
    if floor:
        figures.add_percentiles(f"{name}, empty batch", _durations(floor))
    figures.add_percentiles(f"{name}, batch under load", _durations(live))
    figures.add_phases(name, live)
    if not is_in_bucket:  # the server is a process of this one
        figures.add_memory(name, watch.peak())
    return figures


@contextlib.contextmanager
def checkpoints_in_bucket(folder: Path) -> Iterator[dict[str, str]]:
    """Set the environment of a local S3 server, and yield the setting of checkpoints there."""
    with s3_server(folder / "s3.log") as address:
        os.environ.update(environment_of(address))
        yield {"checkpoints": f"s3a://{BUCKET}/checkpoints"}


def make_ready(service: Service, kafka: Kafka) -> None:
    """Run the first batch, which starts Python workers and makes the state's schema."""
    with Publisher(kafka) as publisher:
        publish_idle(publisher)
    wait_until_idle(service)


def publish_idle(publisher: Publisher, at_ms: int | None = None) -> None:
    """Publish a clock event of an unknown cluster: a batch that reads it has nothing to do."""
    publisher.publish(*clock("unknown", (), at_ms or wall_ms()))
    publisher.flush()


def _measure_floor(service: Service, kafka: Kafka, count: int) -> list[Any]:
    from_ms = wall_ms()
    with Publisher(kafka) as publisher:
        for _ in range(count):
            publish_idle(publisher)
            service.wait(threading.Event(), FLOOR_INTERVAL_SECONDS)
    return [one for one in batches_between(service, from_ms, wall_ms()) if one.numInputRows == 1]


def batches_between(service: Service, from_ms: int, to_ms: int) -> list[Any]:
    """Batches triggered in the span that read something."""
    progresses = service.running.query.recentProgress
    return [one for one in progresses if one.numInputRows and from_ms <= started_at(one) * 1000 < to_ms]


def _durations(progresses: Sequence[Any]) -> Percentiles:
    return percentiles_of(1000 * seconds_of(progress) for progress in progresses)
