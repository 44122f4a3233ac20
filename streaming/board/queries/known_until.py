"""Until when something is known of each cluster: what is drawn as lasting ends there, and what follows is not known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.store.store import History
from udfs.alerts.kinds import ABOVE_GROUPS

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Known:
    """`until_ms` is where all data end: now, unless they are old. A silent cluster's end before."""

    until_ms: int
    silent_ms: Mapping[str, int] = field(default_factory=dict)

    def of(self, cluster: str) -> int:
        return min(self.until_ms, self.silent_ms.get(cluster, self.until_ms))

    def of_incident(self, cluster: str, kind: str, started_ms: int) -> int:
        """Of an open incident. That a cluster or a broker gives no data is known as long as there are data, and what
        began in the silence was told by somebody who gave data."""
        known_ms = self.of(cluster)
        return self.until_ms if kind in ABOVE_GROUPS or started_ms >= known_ms else known_ms


def read_known(history: History, until_ms: int, *, by_sends: bool = False) -> Known:
    """Where all data end at `until_ms`; `by_sends` where producers tell what is drawn."""
    silent_ms = _read_silent(history)
    if by_sends and silent_ms:
        sent_ms = _read_sends(history)
        silent_ms = {cluster: max(ms, sent_ms.get(cluster, ms)) for cluster, ms in silent_ms.items()}
    return Known(until_ms, silent_ms)


def _read_silent(history: History) -> dict[str, int]:
    """Clusters of which too few data come now to judge anything, and since when. One that recovers gives data again."""
    return _by_cluster(
        history,
        "SELECT cluster, epoch_ms(min(started_at)) AS ms FROM alerts_now "
        "WHERE kind = 'cluster_no_data' AND state IN ('PENDING', 'UNKNOWN', 'FIRING') "
        "AND NOT coalesce(labels, '') LIKE '%\"collector\":%' GROUP BY cluster",  # one of several is a part
    )


def _read_sends(history: History) -> dict[str, int]:
    """The newest send of each cluster that made a broker avoided: where brokers do not answer, producers may give data.

    A broker comes back by the clock alone, so that it does is no sign of a send.
    """
    return _by_cluster(
        history, "SELECT cluster, epoch_ms(max(changed_at)) AS ms FROM fault_items WHERE NOT available GROUP BY cluster"
    )


def _by_cluster(history: History, sql: str) -> dict[str, int]:
    return {row["cluster"]: row["ms"] for row in history.rows(sql)}
