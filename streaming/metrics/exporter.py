"""The Prometheus registry of the listed metrics. Thread-safe. A gauge without labels is NaN until it is set."""

import math
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import prometheus_client as client
from prometheus_client.exposition import generate_latest

from streaming.metrics.names import BUILD_INFO, METRICS, Counter, Gauge, Histogram, Metric
from streaming.metrics.tables import GAUGES, TableMetrics

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `text`."""


class Exporter:
    """A registry of the listed metrics and the Python client's (process_*, python_gc_*)."""

    def __init__(self, tables: TableMetrics | None = None) -> None:
        """`tables` is the collector of the gauges that this registry does not set itself."""
        client.disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types; no rule reads these
        self._registry = client.CollectorRegistry()
        client.ProcessCollector(registry=self._registry)
        client.GCCollector(registry=self._registry)
        self._metrics: dict[Metric, Any] = {metric: self._make(metric) for metric in METRICS if metric not in GAUGES}
        if tables is not None:
            self._registry.register(tables)
        self.set(BUILD_INFO, 1, version=release())

    def set(self, gauge: Gauge, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._series(gauge, labels).set(value)

    def follow(self, gauge: Gauge, read: Callable[[], float], **labels: str) -> None:
        """Set a gauge to the result of `read` at each scrape; `read` must be quick and may not raise."""
        self._series(gauge, labels).set_function(read)

    def add(self, counter: Counter, amount: float = 1, **labels: str) -> None:
        """Increment a counter; 0 creates the series."""
        self._series(counter, labels).inc(amount)

    def observe(self, histogram: Histogram, value: float, **labels: str) -> None:
        """Add an observation in seconds."""
        self._series(histogram, labels).observe(value)

    def drop(self, gauge: Gauge, **labels: str) -> None:
        """Remove a series."""
        self._metrics[gauge].remove(*_values(gauge, labels))

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return bytes(generate_latest(self._registry))

    def _make(self, metric: Metric) -> Any:
        if isinstance(metric, Counter):
            return client.Counter(metric.name, metric.says, metric.labels, registry=self._registry)
        if isinstance(metric, Histogram):
            return client.Histogram(
                metric.name, metric.says, metric.labels, registry=self._registry, buckets=metric.buckets
            )
        gauge = client.Gauge(metric.name, metric.says, metric.labels, registry=self._registry)
        if not metric.labels:
            gauge.set(math.nan)
        return gauge

    def _series(self, metric: Metric, labels: dict[str, str]) -> Any:
        values = _values(metric, labels)
        return self._metrics[metric].labels(*values) if values else self._metrics[metric]


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
