"""Brokers as their producers see them: how many keep a FaultItem of one, and how many avoid it."""

from collections.abc import Iterable, Mapping
from typing import Any

from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.totals import Totals
from streaming.metrics.verdict_names import PRODUCERS, UNAVAILABLE_PRODUCERS
from udfs.alerts.rulebook import CANARY_CLUSTER


class Brokers:
    """Tell it of rows of `broker_health`, the newest of each broker at first, then as they come."""

    def __init__(self, exporter: Exporter, clusters: Clusters, limit: int) -> None:
        self._totals = Totals(exporter, "broker_name", clusters, limit)

    @property
    def folded(self) -> int:
        """Brokers without a series of their own."""
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
