"""The end of the data of each cluster, up to which figures draw what is still open."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.store.store import History
from udfs.alerts.kinds import ABOVE_GROUPS

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
    silent_ms = _read_silent(history)
    if by_sends and silent_ms:
        sent_ms = _read_sends(history)
        silent_ms = {cluster: max(ms, sent_ms.get(cluster, ms)) for cluster, ms in silent_ms.items()}
    return Known(until_ms, silent_ms)


def _read_silent(history: History) -> dict[str, int]:
    """Return since when each cluster lacks the data to judge it; recovering ones have data."""
    return _by_cluster(
        history,
        "SELECT cluster, epoch_ms(min(started_at)) AS ms FROM alerts_now "
        "WHERE kind = 'cluster_no_data' AND state IN ('PENDING', 'UNKNOWN', 'FIRING') "
        "AND NOT coalesce(labels, '') LIKE '%\"collector\":%' GROUP BY cluster",  # one collector's part
    )


def _read_sends(history: History) -> dict[str, int]:
    """Return the newest send per cluster that made a producer avoid a broker.

    Producers may report while brokers do not. The end of an avoidance comes by the clock and proves no send.
    """
    return _by_cluster(
        history, "SELECT cluster, epoch_ms(max(changed_at)) AS ms FROM fault_items WHERE NOT available GROUP BY cluster"
    )


def _by_cluster(history: History, sql: str) -> dict[str, int]:
    return {row["cluster"]: row["ms"] for row in history.rows(sql)}
