"""Open incidents, counted by cluster, kind, severity, state, and whether another explains them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streaming.metrics.exporter import Exporter
from streaming.metrics.folding import OTHER, Folding, clean
from streaming.metrics.verdict_names import INCIDENTS
from streaming.oncall.own_alerts import CANARY_CLUSTER

RESOLVED = "RESOLVED"


class Shape(NamedTuple):
    """What is counted together: the labels of the series."""

    cluster: str
    kind: str
    severity: str
    state: str
    is_suppressed: str


class Incidents:
    """Tell it of rows of `alerts`, an incident's in their order; the canary's are left out.

    A count that has come down to 0 stays, so that what is over is seen to be over.
    """

    def __init__(self, exporter: Exporter, clusters: Folding[str]) -> None:
        self._exporter, self._clusters = exporter, clusters
        self._open: dict[str, Shape] = {}
        self._counts: Counter[Shape] = Counter()

    def hear(self, rows: Iterable[Mapping[str, Any]]) -> None:
        touched: set[Shape] = set()
        for row in rows:
            if row["cluster"] == CANARY_CLUSTER:
                continue
            before = self._open.pop(row["incident_id"], None)
            if before is not None:
                self._counts[before] -= 1
                touched.add(before)
            if row["state"] != RESOLVED:
                shape = self._open[row["incident_id"]] = self._shape(row)
                self._counts[shape] += 1
                touched.add(shape)
        for shape in touched:
            self._exporter.set(INCIDENTS, self._counts[shape], **shape._asdict())

    def _shape(self, row: Mapping[str, Any]) -> Shape:
        cluster = clean(row["cluster"]) if self._clusters.is_named(row["cluster"]) else OTHER
        is_suppressed = "true" if row.get("suppressed_by") else "false"
        return Shape(cluster, row["kind"], row["severity"], row["state"], is_suppressed)
