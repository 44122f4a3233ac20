"""Open incidents, counted by cluster, kind, severity, state, and whether another explains them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streaming.metrics.cardinality import OTHER, clean
from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.verdict_names import INCIDENTS
from udfs.alerts.rulebook import CANARY_CLUSTER

RESOLVED = "RESOLVED"


class Shape(NamedTuple):
    """What is counted together: the labels of the series."""

    cluster: str
    kind: str
    severity: str
    state: str
    is_inhibited: str


class Incidents:
    """Tell it of rows of `alerts`, an incident's in their order; the canary's are left out.

    A count that has come down to 0 stays until its cluster loses its name, so that what is over is seen to be over.
    """

    def __init__(self, exporter: Exporter, clusters: Clusters) -> None:
        self._exporter, self._clusters = exporter, clusters
        self._open: dict[str, tuple[str, Shape]] = {}
        self._counts: Counter[Shape] = Counter()
        self._exported: set[Shape] = set()
        clusters.when_lost(self._lose)

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        touched: set[Shape] = set()
        for row in rows:
            if row["cluster"] == CANARY_CLUSTER:
                continue
            if row["state"] != RESOLVED:
                self._clusters.join(row["cluster"])
            cluster, before = self._open.pop(row["incident_id"], (None, None))
            if cluster is not None and before is not None:
                self._counts[before] -= 1
                touched.add(before)
                self._clusters.leave(cluster)
            if row["state"] != RESOLVED:
                shape = self._shape(row)
                self._open[row["incident_id"]] = row["cluster"], shape
                self._counts[shape] += 1
                touched.add(shape)
        for shape in touched & self._counts.keys():
            self._exporter.set(INCIDENTS, self._counts[shape], **shape._asdict())
            self._exported.add(shape)

    def _lose(self, cluster: str) -> None:
        for shape in [one for one, count in self._counts.items() if one.cluster == clean(cluster) and not count]:
            del self._counts[shape]
            if shape in self._exported:
                self._exported.discard(shape)
                self._exporter.drop(INCIDENTS, **shape._asdict())

    def _shape(self, row: Mapping[str, Any]) -> Shape:
        cluster = clean(row["cluster"]) if self._clusters.is_named(row["cluster"]) else OTHER
        is_inhibited = "true" if row.get("inhibited_by") else "false"
        return Shape(cluster, row["kind"], row["severity"], row["state"], is_inhibited)
