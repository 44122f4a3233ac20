"""Who said that they are at which incident, and which receivers know it."""

from collections.abc import Mapping

from streaming.oncall.delivery import Acknowledgement
from streaming.oncall.incident_state import IncidentState
from streaming.oncall.now import Now
from streaming.oncall.outbox import Outbox


class Acknowledged:
    """Each word reaches each receiver of the incident that can note it, once. One said too early waits."""

    def __init__(self, outboxes: Mapping[str, Outbox]) -> None:
        self._outboxes = outboxes
        self._known: set[tuple[str, str]] = set()
        self._waiting: dict[str, dict[int, Acknowledgement]] = {}

    def note(self, word: Acknowledgement) -> None:
        self._waiting.setdefault(word.incident_id, {})[word.at_ms] = word

    def remember(self, delivery_key: str, receiver: str) -> None:
        """This receiver has it already, from before a restart."""
        self._known.add((delivery_key, receiver))

    def forget(self, incident_id: str) -> None:
        """It is over."""
        self._waiting.pop(incident_id, None)

    def notify(self, incident_id: str, incident_state: IncidentState, now: Now) -> None:
        """What was said of it is due to its receivers, once they are told of it."""
        if incident_state.notified is None:
            return
        for word in self._waiting.pop(incident_id, {}).values():
            for receiver in incident_state.receivers:
                key = f"{incident_id}:acknowledged:{word.at_ms}", receiver
                box = self._outboxes.get(receiver)
                if key not in self._known and box and box.owe_acknowledgement(word, incident_state.notified, now):
                    self._known.add(key)
