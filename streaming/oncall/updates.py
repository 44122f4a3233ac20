"""Changes of the queues alone, held until the list stands still: one that changes at each tick is no news at each tick.

The first change of an incident waits for half a minute of quiet, each later one twice as long, up to a quarter of an
hour; a list that never stands still is told after four times that. Another cause or severity waits for nothing. The
clock is the pace's (streaming.oncall.now).
"""

from dataclasses import dataclass

from streaming.oncall.incident_state import IncidentState, content
from streaming.oncall.notice import Notice

SETTLE_MS = 30_000
LONGEST_SETTLE_MS = 900_000
PATIENCE = 4


@dataclass
class _Change:
    """An unreported one: since when there is something to tell, and since when it is this."""

    incident_state: IncidentState
    queues: tuple[str, ...]
    since_ms: int
    changed_ms: int


class Updates:
    """Of incidents that were told. An incident's own are forgotten with it."""

    def __init__(self) -> None:
        self._held: dict[str, _Change] = {}
        self._notified: dict[str, int] = {}
        self._is_flushed = False

    def is_held(self, incident_state: IncidentState, notified: Notice, notice: Notice, pace_ms: int) -> bool:
        """Whether this change of what was notified is to wait; asked again when `due` says so."""
        name = notice.incident_id
        if content(notice, with_queues=False) != content(notified, with_queues=False):
            self.drop(name)
            return False
        change = self._held.setdefault(name, _Change(incident_state, notice.queues, pace_ms, pace_ms))
        if change.queues != notice.queues:
            change.queues, change.changed_ms = notice.queues, pace_ms
        if not self._is_flushed and not self._is_due(name, change, pace_ms):
            return True
        self.drop(name)
        self._notified[name] = self._notified.get(name, 0) + 1
        return False

    def due(self, pace_ms: int) -> list[IncidentState]:
        """Those that have waited long enough."""
        return [change.incident_state for name, change in self._held.items() if self._is_due(name, change, pace_ms)]

    def flush(self) -> list[IncidentState]:
        """All: from now on nothing is held, for nobody may come back to it."""
        self._is_flushed = True
        return [change.incident_state for change in self._held.values()]

    def drop(self, incident_id: str) -> None:
        """Nothing of it is unreported."""
        self._held.pop(incident_id, None)

    def forget(self, incident_id: str) -> None:
        """It is over."""
        self.drop(incident_id)
        self._notified.pop(incident_id, None)

    def _is_due(self, name: str, change: _Change, pace_ms: int) -> bool:
        settle_ms = min(LONGEST_SETTLE_MS, SETTLE_MS << min(self._notified.get(name, 0), 10))
        return pace_ms >= min(change.changed_ms + settle_ms, change.since_ms + PATIENCE * settle_ms)
