"""Metrics of brokers: producers with a FaultItem, and producers that avoid the broker."""

from collections.abc import Iterable, Mapping
from typing import Any

from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.totals import Totals
from streaming.metrics.verdict_names import PRODUCERS, UNAVAILABLE_PRODUCERS
from udfs.alerts.rulebook import CANARY_CLUSTER


class Brokers:
    """Counts from rows of `broker_health`: first the newest of each broker, then each new row."""

    def __init__(self, exporter: Exporter, clusters: Clusters, limit: int) -> None:
        self._totals = Totals(exporter, "broker_name", clusters, limit)

    @property
    def folded(self) -> int:
        """Return the number of brokers without series."""
        return self._totals.folded

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["cluster"] == CANARY_CLUSTER:
                continue
            subject = row["cluster"], row["broker_name"]
            if row["producers"]:
                avoiding, all_of_them = row["unavailable_producers"], row["producers"]
                self._totals.put(subject, {(UNAVAILABLE_PRODUCERS, ()): avoiding, (PRODUCERS, ()): all_of_them})
            else:
                self._totals.remove(subject)
        self._totals.flush()
