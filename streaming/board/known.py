"""What is known: the clusters, the drawn part of a period, and the end of each cluster's data.

Charts draw open incidents up to the end of the data.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from udfs.alerts.kinds import ABOVE_GROUPS
from udfs.alerts.rulebook import CANARY_CLUSTER

MARGIN = 40
"""Divisor: the margin on either side is this part of the time between first and last."""

LEAST_MARGIN_MS = 30_000


def extent_of(from_ms: int, until_ms: int, times_ms: Iterable[int]) -> tuple[int, int]:
    """Return the part of [from_ms, until_ms] with these times and a margin; all of it without times."""
    known = [min(max(ms, from_ms), until_ms) for ms in times_ms]
    if not known:
        return from_ms, until_ms
    margin_ms = max(LEAST_MARGIN_MS, (max(known) - min(known)) // MARGIN)
    return max(from_ms, min(known) - margin_ms), min(until_ms, max(known) + margin_ms)


NO_DATA = "no data"


@dataclass(frozen=True)
class Known:
    """`until_ms` is the end of all data: now, unless they are old. The data of a silent cluster end earlier."""

    until_ms: int
    silent_ms: Mapping[str, int] = field(default_factory=dict)

    def of(self, cluster: str) -> int:
        return min(self.until_ms, self.silent_ms.get(cluster, self.until_ms))

    def of_incident(self, cluster: str, kind: str, started_ms: int) -> int:
        """Return until when an open incident is known. Missing data of a cluster or broker is known until the end of
        all data, and so is an incident that began during the silence, since some source reported it."""
        known_ms = self.of(cluster)
        return self.until_ms if kind in ABOVE_GROUPS or started_ms >= known_ms else known_ms


def read_known(history: History, until_ms: int, *, by_sends: bool = False) -> Known:
    """Return the ends of the data. `by_sends`: producers report what is drawn."""
    silent_ms = {row["cluster"]: row["ms"] for row in history.rows(_SILENT)}
    if by_sends and silent_ms:
        sent_ms = {row["cluster"]: row["ms"] for row in history.rows(_SENDS)}
        silent_ms = {cluster: max(ms, sent_ms.get(cluster, ms)) for cluster, ms in silent_ms.items()}
    return Known(until_ms, silent_ms)


_SILENT = """
SELECT cluster, epoch_ms(min(started_at)) AS ms FROM alerts_now
WHERE kind = 'cluster_no_data' AND state IN ('PENDING', 'UNKNOWN', 'FIRING')
    AND NOT coalesce(labels, '') LIKE '%"collector":%'
GROUP BY cluster
"""
"""Since when each cluster lacks the data to judge it. Recovering ones have data; a label names one collector's part."""

_SENDS = "SELECT cluster, epoch_ms(max(changed_at)) AS ms FROM fault_items WHERE NOT available GROUP BY cluster"
"""The newest send per cluster that made a producer avoid a broker. Producers may report while brokers do not; the end
of an avoidance comes by the clock and proves no send."""


def read_cluster_names(history: History) -> list[str]:
    """Return the clusters of all live tables, without the canary's."""
    each = " UNION ".join(f"SELECT cluster FROM {table.name}" for table in LIVE_TABLES)
    rows = history.rows(
        f"SELECT DISTINCT cluster FROM ({each}) WHERE cluster <> $canary ORDER BY 1", {"canary": CANARY_CLUSTER}
    )
    return [row["cluster"] for row in rows]
