"""The Prometheus registry of the listed metrics. Thread-safe. A gauge without labels is NaN until it is set."""

import math
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

import prometheus_client as client
from prometheus_client.exposition import generate_latest

from streaming.metrics.health_names import BUILD_INFO
from streaming.metrics.metric import Counter, Gauge, Histogram, Metric
from streaming.metrics.names import METRICS

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `text`."""

Made = TypeVar("Made", client.Gauge, client.Counter, client.Histogram)


class Exporter:
    """A registry of the listed metrics and the Python client's (process_*, python_gc_*)."""

    def __init__(self) -> None:
        client.disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types; no rule reads these
        self._registry = client.CollectorRegistry()
        client.ProcessCollector(registry=self._registry)
        client.GCCollector(registry=self._registry)
        self._gauges = {one: self._gauge(one) for one in METRICS if isinstance(one, Gauge)}
        self._counters = {
            one: client.Counter(one.name, one.says, one.labels, registry=self._registry)
            for one in METRICS
            if isinstance(one, Counter)
        }
        self._histograms = {
            one: client.Histogram(one.name, one.says, one.labels, registry=self._registry, buckets=one.buckets)
            for one in METRICS
            if isinstance(one, Histogram)
        }
        self.set(BUILD_INFO, 1, version=release())

    def set(self, gauge: Gauge, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._child(self._gauges[gauge], gauge, labels).set(value)

    def follow(self, gauge: Gauge, read: Callable[[], float], **labels: str) -> None:
        """Set a gauge to the result of `read` at each scrape; `read` must be quick and may not raise."""
        self._child(self._gauges[gauge], gauge, labels).set_function(read)

    def add(self, counter: Counter, amount: float = 1, **labels: str) -> None:
        """Increment a counter; 0 creates the series."""
        self._child(self._counters[counter], counter, labels).inc(amount)

    def observe(self, histogram: Histogram, value: float, **labels: str) -> None:
        """Add an observation in seconds."""
        self._child(self._histograms[histogram], histogram, labels).observe(value)

    def drop(self, gauge: Gauge, **labels: str) -> None:
        """Remove a series."""
        self._gauges[gauge].remove(*self._values(gauge, labels))

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return bytes(generate_latest(self._registry))

    def _gauge(self, one: Gauge) -> client.Gauge:
        gauge = client.Gauge(one.name, one.says, one.labels, registry=self._registry)
        if not one.labels:
            gauge.set(math.nan)
        return gauge

    def _child(self, made: Made, metric: Metric, labels: dict[str, str]) -> Made:
        return made.labels(*self._values(metric, labels)) if metric.labels else made

    @staticmethod
    def _values(metric: Metric, labels: dict[str, str]) -> tuple[str, ...]:
        if labels.keys() != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {', '.join(metric.labels)}, not {', '.join(labels)}")
        return tuple(labels[name] for name in metric.labels)


def release() -> str:
    """Return the running release; "unknown" if it is not installed as a package."""
    try:
        return version("balancewatch")
    except PackageNotFoundError:
        return "unknown"
