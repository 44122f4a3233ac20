"""The data of one poll round, broker by broker, and the channels in it.

Values and pure functions without RocketMQ, Kafka or a clock. Brokers' views are never merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streaming.collector.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    RunningInfo,
    Subscription,
    TopicRoute,
)

CLIENT_INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""The producer group that every client registers, consumers too: it carries a channel's last heartbeat."""

Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""

QueueKey = tuple[str, str, int]
"""topic, broker_name, queue_id."""


@dataclass(frozen=True)
class BrokerReading:
    """A broker that answered: its groups and its producers' channels.

    refused            groups with consumeEnable = false here: it refuses their pulls
    group_names        all groups it has configured; None: not permitted to ask
    unread             groups whose members are missing in this round: `groups` has their last known members, if any
    reports_producers  false without code 328 or permission: `producers` is then empty and proves nothing
    """

    broker: Broker
    groups: tuple[ConsumerConnection, ...]
    producers: Mapping[str, tuple[Connection, ...]]
    refused: frozenset[str] = frozenset()
    group_names: frozenset[str] | None = None
    unread: frozenset[str] = frozenset()
    reports_producers: bool = True


@dataclass(frozen=True)
class Profile:
    """A group member's own data, kept while it is silent. Subscriptions of twins are unknown: one answers for both."""

    strategy: str | None = None
    client_rebalance: bool | None = None
    consume_orderly: bool | None = None
    subscriptions: tuple[Subscription, ...] | None = None


@dataclass(frozen=True)
class Latency:
    """A probe. `send_status` None: it ended in an exception."""

    client_id: str
    client_version: str
    topic: str
    broker_name: str
    latency_ms: int
    send_status: str | None
    event_time_ms: int


class Unheard(NamedTuple):
    """Data that is missing although brokers answered; a name of None stands for all.

    `reason`: refused, timed_out, left_in_peace, no_time or failed (CLOCK of schemas.events).
    """

    broker_name: str | None
    consumer_group: str | None
    client_id: str | None
    reason: str


@dataclass(frozen=True)
class Reading:
    """One round, which took `took_ms`. A broker that was asked and is missing from `brokers` proves nothing."""

    cluster: str
    brokers_asked: tuple[str, ...]
    brokers: Mapping[str, BrokerReading]
    registered: frozenset[str] | None = None  # None: the NameServer did not answer
    topics: frozenset[str] | None = None  # None: unknown
    routes: tuple[TopicRoute, ...] = ()
    running: Mapping[tuple[str, str], tuple[RunningInfo, ...]] = field(default_factory=dict)  # by (group, client_id)
    offsets: Mapping[tuple[str, QueueKey], OffsetWrapper] = field(default_factory=dict)  # by (group, queue)
    latencies: tuple[Latency, ...] = ()
    own_client_ids: frozenset[str] = frozenset()
    unheard: tuple[Unheard, ...] = ()
    took_ms: int = 0
    name_servers: tuple[str, ...] = ()
    name_servers_unreachable: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return set(self.brokers) >= set(self.brokers_asked)


@dataclass(frozen=True)
class Consumer:
    """ConsumerData of a channel."""

    consumer_group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    strategy: str | None
    client_rebalance: bool | None
    consume_orderly: bool | None
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Channel:
    """A client's connection at one broker, with its registrations there."""

    broker_name: str
    client_id: str
    client_addr: str
    language: str
    client_version: str
    producer_groups: tuple[str, ...]
    consumers: tuple[Consumer, ...]


ChannelKey = tuple[str, str, str]
"""broker_name, client_id, client_addr."""


def find_channels(
    reading: Reading, profiles: Mapping[tuple[str, str], Profile]
) -> dict[ChannelKey, tuple[Channel, int | None]]:
    """Return each channel with a group, and its last heartbeat by the broker's clock, ms, if known.

    A channel with CLIENT_INNER_PRODUCER alone is an admin tool, or a consumer of groups that are not read.
    """
    found: dict[ChannelKey, tuple[Channel, int | None]] = {}
    for broker_name, view in reading.brokers.items():
        connections: dict[tuple[str, str], Connection] = {}
        consumers: dict[tuple[str, str], list[Consumer]] = defaultdict(list)
        producer_groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        heartbeats: dict[tuple[str, str], int] = {}
        for producer_group, infos in view.producers.items():
            for each in infos:
                place = (each.client_id, each.client_addr)
                heartbeats[place] = max(heartbeats.get(place, 0), each.last_update_timestamp or 0)
                if producer_group != CLIENT_INNER_PRODUCER:
                    connections[place] = each
                    producer_groups[place].append(producer_group)
        for group in view.groups:
            for each in group.connections:
                place = (each.client_id, each.client_addr)
                connections[place] = each
                profile = profiles.get((group.consumer_group, each.client_id), Profile())
                consumers[place].append(
                    Consumer(
                        group.consumer_group,
                        group.consume_type,
                        group.message_model,
                        group.consume_from_where,
                        profile.strategy,
                        profile.client_rebalance,
                        profile.consume_orderly,
                        group.subscriptions if profile.subscriptions is None else profile.subscriptions,
                    )
                )
        for place, each in connections.items():
            if each.client_id in reading.own_client_ids:
                continue
            channel = Channel(
                broker_name,
                *place,
                each.language,
                each.client_version,
                tuple(sorted(producer_groups[place])),
                tuple(sorted(consumers[place], key=lambda consumer: consumer.consumer_group)),
            )
            found[(broker_name, *place)] = channel, heartbeats.get(place) or None
    return found


def find_twins(views: Iterable[BrokerReading]) -> frozenset[tuple[str, str]]:
    """Return each (group, ClientId) that RocketMQ cannot distinguish: on several channels of one broker, or from
    different hosts at two brokers.
    """
    twins: set[tuple[str, str]] = set()
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for view in views:
        for group in view.groups:
            seen: set[str] = set()
            for each in group.connections:
                member = (group.consumer_group, each.client_id)
                hosts[member].add(each.client_addr.rpartition(":")[0])
                if each.client_id in seen or len(hosts[member]) > 1:
                    twins.add(member)
                seen.add(each.client_id)
    return frozenset(twins)


def find_members(views: Iterable[BrokerReading]) -> dict[tuple[str, str], list[str]]:
    """Return the sorted names of the brokers that list each (group, ClientId)."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for view in views:
        for group in view.groups:
            for each in group.connections:
                found[(group.consumer_group, each.client_id)].add(view.broker.broker_name)
    return {member: sorted(names) for member, names in found.items()}


def find_group_names(reading: Reading) -> dict[str, frozenset[str]]:
    """Return the groups that each broker has configured, if it reported them."""
    return {name: view.group_names for name, view in reading.brokers.items() if view.group_names is not None}


def update_profiles(profiles: Mapping[tuple[str, str], Profile], reading: Reading) -> dict[tuple[str, str], Profile]:
    """Return the profiles of all listed members, updated by this round. An unlisted member's profile is kept while a
    broker does not answer: it may be listed there.
    """
    members = find_members(reading.brokers.values())
    twins = find_twins(reading.brokers.values())
    updated = {member: profile for member, profile in profiles.items() if member in members or not reading.is_complete}
    for member, infos in reading.running.items():
        for info in infos:
            subscriptions = info.subscriptions or None
            known = updated.get(member, Profile())
            updated[member] = Profile(
                info.strategy or known.strategy,
                known.client_rebalance if info.client_rebalance is None else info.client_rebalance,
                known.consume_orderly if info.consume_orderly is None else info.consume_orderly,
                None if member in twins else subscriptions or known.subscriptions,
            )
    return updated
