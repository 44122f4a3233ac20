"""The limit on notified alerts of a kind and cluster, and the alerts that wait for it."""

from streaming.oncall.incident_state import IncidentState
from streaming.oncall.notice import Notice
from streaming.oncall.relay_alerts import Limited
from udfs.alerts.firing_limit import pick_notified, rank_of

Scope = tuple[str, str]
"""Cluster and kind, the unit of the limit."""


def _scope(notice: Notice) -> Scope:
    return notice.cluster, notice.kind


class RateLimit:
    """A notified alert keeps its place until it resolves; `admit` gives free places to waiting alerts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[Scope, dict[str, IncidentState]] = {}
        self._notified: dict[Scope, set[str]] = {}

    @property
    def reason(self) -> str:
        """Return the reason of waiting alerts for the delivery log."""
        return f"the limit of {self._limit} alerts of this kind and cluster is reached"

    def wait(self, notice: Notice, incident_state: IncidentState) -> None:
        self._waiting.setdefault(_scope(notice), {})[notice.incident_id] = incident_state

    def leave(self, notice: Notice) -> None:
        """Remove a waiting alert."""
        self._waiting.get(_scope(notice), {}).pop(notice.incident_id, None)

    def take(self, notice: Notice) -> None:
        """Count a notified alert, whether there is room or not."""
        self._notified.setdefault(_scope(notice), set()).add(notice.incident_id)

    def free(self, notice: Notice) -> None:
        """Free the place of a resolved alert."""
        self._notified.get(_scope(notice), set()).discard(notice.incident_id)

    def has_room(self, notice: Notice) -> bool:
        return len(self._notified.get(_scope(notice), ())) < self._limit

    def admit(self, notice: Notice) -> list[tuple[IncidentState, Notice]]:
        """Return as many waiting alerts of its kind and cluster as there is room for, and give them places."""
        notified, waiting = self._notified.setdefault(_scope(notice), set()), self._waiting.get(_scope(notice), {})
        if not waiting or len(notified) >= self._limit:
            return []
        picked = pick_notified(
            len(notified), [incident_state.waiting() for incident_state in waiting.values()], self._limit
        )
        notified.update(picked)
        incident_states = [waiting.pop(incident_id) for incident_id in picked]
        return [
            (incident_state, incident_state.newest.notice)
            for incident_state in incident_states
            if incident_state.newest is not None
        ]

    def limited(self, cluster: str, kind: str) -> list[Notice]:
        """Return the waiting alerts of this kind."""
        return [
            incident_state.newest.notice
            for incident_state in self._waiting.get((cluster, kind), {}).values()
            if incident_state.newest
        ]

    def waiting(self) -> list[IncidentState]:
        """Return all waiting alerts."""
        return [
            incident_state for incident_states in self._waiting.values() for incident_state in incident_states.values()
        ]

    def counted(self) -> list[Limited]:
        """Return the contents of the alerts_limited alerts, one per cluster and kind."""
        counted = []
        for cluster, kind in self._waiting:
            notices = self.limited(cluster, kind)
            if notices:
                worst = min((notice.severity for notice in notices), key=rank_of)
                counted.append(Limited(cluster, kind, len(notices), self._limit, worst))
        return counted
