"""What one evaluation of a group rests on, at one tick."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from udfs.alerts.alert import Incident
from udfs.alerts.life import Coverage
from udfs.alerts.phrase import Phrase, phrase
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import EVERY_MEMBER, NO_PULLS, BrokerCoverage
from udfs.groups.diagnosis import Evidence
from udfs.groups.plan import SPLIT_VIEW, reference_view, strategies_of
from udfs.groups.queue_state import RECENT_PULL_MS, UNKNOWN, QueueState
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import NOT_ASKED, NOT_HEARD, UNASKED
from udfs.rocketmq.heartbeat import ANY
from udfs.rocketmq.membership import Member, Twins, newest_heartbeats
from udfs.rocketmq.route import Route


@dataclass(frozen=True)
class NotAsked:
    """What of one group is missing in the newest round: it is unknown, so neither silent nor gone. Reasons are those of
    verdict_reason.

    brokers  broker → why it gave no data of the group
    members  ClientId → why the member's own answer is missing; its heartbeats may arrive all the same
    lately   the members whose answer was missing in the newest rounds only: what they answered before still holds
    mute     brokers whose pulls are unknown; their heartbeats and offsets are known
    """

    brokers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    lately: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        consumer_group: str,
        brokers: Iterable[str],
        client_ids: Iterable[str],
        broker_coverage: BrokerCoverage,
        lately_ms: int,
    ) -> "NotAsked":
        """`brokers` and `client_ids` are the group's. An answer that is missing since after `lately_ms` is missing
        lately.
        """
        if not broker_coverage.unasked:
            return NOTHING
        of_brokers: dict[str, str] = {}
        since_ms: dict[str, int] = {}
        reasons: dict[str, str] = {}
        mute: set[str] = set()
        known, members = sorted(brokers), sorted(set(client_ids))
        for one in broker_coverage.unasked:
            if one.consumer_group not in (None, consumer_group):
                continue
            reason = UNASKED.get(one.reason, NOT_ASKED)
            if one.client_id is not None:
                for client_id in members if one.client_id == EVERY_MEMBER else (one.client_id,):
                    reasons.setdefault(client_id, reason)
                    since_ms[client_id] = min(one.since_ms, since_ms.get(client_id, one.since_ms))
            elif one.reason == NO_PULLS:
                mute.update(known if one.broker_name is None else [one.broker_name])
            else:
                of_brokers |= dict.fromkeys(known if one.broker_name is None else [one.broker_name], reason)
        lately = frozenset(client_id for client_id, at_ms in since_ms.items() if at_ms > lately_ms)
        return cls(of_brokers, reasons, lately, frozenset(mute))

    @property
    def missing(self) -> frozenset[str]:
        """The members whose own answers are missing data by now."""
        return frozenset(self.members) - self.lately

    def is_lately(self, owner: str | None) -> bool:
        """Whether the answer that is missing of a queue with this owner, or of all its members, is missing lately."""
        return self.lately >= (self.members.keys() if owner is None else {owner}) and bool(self.lately)


NOTHING = NotAsked()


ON_TIME = "on_time|"
"""The condition, with the broker's name, that some member's heartbeat was on time there (GroupState.conditions)."""

NEXT_HEARTBEAT_MS = 35_000
"""A client that can reach a broker does so again within this: 30 s, and a little. What comes elsewhere by less than
this later may be the same heartbeat by another clock, or in events that lag more."""


@dataclass(frozen=True)
class GroupSnapshot:
    """A group at one tick, once expired members have left: what its members say does not change until the next one."""

    state: GroupState
    routes: Mapping[str, Route]
    now_ms: int
    broker_coverage: BrokerCoverage
    not_asked: NotAsked
    rules: Rules

    @cached_property
    def members(self) -> list[Member]:
        return [member for _, member in self.state.membership.members()]

    @cached_property
    def judged_members(self) -> list[Member]:
        """Those that client-side rebalance concerns."""
        return [member for member in self.members if member.is_judged]

    @cached_property
    def unjudged_members(self) -> list[Member]:
        return [member for member in self.members if not member.is_judged]

    @cached_property
    def reporting(self) -> frozenset[str]:
        """Clients that answer which queues they hold: push consumers that have answered what they are."""
        return frozenset(one.client_id for one in self.members if one.is_push and one.strategy is not None)

    @cached_property
    def orderly(self) -> frozenset[str]:
        """Clients that report that they consume in order."""
        return frozenset(member.client_id for member in self.members if member.consume_orderly)

    @cached_property
    def mixed(self) -> frozenset[str]:
        """Topics subscribed by different expressions: brokers filter by the newest member's, clients by their own."""
        return frozenset(
            topic
            for topic in {topic for member in self.members for topic in member.filters}
            if len({member.filters.get(topic, ANY) for member in self.members if member.subscribes(topic)}) > 1
        )

    @cached_property
    def twins(self) -> list[Twins]:
        return self.state.membership.twins(self.rules.channel_expired_ms)

    @cached_property
    def _heartbeats(self) -> tuple[dict[str, int], set[str]]:
        return newest_heartbeats(self.state.membership, self.state.data_from_ms)

    @property
    def last_heartbeat_ms(self) -> Mapping[str, int]:
        """By ClientId, at any broker."""
        return self._heartbeats[0]

    @property
    def listed_only(self) -> set[str]:
        """Clients whose heartbeats no broker reports."""
        return self._heartbeats[1]

    @property
    def late_ms(self) -> int:
        """A heartbeat of then or before is late."""
        return self.now_ms - self.rules.heartbeat_late_ms

    @cached_property
    def late(self) -> frozenset[str]:
        """Clients whose newest heartbeat is late; one that is only listed is never known to be late."""
        newest_ms, late_ms = self.last_heartbeat_ms, self.late_ms
        return frozenset(one for one, at_ms in newest_ms.items() if at_ms <= late_ms and one not in self.listed_only)

    @cached_property
    def heard_ms(self) -> dict[str, dict[str, int]]:
        """Broker with a master → ClientId → its newest heartbeat there; none before the broker gave data."""
        masters = {name for route in self.routes.values() for name in route.broker_names() - set(route.without_master)}
        found: dict[str, dict[str, int]] = {}
        for broker_name, view in self.state.membership.views.items():
            if broker_name in masters:
                heard_ms = found[broker_name] = {}
                since_ms = max(self.state.data_from_ms, self.broker_coverage.data_since_ms(broker_name) or 0)
                for member in view.values():
                    known_ms = heard_ms.get(member.client_id, since_ms)
                    heard_ms[member.client_id] = max(known_ms, member.last_heartbeat_ms)
        return found

    @cached_property
    def cut_off(self) -> dict[str, frozenset[str]]:
        """Broker → clients whose heartbeats are late there, and not elsewhere, though others' heartbeats arrive there.

        A client's newest heartbeat elsewhere must have come so much later as a heartbeat does. The broker must give
        data: it answers, or others reach it after the client should have again. One whose heartbeats were never on time
        may have a clock that is behind; once it is known to be, each client's next one is on time.
        """
        found, newest, late_ms = {}, self.last_heartbeat_ms, self.late_ms
        for broker_name, heard_ms in self.heard_ms.items():
            on_time_ms = self.state.conditions.get(f"{ON_TIME}{broker_name}")
            if on_time_ms is not None and self.now_ms < on_time_ms + NEXT_HEARTBEAT_MS:
                continue
            newest_ms = max(heard_ms.values())
            answers = broker_name in self.broker_coverage.answered and on_time_ms is not None
            judged = {one.client_id for one in self.state.membership.views[broker_name].values() if one.is_judged}
            silent = {
                client_id
                for client_id in judged
                if heard_ms[client_id] <= late_ms < newest[client_id]
                and newest[client_id] > heard_ms[client_id] + NEXT_HEARTBEAT_MS
                and (answers or newest_ms > heard_ms[client_id] + NEXT_HEARTBEAT_MS)
            }
            if silent and broker_name not in self.broker_coverage.without_data:
                found[broker_name] = frozenset(silent)
        return found

    def note_on_time(self) -> None:
        """Keep since when each broker's heartbeats are on time."""
        for condition in [name for name in self.state.conditions if name.startswith(ON_TIME)]:
            self.since(condition, condition.removeprefix(ON_TIME) in self.state.membership.views)
        for broker_name, heard_ms in self.heard_ms.items():
            if max(heard_ms.values()) > self.late_ms:
                self.since(f"{ON_TIME}{broker_name}", holds=True)

    @property
    def labels(self) -> dict[str, str]:
        """The identity every finding of the group begins with."""
        return {"cluster": self.state.cluster, "consumer_group": self.state.consumer_group}

    @property
    def where(self) -> Phrase:
        return phrase("group {consumer_group} (cluster {cluster})", **self.labels)

    def shared_topics(self) -> Iterator[tuple[str, TopicState]]:
        """Topics whose queues the group's members share out, by name."""
        return (
            (topic, topic_state) for topic, topic_state in sorted(self.state.topics.items()) if topic_state.is_shared
        )

    def incident(self, key: str) -> Incident | None:
        """The incident of this finding, if it has fired and is not over."""
        incident = self.state.incidents.get(key)
        return incident if incident and incident.has_fired else None

    def inhibitor(self, *keys: str) -> str | None:
        """The incident id of the first of these findings that has fired and is not over."""
        return next((incident.incident_id for key in keys if (incident := self.incident(key))), None)

    def evidence(self, topic: str, topic_state: TopicState) -> Evidence:
        """What the causes of a topic's silence are judged by."""
        route = self.routes.get(topic)
        is_order_topic = route is not None and route.order_topic
        orderly = {
            member.client_id
            for member in self.members
            if (is_order_topic if member.consume_orderly is None else member.consume_orderly)
        }
        members = {member.client_id: member for member in self.judged_members}
        queue_states = topic_state.queues.values()
        pullers = [puller for queue_state in queue_states for puller in queue_state.pullers.values()]
        has_pulled = bool(pullers) or any((one.last_pull_ms or 0) > self.state.changed_ms for one in queue_states)
        views = self.state.membership.views
        joined_ms: dict[str, dict[str, int]] = {name: {} for name in views}
        extra_entries: Counter[str] = Counter()
        for name, view in views.items():
            for member in view.values():
                known_ms = joined_ms[name].get(member.client_id, 0)
                joined_ms[name][member.client_id] = max(member.first_heartbeat_ms, known_ms)
            extra_entries |= Counter(member.client_id for member in view.values()) - Counter(joined_ms[name].keys())
        strategies = {member.strategy for member in members.values() if member.strategy}
        return Evidence(
            twin_ids=frozenset(twins.client_id for twins in self.twins),
            last_heartbeat_ms=self.last_heartbeat_ms,
            now_ms=self.now_ms,
            listed_only=frozenset(self.listed_only),
            late=self.late,
            unheard=self.not_asked.missing,
            orderly=frozenset(orderly),
            pulling=frozenset(
                puller.client_id
                for puller in pullers
                if orderly and puller.client_id and puller.last_pull_ms + RECENT_PULL_MS > self.now_ms
            ),
            pulled_last=frozenset(one.last_client_id for one in queue_states if one.last_client_id),
            masterless=frozenset(route.without_master) if route else frozenset(),
            unsubscribed=tuple(sorted(cid for cid, member in members.items() if not member.subscribes(topic))),
            is_ring_empty=strategies == {"CONSISTENT_HASH"} and not has_pulled,
            joined_ms=joined_ms,
            cut_off={
                name: self.cut_off.get(name, frozenset()) | self._unlisted(name) for name in topic_state.read_queue_nums
            },
            explained=topic_state.inference.causes,
            extra_entries=extra_entries.total(),
        )

    def strategies(self, topic: str, topic_state: TopicState) -> dict[str, list[str]]:
        """Strategy → the ClientIds that allocate the topic by it, told or inferred."""
        route = self.routes.get(topic)
        view = reference_view(self.state.membership.views, route) if route else []
        default, seen = self.rules.allocate_message_queue_strategy, topic_state.inference.seen
        by_name: dict[str, list[str]] = {}
        for client_id, name in sorted(strategies_of(view, default, seen).items()):
            by_name.setdefault(name, []).append(client_id)
        return by_name

    def _unlisted(self, broker_name: str) -> frozenset[str]:
        """Members that are alive, and that a broker we hear does not list, once that is no passing thing."""
        split = f"{split_condition(broker_name, '')}"
        known = {name.removeprefix(split): ms for name, ms in self.state.conditions.items() if name.startswith(split)}
        missing = {client_id for client_id, since_ms in known.items() if self.is_settled(since_ms)}
        if not missing:
            return frozenset()
        view = self.state.membership.views.get(broker_name)
        if broker_name in self.broker_coverage.without_data or (
            view is None and broker_name not in self.broker_coverage.answered
        ):
            return frozenset()
        if any(broker_name in route.without_master for route in self.routes.values()):
            return frozenset()
        listed = {member.client_id for member in (view or {}).values()}
        return frozenset((self.last_heartbeat_ms.keys() & missing) - self.late - listed)

    def coverage(self) -> Coverage:
        """How much of the group gave data. An answer that is missing lately is not missing data."""
        return Coverage.of(
            self.now_ms,
            {name for route in self.routes.values() for name in route.broker_names()},
            self.broker_coverage.without_data | self.broker_coverage.silent,
            self.last_heartbeat_ms,
            self.not_asked.missing,
            frozenset(
                (topic, name)
                for topic, topic_state in self.state.topics.items()
                for name, queue_state in topic_state.queues.items()
                if queue_state.verdict == UNKNOWN and queue_state.reason in NOT_HEARD
                if not is_never_heard(self.state, queue_state)
            ),
            late_ms=self.late_ms,
            completeness_min=self.rules.completeness_min,
        )

    def since(self, condition: str, holds: bool) -> int | None:
        """Since when a condition holds (queue_state.GroupState.holds_since)."""
        return self.state.holds_since(condition, holds, self.now_ms)

    def is_settled(self, since_ms: int) -> bool:
        return self.now_ms >= since_ms + self.rules.settle_ms


def is_never_heard(state: GroupState, queue_state: QueueState) -> bool:
    """Whether the queue's owner does not answer and never has: its pulls are not reported, they are not missing."""
    owner = queue_state.share.owner
    return queue_state.reason == NOT_ASKED and owner is not None and owner not in state.seen_pulling


def split_condition(broker_name: str, client_id: str) -> str:
    """The condition that a broker does not list a member that it should (GroupState.conditions)."""
    return f"{SPLIT_VIEW}|{broker_name}|{client_id}"
