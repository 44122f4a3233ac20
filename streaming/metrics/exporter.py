"""The Prometheus registry of the listed metrics. Thread-safe. A gauge without labels is NaN until it is set."""

import math
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import prometheus_client as client
from prometheus_client.exposition import generate_latest

from streaming.metrics.names import BUILD_INFO, METRICS, Metric
from streaming.metrics.tables import GAUGES, TableMetrics

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `text`."""

_KINDS: dict[str, Any] = {"gauge": client.Gauge, "counter": client.Counter, "histogram": client.Histogram}


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
        try:
            release = version("balancewatch")
        except PackageNotFoundError:
            release = "unknown"
        self.series(BUILD_INFO, version=release).set(1)

    def series(self, metric: Metric, **labels: str) -> Any:
        """Return the series of prometheus_client, created with its first use. Raises ValueError for other labels."""
        return self._metrics[metric].labels(**labels) if labels else self._metrics[metric]

    def drop(self, metric: Metric, **labels: str) -> None:
        self._metrics[metric].remove(*(labels[name] for name in metric.labels))

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return bytes(generate_latest(self._registry))

    def _make(self, metric: Metric) -> Any:
        options: dict[str, Any] = {"registry": self._registry}
        if metric.buckets:
            options["buckets"] = metric.buckets
        family = _KINDS[metric.kind](metric.name, metric.says, metric.labels, **options)
        if metric.kind == "gauge" and not metric.labels:
            family.set(math.nan)
        return family
