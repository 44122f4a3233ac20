"""Alerts that another one explains: they wait under it, as long as somebody hears of that one."""

from collections.abc import Mapping

from streaming.oncall.incident_state import IncidentState
from udfs.alerts.routing import QUIET

WAIT_MS = 120_000
"""So long an effect waits for a cause that may yet fire: most causes need less, and a page need not come twice."""


class Inhibition:
    """Stories by the incident that explains them. The clock is the pace's (streaming.oncall.now)."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, IncidentState]] = {}
        self._causes: dict[str, str] = {}
        self._unsure_since_ms: dict[str, int] = {}
        self._unheard: set[str] = set()
        self._is_flushed = False

    def is_explained(
        self, incident_id: str, receivers: Mapping[str, str], cause_id: str, cause: IncidentState | None, pace_ms: int
    ) -> bool:
        """Whether the cause stands for an effect that would go to these. A cause not seen yet is believed.

        Not: when no route takes the cause, or it is only logged and the effect is not. A cause that has not fired is
        believed for WAIT_MS, or until it is over.
        """
        if cause_id in self._unheard:
            return False
        if cause is None or all(route == QUIET for route in receivers.values()):
            return True
        if cause.is_decided():
            self._unsure_since_ms.pop(incident_id, None)
            return cause.is_heard()
        since_ms = self._unsure_since_ms.setdefault(incident_id, pace_ms)
        return not self._is_flushed and pace_ms < since_ms + WAIT_MS

    def wait(self, incident_id: str, incident_state: IncidentState, cause_id: str) -> None:
        self._waiting.setdefault(cause_id, {})[incident_id] = incident_state
        self._causes[incident_id] = cause_id

    def leave(self, incident_id: str) -> None:
        """It waits no more."""
        cause_id = self._causes.pop(incident_id, None)
        if cause_id is not None:
            incident_states = self._waiting.get(cause_id, {})
            incident_states.pop(incident_id, None)
            if not incident_states:
                self._waiting.pop(cause_id, None)

    def forget(self, incident_id: str) -> None:
        """It is over."""
        self._unsure_since_ms.pop(incident_id, None)

    def release(self, cause_id: str, *, is_over: bool = False) -> list[IncidentState]:
        """Nobody hears of this cause; those that waited under it are to be considered anew."""
        incident_states = list(self._waiting.get(cause_id, {}).values())
        if is_over and incident_states:
            self._unheard.add(cause_id)
        return incident_states

    def due(self, pace_ms: int) -> list[IncidentState]:
        """Those that have waited long enough for a cause to fire."""
        return [
            incident_state
            for incident_states in self._waiting.values()
            for name, incident_state in incident_states.items()
            if pace_ms >= self._unsure_since_ms.get(name, pace_ms) + WAIT_MS
        ]

    def flush(self) -> list[IncidentState]:
        """All that wait so: from now on none does, for nobody may come back to them."""
        self._is_flushed = True
        return [
            incident_state
            for incident_states in self._waiting.values()
            for name, incident_state in incident_states.items()
            if name in self._unsure_since_ms
        ]
