"""The Prometheus registry of the listed metrics. Thread-safe. A gauge without labels is NaN until it is set."""

import math
from importlib.metadata import version
from typing import Any

import prometheus_client as client
from prometheus_client.exposition import generate_latest

from streaming.metrics.names import METRICS, Metric
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
        self._metrics = {metric.name: self._make(metric) for metric in METRICS if metric.name not in GAUGES}
        if tables is not None:
            self._registry.register(tables)
        self.series("balancewatch_build_info", version=version("balancewatch")).set(1)

    def series(self, name: str, **labels: str) -> Any:
        """Return the series of prometheus_client, created with its first use.

        Raises KeyError for a name that the page lacks, ValueError for other labels than the page's.
        """
        return self._metrics[name].labels(**labels) if labels else self._metrics[name]

    def drop(self, name: str, **labels: str) -> None:
        self._metrics[name].remove_by_labels(labels)

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
