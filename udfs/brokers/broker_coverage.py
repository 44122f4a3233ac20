"""Which brokers give data. What clients and queues of a broker without data do is not known, and so not wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from udfs.brokers.families import Families

NO_COLLECTOR = "no_collector"
"""The reason where nobody asks any more: the one collector that spoke for it has stopped."""

NO_PULLS = "no_pulls"
"""The reason where the pulls of a broker are reported no more, though its heartbeats are (mute_brokers.py)."""

EVERY_MEMBER = "*"
"""In place of a ClientId: all members of the group, where a clock event has no room to name each."""


@dataclass(frozen=True)
class Unasked:
    """Something of the cluster that its brokers did not let hear, though they answered; None stands for every one.

    `reason` is the event's (refused, timed_out, left_in_peace, no_time, failed) or NO_COLLECTOR.
    """

    broker_name: str | None
    consumer_group: str | None
    client_id: str | None
    reason: str
    since_ms: int

    def covers(self, consumer_group: str, broker_name: str | None, client_id: str | None) -> bool:
        """Whether all of this was unasked: an entry about one broker does not cover a question about every broker."""
        return (
            self.consumer_group in (None, consumer_group)
            and self.broker_name in (None, broker_name)
            and self.client_id in (None, client_id)
        )


@dataclass(frozen=True)
class FrozenQueues:
    """An open incident of one group and topic whose cause other groups may share.

    culprits   the frozen processes, as udfs.rocketmq.membership names them, or the brokers that serve no pull
    is_page    it has fired, and no other incident explains it
    """

    consumer_group: str
    topic: str
    incident_id: str
    culprits: list[str]
    queues: list[str]
    is_page: bool
    kind: str


@dataclass(frozen=True)
class BrokerCoverage:
    """What of a cluster gave data, as of one tick.

    without_data     brokers that did not answer, or whose clients no collector reaches
    missed           brokers without data that missed only the newest rounds: what was known just now still holds
    since_ms         broker → since when the broker gives data again, after it was missed for long
    answered         brokers that were really asked and did answer
    pulled_ms        broker → since when the broker reports every pull it gets
    silent           brokers that are out of their clients' reach
    gap_ms           how long no data had arrived, at the tick that ends it
    explained        broker → the open incident that explains what is wrong under the broker
    cluster_id       the open incident that explains everything: no data at all, or two clusters share the name
    masterless       broker → the open incident of its missing master, which explains what needs a master
    unasked          what nobody asked, or was not told, in the newest rounds: not known, so neither silent nor gone
    families         the groups that are born and die with their processes
    reports_answers  collectors report which queues clients say they hold, and which clients they could not ask
    frozen           group → its open incidents with a shared cause, as of its newest evaluation
    unserved         brokers that serve no pull, though heartbeats and committed offsets arrive
    reported_until_ms  broker that reports its pulls no more → the newest one that it reported
    """

    without_data: frozenset[str] = frozenset()
    since_ms: Mapping[str, int] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    pulled_ms: Mapping[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    gap_ms: int = 0
    explained: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    masterless: Mapping[str, str] = field(default_factory=dict)
    unasked: tuple[Unasked, ...] = ()
    missed: frozenset[str] = frozenset()
    families: Families = field(default_factory=Families)
    reports_answers: bool = False
    frozen: Mapping[str, list[FrozenQueues]] = field(default_factory=dict)
    reported_until_ms: Mapping[str, int] = field(default_factory=dict)
    unserved: frozenset[str] = frozenset()

    def data_since_ms(self, broker_name: str) -> int | None:
        """Since when the broker gives data without a gap; 0 for always, None for not now."""
        return None if broker_name in self.without_data else self.since_ms.get(broker_name, 0)

    def explains(self, brokers: set[str], *, needs_master: bool) -> str | None:
        """The open incident that explains trouble at these brokers, all of them; of none, only the cluster's does."""
        if self.cluster_id is not None:
            return self.cluster_id
        explained = {**self.masterless, **self.explained} if needs_master else self.explained
        if not brokers or not brokers <= explained.keys():
            return None
        return explained[min(brokers)]
