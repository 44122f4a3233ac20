"""A simulation with its ground truth: starved and doubled queues, with start, end and cause.

A queue is starved if it can be written or read and no live process holds, pulls and consumes it. Its cause:

    group_offline          no process of the group runs
    consume_disabled       brokers refuse the group's pulls
    write_only_queue       producers fill it, but consumers may not read it
    pull_stopped           its holder lives and sends heartbeats, but does not pull: a bug, or it is suspended
    consume_stopped        its holder pulls it, but its listener does not return
    order_lock             its owner cannot lock it: a process that does not consume it keeps the lock
    strategy_gap           the group's strategy allocates it to no member
    duplicate_client_id    it belongs to the slot of the second process with a ClientId
    frozen_client          its owner is frozen, or its host is lost, but it is still listed
    member_not_subscribed  its owner does not subscribe the topic
    split_view             a process of the group cannot reach every broker
    stale_route            a process of the group uses an old route
    mixed_strategy         the group's processes allocate by different strategies

Two causes are transient and harmless:

    reconnect              it belongs to the slot of a replaced channel, until that expires
    rebalance              its owner is about to take it: seconds, or two minutes after a broker's restart

A queue is doubled if two live processes pull it. Only queues that clients allocate are evaluated: no broadcasting, POP
or assign(), and no queue of a broker that is down.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from schemas.events import CLOCKS
from streaming.simulator import scenario as parts
from streaming.simulator.broker import Channel, Cluster
from streaming.simulator.conditions import Conditions, with_beside
from streaming.simulator.consumer import Consumer, config_queues, strategy_options
from streaming.simulator.scenario import Scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.watched import Watched
from streaming.simulator.world import Event
from tests.lab.score.expectations import expectations_of
from tests.lab.score.fact import Fact
from tests.lab.score.second_group import with_second_group
from udfs.rocketmq.allocation import allocate_all
from udfs.rocketmq.model import MessageQueue

HARMLESS = frozenset({"rebalance", "reconnect"})
"""Causes that must never be paged."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of one queue with one cause, from `start_ms` up to `end_ms` (None: open).

    `since_ms` is its start under any cause.
    """

    consumer_group: str
    mq: MessageQueue
    start_ms: int
    end_ms: int | None
    cause: str
    since_ms: int = 0

    @property
    def is_harmless(self) -> bool:
        """Whether the cause is transient."""
        return self.cause in HARMLESS


class Spans:
    """Intervals of one kind: ended ones in order of their end, then open ones."""

    def __init__(self) -> None:
        self._ended: list[Span] = []
        self._open: dict[tuple[str, MessageQueue], Span] = {}

    def __iter__(self) -> Iterator[Span]:
        yield from self._ended
        yield from self._open.values()

    def at(self, time_ms: int) -> list[Span]:
        """Return the intervals that contain a time."""
        return [span for span in self if span.start_ms <= time_ms and (span.end_ms is None or time_ms < span.end_ms)]

    def spells(self, gap_ms: int) -> list[Span]:
        """Return the intervals by start; those of one queue and cause joined over gaps of up to `gap_ms`.

        A split view moves queues every 20 s: with a gap of a minute that is one spell. Harmless intervals between two
        of one cause belong to the gap. `since_ms` is the first interval's.
        """
        newest: dict[tuple[str, MessageQueue, str], Span] = {}
        joined: list[Span] = []
        for span in sorted(self, key=_by_start):
            key = (span.consumer_group, span.mq, span.cause)
            known = newest.get(key)
            if known is not None and known.end_ms is not None and span.start_ms - known.end_ms <= gap_ms:
                newest[key] = replace(known, end_ms=span.end_ms)
            else:
                if known is not None:
                    joined.append(known)
                newest[key] = span
        return sorted([*joined, *newest.values()], key=_by_start)

    def update(self, consumer_group: str, causes: Mapping[MessageQueue, str], now_ms: int) -> None:
        """Set the causes of the group's queues from now on."""
        since_ms: dict[MessageQueue, int] = {}
        for key, span in list(self._open.items()):
            if key[0] == consumer_group and causes.get(key[1]) != span.cause:
                del self._open[key]
                since_ms[key[1]] = span.since_ms
                if span.start_ms < now_ms:
                    self._ended.append(replace(span, end_ms=now_ms))
        for mq, cause in causes.items():
            if (consumer_group, mq) not in self._open:
                since = since_ms.get(mq, now_ms)
                self._open[consumer_group, mq] = Span(consumer_group, mq, now_ms, None, cause, since)


def _by_start(span: Span) -> tuple[int, str, MessageQueue]:
    return span.start_ms, span.consumer_group, span.mq


class Truth(Spans):
    """All starved intervals up to `known_ms`, and the doubled ones."""

    def __init__(self) -> None:
        super().__init__()
        self.doubled = Spans()
        self.known_ms = 0

    def causes(self, longer_than_ms: int = 0) -> frozenset[str]:
        """Return the harmful causes of queues that starved longer than this without a break."""
        return frozenset(span.cause for span in self if not span.is_harmless and self.lasted_ms(span) > longer_than_ms)

    def lasted_ms(self, span: Span) -> int:
        """Return the duration of an interval; up to `known_ms` if it is open."""
        return (self.known_ms if span.end_ms is None else span.end_ms) - span.start_ms


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the group's list. No client takes the share of a repeated ClientId (`is_repeated`)."""

    consumer: Consumer
    is_repeated: bool


class Judgement:
    """An evaluation of one group. `consumers` are those of its running processes, frozen ones included."""

    def __init__(self, cluster: Cluster, group: parts.Group, consumers: Sequence[Consumer]) -> None:
        self._cluster = cluster
        self._group = group
        self._consumers = consumers
        self._subscribers = [consumer for consumer in consumers if consumer.topics]
        lists = [broker.asked_node.channels(group.consumer_group) for broker in cluster.brokers.values()]
        self._channels: list[Channel] = max(lists, key=len)  # clients get one broker's list at random
        self._strategies = Counter(consumer.strategy for consumer in self._subscribers)
        self._ids = Counter(consumer.client.client_id for consumer in consumers)

    def find(self) -> tuple[dict[MessageQueue, str], dict[MessageQueue, str]]:
        """Return the cause of each starved queue and of each doubled queue."""
        starved: dict[MessageQueue, str] = {}
        doubled: dict[MessageQueue, str] = {}
        group = self._group
        if group.message_model == "BROADCASTING" or not group.client_rebalance:
            return starved, doubled
        if group.lives_with_its_members and not self._consumers:
            return starved, doubled
        pullers = self._find_pullers()
        for topic in self._topics():
            lost: dict[MessageQueue, bool] = {}
            for mq, is_readable in self._cluster.queues(topic):
                asked = self._cluster.brokers[mq.broker_name].asked_node
                if not (asked.is_up and asked.may_pull):
                    continue
                of_queue = pullers.get(mq, []) if is_readable else []
                if len(of_queue) > 1:
                    doubled[mq] = self._why_double_consumed(of_queue)
                elif not of_queue:
                    lost[mq] = is_readable
                elif of_queue[0].is_hung:
                    starved[mq] = "consume_stopped"
            slots = self._share_out(self._readable(topic)) if lost else {}
            for mq, is_readable in lost.items():
                starved[mq] = self._why(mq, is_readable, slots.get(mq))
        return starved, doubled

    def _topics(self) -> list[str]:
        """Return the topics that a running member subscribes; without any, those planned for the group."""
        if not any(self._group.topics_of(of) for of in self._group.consumers):
            return []
        topics = {topic for consumer in self._subscribers for topic in consumer.topics}
        return sorted(topics or self._group.subscriptions)

    def _find_pullers(self) -> dict[MessageQueue, list[Consumer]]:
        pullers: dict[MessageQueue, list[Consumer]] = {}
        for consumer in self._consumers:
            for mq in consumer.table:
                if _pulls(consumer, mq) and not self._is_disabled(mq):
                    pullers.setdefault(mq, []).append(consumer)
        return pullers

    def _is_disabled(self, mq: MessageQueue) -> bool:
        return self._group.consumer_group in self._cluster.brokers[mq.broker_name].consume_disabled

    def _why_double_consumed(self, pullers: list[Consumer]) -> str:
        if len({puller.client.client_id for puller in pullers}) < len(pullers):
            return "duplicate_client_id"
        if len({puller.strategy for puller in pullers}) > 1:
            return "mixed_strategy"
        if any(self._has_old_route(puller) for puller in pullers):
            return "stale_route"
        return self._why_views_differ() or "rebalance"

    def _share_out(self, mq_all: list[MessageQueue]) -> dict[MessageQueue, Slot]:
        """Return the slot of each allocated queue, by the strategy that most members have."""
        if not mq_all or not self._channels or not self._strategies:
            return {}
        group = self._group
        slots: list[Slot] = []
        client_ids: set[str] = set()
        for channel in self._channels:
            client_id = channel.client.client_id
            consumer = next(each for each in channel.client.consumers if each.consumer_group == group.consumer_group)
            slots.append(Slot(consumer, client_id in client_ids))
            client_ids.add(client_id)
        strategy = min(self._strategies, key=lambda name: (-self._strategies[name], name))
        if strategy == "CONFIG":
            return {mq: Slot(each, False) for each in self._consumers for mq in config_queues(group, each.of)}
        names = [f"{index:06}" for index in range(len(slots))]
        by_name = dict(zip(names, slots, strict=True))
        options = strategy_options(group, next(each.of for each in self._consumers if each.strategy == strategy))
        if strategy == "CONSISTENT_HASH":  # it hashes names, and gives the queues of a repeated ClientId to both
            names = [slot.consumer.client.client_id for slot in slots]
            by_name = dict(reversed(list(zip(names, slots, strict=True))))
        if strategy.startswith("MACHINE_ROOM_NEARBY"):
            options["client_room"] = {name: slot.consumer.of.room for name, slot in by_name.items()}.get
        shares = allocate_all(strategy, group.consumer_group, mq_all, names, **options)
        return {mq: by_name[name] for name, share in shares.items() for mq in share}

    def _readable(self, topic: str) -> list[MessageQueue]:
        route = self._cluster.name_server.routes.get(topic)
        return list(route.mq_all) if route else []

    def _why(self, mq: MessageQueue, is_readable: bool, slot: Slot | None) -> str:
        if not self._consumers:
            is_listed = any(not channel.client.is_leaving for channel in self._channels)
            return "frozen_client" if is_listed else "group_offline"
        if self._is_disabled(mq):
            return "consume_disabled"
        if not is_readable:
            return "write_only_queue"
        return self._why_held(mq) or self._why_slot(mq, slot)

    def _why_held(self, mq: MessageQueue) -> str | None:
        """Return why a live process that holds the queue does not pull it; None: no live process holds it."""
        for consumer in self._consumers:
            process_queue = consumer.table.get(mq)
            if process_queue is None or process_queue.dropped or not consumer.client.is_live:
                continue
            if consumer.is_stopped(mq) or consumer.is_suspended:
                return "pull_stopped"
            if mq.broker_name in consumer.client.cut:
                return "split_view"
            if consumer.is_orderly and not process_queue.locked:
                return self._why_unlocked(mq)
            if any(mq.topic not in each.topics for each in self._consumers):
                return "member_not_subscribed"  # whose heartbeats take the topic from the group's subscription
            return "rebalance"  # its route, or its subscription at the broker, is about to be updated
        return None

    def _why_unlocked(self, mq: MessageQueue) -> str:
        """Return order_lock if a process keeps the lock without consuming; otherwise the owner gets it soon."""
        keeps = any(
            consumer.client.is_live and (process_queue := consumer.table.get(mq)) is not None and process_queue.dropped
            for consumer in self._consumers
        )
        has_master = self._cluster.brokers[mq.broker_name].nodes[0].is_up
        return "order_lock" if keeps or not has_master else "rebalance"

    def _why_slot(self, mq: MessageQueue, slot: Slot | None) -> str:
        """Return why a queue that no live process holds is starved, by its slot."""
        if slot is None:
            is_gap = bool(self._channels) and mq in self._readable(mq.topic)
            return "strategy_gap" if is_gap else self._why_views_differ() or "rebalance"
        client = slot.consumer.client
        if slot.is_repeated:
            return "duplicate_client_id" if self._ids[client.client_id] > 1 else "reconnect"
        if not client.is_live:
            return "rebalance" if client.is_leaving else "frozen_client"
        return self._why_not_taken(mq, slot.consumer) or self._why_views_differ() or "rebalance"

    def _why_not_taken(self, mq: MessageQueue, owner: Consumer) -> str | None:
        """Return what keeps a live owner from the queue."""
        if mq.topic not in owner.topics:
            return "member_not_subscribed"
        if owner.is_suspended:
            return "pull_stopped"  # and does not rebalance
        if any(mq in mqs for mqs in owner.could_not_lock.values()):
            return self._why_unlocked(mq)
        if mq.broker_name in owner.client.cut:
            return "split_view"
        if self._has_old_route(owner):
            return "stale_route"
        return "mixed_strategy" if len(self._strategies) > 1 else None

    def _why_views_differ(self) -> str | None:
        """Return why clients of the group may have computed from different lists of members."""
        if max(self._ids.values(), default=0) > 1:
            return "duplicate_client_id"
        if any(consumer.client.cut for consumer in self._consumers):
            return "split_view"
        return None

    def _has_old_route(self, consumer: Consumer) -> bool:
        """Return whether it no longer polls the NameServer and a route has changed."""
        client = consumer.client
        news = (
            client.routes.get(topic) is not self._cluster.name_server.routes.get(topic) for topic in consumer.topics
        )
        return client.keeps_route and any(news)


def _pulls(consumer: Consumer, mq: MessageQueue) -> bool:
    """Return whether nothing keeps the consumer from pulling a queue that it holds."""
    client, process_queue = consumer.client, consumer.table[mq]
    if process_queue.dropped or not client.is_live or consumer.is_stopped(mq) or consumer.is_suspended:
        return False
    if consumer.is_orderly and not process_queue.locked:
        return False
    node = client.find_node(mq.broker_name)
    if node is None or not (consumer.of.assigned_queues or node.has_subscription(consumer.consumer_group, mq.topic)):
        return False
    return node.may_pull


LARGE_GROUP, JUDGE_LARGE_MS = 16, 500
"""The ground truth of a group with more members is accurate to half a second."""


class TrueSimulation(Simulation):
    """`truth` is complete up to the point to which `events` has advanced."""

    def __init__(self, scenario: Scenario, seed: int, start_ms: int) -> None:
        super().__init__(scenario, seed, start_ms)
        self.truth = Truth()
        self._groups = {group.consumer_group: group for group in scenario.groups}
        self._started: set[str] = set()
        self._due: set[str] = set()
        self._world.on_change = self._judge

    @property
    def expected(self) -> list[Fact]:
        """The findings expected of this run."""
        zero_ms = self._start_ms + self._shift_ms
        return [
            one.fact(zero_ms + int(one.from_ * 1000), None if one.until is None else zero_ms + int(one.until * 1000))
            for one in expectations_of(self.scenario)
        ]

    def events(self, duration_ms: int | None = None) -> Iterator[tuple[str, Event]]:
        """Yield the events of the simulation."""
        if duration_ms is None and self.scenario.duration_seconds is not None:
            duration_ms = int(self.scenario.duration_seconds * 1000)
        for topic, event in super().events(duration_ms):
            if topic == CLOCKS:
                self.truth.known_ms = event["event_time_ms"]
            yield topic, event
        self.truth.known_ms = self._start_ms + (duration_ms or 0)

    def _judge(self, consumer_group: str | None) -> None:
        """Bring the ground truth of a group (None: of all) up to date after a change."""
        if consumer_group is not None:
            self._started.add(consumer_group)
        for name, group in self._groups.items():
            if consumer_group not in (None, name) or name not in self._started:
                continue
            if len(group.consumers) <= LARGE_GROUP:
                self._judge_now(name)
            elif name not in self._due:
                self._due.add(name)
                self._world.later(JUDGE_LARGE_MS, partial(self._judge_now, name))

    def _judge_now(self, consumer_group: str) -> None:
        self._due.discard(consumer_group)
        consumers = list(self._processes.running(consumer_group))
        starved, doubled = Judgement(self._cluster, self._groups[consumer_group], consumers).find()
        self.truth.update(consumer_group, starved, self._world.now_ms)
        self.truth.doubled.update(consumer_group, doubled, self._world.now_ms)


class TrueWatch(Watched):
    """A scenario under conditions, also with other groups beside its own; `simulation` has the ground truth."""

    simulation: TrueSimulation

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        start_ms: int,
        conditions: Conditions | None = None,
        beside: str = "",
        *,
        second_group: bool = False,
    ) -> None:
        if conditions is None or conditions == Conditions():
            conditions = Conditions(scenario.view)
        if second_group:
            scenario = with_second_group(scenario)
        if beside:
            scenario = with_beside(scenario, beside)
        super().__init__(scenario, seed, start_ms, conditions, TrueSimulation)
