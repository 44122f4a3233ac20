"""Where a batch spends its time at 1,000 events/s: from the driver's clock, Spark's progress and Spark's event log."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.classic.dataframe import DataFrame

from streaming.queries.running import Sink
from streaming.service.service import Service
from streaming.text.times import wall_ms
from streaming.warehouse.writer import append_rows
from tests.lab.bench.figures import Figures, started_at
from tests.lab.bench.latency import MAX_OFFSETS_PER_TRIGGER, batches_between, make_ready
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.scratch import SPARK_LOG, scratch
from tests.support.laboratory import say

Points = dict[str, list[float]]
"""For each point of a batch the epoch ms of batch 0, 1, ..."""

STEPS = (
    ("begun", "called", "Spark: offsets, their log, the plan, and the call of the sink"),
    ("called", "collects", "driver: the batch's plan is read from the checkpoint"),
    ("collects", "job", "Spark: the collect is planned and submitted"),
    ("job", "task", "Spark: the task is serialised and launched"),
    ("task", "task ends", "the task"),
    ("task ends", "collected", "Spark: the result goes to the driver"),
    ("collected", "appends", "driver: the checkpoint is synced"),
    ("appends", "appended", "driver: rows are appended to the Delta tables"),
    ("appended", "left", "driver: listeners"),
    ("left", "ended", "Spark: the log of commits"),
)
"""One after the other they are a batch."""

OF_TASK = {
    "RocksDB: load - time taken to load the store": "of the task: the state store is opened",
    "time to execute Python code": "of the task: both Python workers, waiting for input included",
    "time to commit changes": "of the task: the state is committed",
}
"""Spark's metrics of a task, in ms."""


def measure_timeline(warm_up_seconds: float, seconds: float) -> Figures:
    """Start the service with Spark's event log, publish for both spans, and take the batches of the second apart."""
    points: Points = defaultdict(list)
    with scratch(MAX_OFFSETS_PER_TRIGGER) as place:
        logs = place.folder / "events"
        logs.mkdir()
        settings = place.settings_for("service")
        options = {"enabled": "true", "compress": "false", "dir": logs.as_uri()}
        settings.spark.options.update({f"spark.eventLog.{name}": value for name, value in options.items()})
        with (
            patch.object(Sink, "__call__", _passing(points, "called", "left", Sink.__call__)),
            patch.object(DataFrame, "toArrow", _passing(points, "collects", "collected", DataFrame.toArrow)),
            patch("streaming.queries.running.append_rows", _passing(points, "appends", "appended", append_rows)),
            Service(settings, jvm_log=SPARK_LOG) as service,
        ):
            make_ready(service, settings.kafka)
            with publishing(pace, settings.kafka, warm_up_seconds + seconds) as pacer:
                say(f"timeline: warming up for {warm_up_seconds:.0f} s")
                service.wait(threading.Event(), warm_up_seconds)
                say(f"timeline: measuring for {seconds:.0f} s")
                from_ms = wall_ms()
                service.wait(threading.Event(), seconds)
                to_ms = wall_ms()
                pacer.join(30)
            batches = batches_between(service, from_ms, to_ms)
        metrics: dict[str, list[float]] = defaultdict(list)
        for event in _events(logs):
            _note(points, metrics, event)
    return _figures_of(batches, points, metrics)


def _passing(points: Points, before: str, after: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def passed(*args: Any, **kwargs: Any) -> Any:
        points[before].append(time.time() * 1000)
        try:
            return act(*args, **kwargs)
        finally:
            points[after].append(time.time() * 1000)

    return passed


def _events(logs: Path) -> Iterator[Mapping[str, Any]]:
    for file in sorted(one for one in logs.rglob("*") if one.is_file()):
        yield from (json.loads(line) for line in file.read_bytes().splitlines() if line.startswith(b"{"))


def _note(points: Points, metrics: dict[str, list[float]], event: Mapping[str, Any]) -> None:
    """Note a job, of which a batch has one, and its only task."""
    if event["Event"] == "SparkListenerJobStart":
        points["job"].append(event["Submission Time"])
    elif event["Event"] == "SparkListenerTaskEnd":
        task = event["Task Info"]
        points["task"].append(task["Launch Time"])
        points["task ends"].append(task["Finish Time"])
        for name in OF_TASK:
            metrics[name].append(sum(float(one["Update"]) for one in task["Accumulables"] if one["Name"] == name))


def _figures_of(batches: Sequence[Any], points: Points, metrics: Mapping[str, list[float]]) -> Figures:
    of_batch = {name: [times[batch.batchId] for batch in batches] for name, times in points.items()}
    of_batch["begun"] = [started_at(batch) * 1000 for batch in batches]
    of_batch["ended"] = [started_at(batch) * 1000 + batch.durationMs["triggerExecution"] for batch in batches]
    figures = Figures()

    def add(what: str, samples: Sequence[float]) -> None:
        figures.add_spread(f"timeline, {what}", samples, "{:,.0f} ms")

    for begin, end, what in STEPS:
        add(what, [until - since for since, until in zip(of_batch[begin], of_batch[end], strict=True)])
    for name, what in OF_TASK.items():
        add(what, [metrics[name][batch.batchId] for batch in batches])
    add("a batch", [batch.durationMs["triggerExecution"] for batch in batches])
    return figures
