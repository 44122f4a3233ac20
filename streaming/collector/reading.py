"""What one round of the collector read of a cluster, broker by broker, and the channels it shows.

Plain values and pure functions: no RocketMQ, no Kafka, no clock. Brokers' views are never merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
"""The producer group every client process registers, consumers too: it tells a channel's last heartbeat."""

QueueKey = tuple[str, str, int]
"""topic, broker_name, queue_id."""


@dataclass(frozen=True)
class BrokerReading:
    """A broker that answered: its groups and its producers' channels.

    It refuses every pull of the groups in `refused`: their consumeEnable is false there. `group_names` are all it has
    a configuration of; None where it may not be asked. Of the groups in `unread` it did not tell the members in this
    round: `groups` has them as they were told last, if they ever were. `reports_producers` is false where it has no
    code 328 or may not be asked: `producers` is empty then, and says nothing.
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
    """What a member of a group told of itself, kept while it is silent. Twins tell no subscriptions of their own:
    one of them answers for both.
    """

    strategy: str | None = None
    client_rebalance: bool | None = None
    consume_orderly: bool | None = None
    subscriptions: tuple[Subscription, ...] | None = None


@dataclass(frozen=True)
class Latency:
    """One probe: `send_status` None when it ended in an exception."""

    client_id: str
    client_version: str
    topic: str
    broker_name: str
    latency_ms: int
    send_status: str | None
    event_time_ms: int


class Unheard(NamedTuple):
    """What brokers that answered did not let hear in a round; a name left out stands for all of them.

    `reason`: refused, timed_out, left_in_peace, no_time or failed, as CLOCK of schemas.events says.
    """

    broker_name: str | None
    consumer_group: str | None
    client_id: str | None
    reason: str


@dataclass(frozen=True)
class Reading:
    """One round, which took `took_ms`. A broker asked and missing from `brokers` did not answer: nothing is concluded
    about it.
    """

    cluster: str
    brokers_asked: tuple[str, ...]
    brokers: Mapping[str, BrokerReading]
    registered: frozenset[str] | None = None  # None: the NameServer did not answer
    topics: frozenset[str] | None = None  # None: not known which topics there are
    routes: tuple[TopicRoute, ...] = ()
    running: Mapping[tuple[str, str], tuple[RunningInfo, ...]] = field(default_factory=dict)  # by (group, client_id)
    offsets: Mapping[tuple[str, QueueKey], OffsetWrapper] = field(default_factory=dict)  # by (group, queue)
    latencies: tuple[Latency, ...] = ()
    own_client_ids: frozenset[str] = frozenset()
    unheard: tuple[Unheard, ...] = ()
    took_ms: int = 0
    name_servers: tuple[str, ...] = ()
    name_servers_unreachable: tuple[str, ...] = ()


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
    """A client's connection at one broker with everything it is registered for there."""

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
    """Every channel registered for a group, with its last heartbeat by the broker's clock, ms; None when not told.

    A channel that only has CLIENT_INNER_PRODUCER is registered for nothing: an admin tool, or a consumer of groups
    that are not read.
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
                consumers[place].append(_consumer(group, profile))
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


def _consumer(group: ConsumerConnection, profile: Profile) -> Consumer:
    return Consumer(
        group.consumer_group,
        group.consume_type,
        group.message_model,
        group.consume_from_where,
        profile.strategy,
        profile.client_rebalance,
        profile.consume_orderly,
        group.subscriptions if profile.subscriptions is None else profile.subscriptions,
    )


def find_twins(views: Iterable[BrokerReading]) -> frozenset[tuple[str, str]]:
    """(consumer group, client id) that RocketMQ cannot tell apart: listed on several channels of one broker, or
    from different hosts at two brokers.
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
    """(consumer group, client id) to the names of the brokers that list it, sorted."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for view in views:
        for group in view.groups:
            for each in group.connections:
                found[(group.consumer_group, each.client_id)].add(view.broker.broker_name)
    return {member: sorted(names) for member, names in found.items()}


def find_group_names(reading: Reading) -> dict[str, frozenset[str]]:
    """Broker → the groups it has a configuration of, for the brokers that reported."""
    return {name: view.group_names for name, view in reading.brokers.items() if view.group_names is not None}


def update_profiles(profiles: Mapping[tuple[str, str], Profile], reading: Reading) -> dict[tuple[str, str], Profile]:
    """The profiles of every member still listed, with what was told in this round. A member's is kept while a
    broker of the cluster did not answer: it may be listed there.
    """
    members = find_members(reading.brokers.values())
    twins = find_twins(reading.brokers.values())
    is_complete = set(reading.brokers) >= set(reading.brokers_asked)
    updated = {member: profile for member, profile in profiles.items() if member in members or not is_complete}
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
