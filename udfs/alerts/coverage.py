"""How much of a group gave data: what nobody reported is not known, and ends nothing.

Cruise Control and Burrow do the same: COMPLETENESS_NOT_READY, and a `complete` of 0 to 1 a partition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from udfs.alerts.alert import Incident, brokers_of
from udfs.alerts.life import Evaluation


@dataclass(frozen=True)
class Coverage:
    """The shares, 0 to 1, of the brokers and of the clients concerned that gave data in the window."""

    now_ms: int
    brokers_heard: float = 1.0
    clients_heard: float = 1.0
    without_data: frozenset[str] = frozenset()
    completeness_min: float = 0.0
    queues_without_data: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls,
        now_ms: int,
        brokers: Iterable[str],
        without_data: frozenset[str],
        last_heartbeat_ms: Mapping[str, int],
        queues_without_data: frozenset[tuple[str, str]] = frozenset(),
        *,
        late_ms: int,
        completeness_min: float,
    ) -> "Coverage":
        """`last_heartbeat_ms` is by ClientId; a heartbeat of `late_ms` or before is late. Of `queues_without_data`,
        (topic, queue), nobody gave data that may pull them.
        """
        known = set(brokers)
        fresh = sum(at_ms > late_ms for at_ms in last_heartbeat_ms.values())
        return cls(
            now_ms,
            _share(len(known - without_data), len(known)),
            _share(fresh, len(last_heartbeat_ms)),
            without_data,
            completeness_min,
            queues_without_data,
        )

    @property
    def completeness(self) -> float:
        return min(self.brokers_heard, self.clients_heard)

    def evaluation(self, incident: Incident | None) -> Evaluation:
        """An evaluation of one incident: it is seen when enough gave data, and each broker it is about."""
        is_seen = self.completeness >= self.completeness_min
        if is_seen and incident is not None and self.without_data:
            is_seen = not brokers_of(incident) & self.without_data
        if is_seen and incident is not None and incident.topic is not None and self.queues_without_data:
            is_seen = all((incident.topic, queue) not in self.queues_without_data for queue in incident.queues)
        return Evaluation(self.now_ms, self.completeness, is_seen)


def _share(part: int, whole: int) -> float:
    """Of nothing, all gives data."""
    return round(part / whole, 4) if whole else 1.0
