"""How much of a group was heard: what nobody heard is not known, and ends nothing.

Cruise Control and Burrow do the same: COMPLETENESS_NOT_READY, and a `complete` of 0 to 1 a partition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from udfs.alert import Incident, brokers_of
from udfs.life import Look


@dataclass(frozen=True)
class Sight:
    """The shares, 0 to 1, of the brokers and of the clients concerned that were heard in the window."""

    now_ms: int
    brokers_heard: float = 1.0
    clients_heard: float = 1.0
    unheard: frozenset[str] = frozenset()
    completeness_min: float = 0.0
    unheard_queues: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls,
        now_ms: int,
        brokers: Iterable[str],
        unheard: frozenset[str],
        last_heartbeat_ms: Mapping[str, int],
        unheard_queues: frozenset[tuple[str, str]] = frozenset(),
        *,
        late_ms: int,
        completeness_min: float,
    ) -> "Sight":
        """`last_heartbeat_ms` is by ClientId; a heartbeat of `late_ms` or before is late. Of `unheard_queues`, (topic,
        queue), nobody was heard that may pull them.
        """
        known = set(brokers)
        fresh = sum(at_ms > late_ms for at_ms in last_heartbeat_ms.values())
        return cls(
            now_ms,
            _share(len(known - unheard), len(known)),
            _share(fresh, len(last_heartbeat_ms)),
            unheard,
            completeness_min,
            unheard_queues,
        )

    @property
    def completeness(self) -> float:
        return min(self.brokers_heard, self.clients_heard)

    def look(self, incident: Incident | None) -> Look:
        """A look at one incident: it is seen when enough was heard, and each broker it is about."""
        is_seen = self.completeness >= self.completeness_min
        if is_seen and incident is not None and self.unheard:
            is_seen = not brokers_of(incident) & self.unheard
        if is_seen and incident is not None and incident.topic is not None and self.unheard_queues:
            is_seen = all((incident.topic, queue) not in self.unheard_queues for queue in incident.queues)
        return Look(self.now_ms, self.completeness, is_seen)


def _share(part: int, whole: int) -> float:
    """Of nothing, all is heard."""
    return round(part / whole, 4) if whole else 1.0
