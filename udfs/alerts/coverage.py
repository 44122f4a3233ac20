"""How much of the data an incident rests on arrived: missing data ends nothing (README.md, "Completeness").

Cruise Control and Burrow do the same: COMPLETENESS_NOT_READY, and a `complete` of 0 to 1 for each partition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from udfs.alerts.alert import Incident, brokers_of
from udfs.alerts.life import Evaluation

ON_HEARTBEATS = frozenset(
    {"duplicate_client_id", "split_view", "inconsistent_subscription", "group_offline", "client_id_at_risk"}
)
"""Kinds that rest on the members' heartbeats; the others rest on what their own queues and brokers report."""


@dataclass(frozen=True)
class Coverage:
    """One group at one evaluation; shares are 0 to 1.

    brokers              share of the group's brokers that gave data
    heartbeats           share of its members whose heartbeats are on time
    answers              share of its members whose own answers are not missing
    without_data         brokers without data
    queues_without_data  (topic, queue) whose pulls nobody could report
    """

    now_ms: int
    brokers: float = 1.0
    heartbeats: float = 1.0
    answers: float = 1.0
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
        missing_members: frozenset[str] = frozenset(),
        queues_without_data: frozenset[tuple[str, str]] = frozenset(),
        *,
        late_ms: int,
        completeness_min: float,
    ) -> "Coverage":
        """`last_heartbeat_ms` is by ClientId; a heartbeat of `late_ms` or before is late. The own answers of
        `missing_members` are missing.
        """
        known, members = set(brokers), len(last_heartbeat_ms)
        fresh = sum(at_ms > late_ms for at_ms in last_heartbeat_ms.values())
        return cls(
            now_ms,
            _share(len(known - without_data), len(known)),
            _share(fresh, members),
            _share(members - len(last_heartbeat_ms.keys() & missing_members), members),
            without_data,
            completeness_min,
            queues_without_data,
        )

    @property
    def completeness(self) -> float:
        """Of the entire group: what its verdicts carry."""
        return min(self.brokers, self.heartbeats, self.answers)

    def evaluation(self, incident: Incident | None) -> Evaluation:
        """Return one incident's evaluation, with the completeness of what that incident rests on.

        Its own brokers and queues must all have given data, and enough of the group's brokers where it names none; a
        kind of ON_HEARTBEATS needs enough members on time besides.
        """
        if incident is None:
            return Evaluation(self.now_ms, self.completeness, self.completeness >= self.completeness_min)
        own = brokers_of(incident)
        of_own, of_group = _share(len(own - self.without_data), len(own)), 1.0
        if incident.kind in ON_HEARTBEATS:
            of_group = self.heartbeats
        else:
            lost = {queue for queue in incident.queues if (incident.topic or "", queue) in self.queues_without_data}
            of_own = min(of_own, _share(len(incident.queues) - len(lost), len(incident.queues)))
        if not own:
            of_group = min(of_group, self.brokers)
        is_seen = of_own == 1.0 and of_group >= self.completeness_min
        return Evaluation(self.now_ms, min(of_own, of_group), is_seen)


def _share(part: int, whole: int) -> float:
    """A share of nothing is 1."""
    return round(part / whole, 4) if whole else 1.0
