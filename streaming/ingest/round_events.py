"""The events a round publishes: what changed since the rounds before. Pure: reading and memory in, both out.

No event of a round is later than the round's own time, whatever the brokers' and the clients' clocks say, so the
clock event that ends the round never overtakes one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.ingest.reading import (
    Channel,
    ChannelKey,
    Latency,
    Profile,
    QueueKey,
    Reading,
    find_channels,
    find_group_names,
    find_twins,
    update_profiles,
)
from streaming.ingest.rocketmq_answers import OffsetWrapper, ProcessQueue, RunningInfo, TopicRoute

ROUTE_REPEAT_MS = 30_000

Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""

UNKNOWN_OFFSETS = OffsetWrapper(-1, -1, -1)

NO_PERMISSION = "NO_PERMISSION"
"""What a broker answers to the pulls of a group whose consumeEnable is false: the client asks again every 3 s."""


@dataclass(frozen=True)
class Memory:
    """What was published last. Kept only when Kafka has taken a round's events."""

    profiles: Mapping[tuple[str, str], Profile] = field(default_factory=dict)
    channels: Mapping[ChannelKey, tuple[Channel, int | None]] = field(default_factory=dict)
    pulls: Mapping[tuple[str, str, QueueKey], int] = field(default_factory=dict)  # (group, client_id, queue): when
    routes: Mapping[str, tuple[TopicRoute, int]] = field(default_factory=dict)  # topic: route, when published
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # broker: those it had a configuration of


def compute_round(memory: Memory, reading: Reading, round_time_ms: int) -> tuple[list[Event], Memory]:
    """The events of a round but its clock, and the memory they leave."""
    profiles = update_profiles(memory.profiles, reading)
    heartbeats, channels = select_heartbeats(memory.channels, reading, profiles, round_time_ms)
    pulls, pulled = select_pulls(memory.pulls, reading, round_time_ms)
    routes, routed = select_routes(memory.routes, reading, round_time_ms)
    latencies = [latency_event(reading.cluster, latency, round_time_ms) for latency in reading.latencies]
    groups = {**memory.groups, **find_group_names(reading)}
    return [*routes, *heartbeats, *pulls, *latencies], Memory(profiles, channels, pulled, routed, groups)


def clock_event(
    reading: Reading, round_time_ms: int, known_groups: Mapping[str, frozenset[str]] | None = None
) -> Event:
    """The event that ends a round: how complete it was, and which groups are deleted, by what was known before.

    A group is deleted when each broker that had its configuration has answered and has it no more (mqadmin
    deleteSubGroup), and no other has it. A broker that is gone has deleted nothing.
    """
    known = known_groups or {}
    before = frozenset().union(*known.values())
    now = frozenset().union(*{**known, **find_group_names(reading)}.values())
    deleted = sorted(before - now)
    return CLOCKS, {
        "cluster": reading.cluster,
        "source": "collector",
        "brokers_asked": sorted(reading.brokers_asked),
        "brokers_answered": sorted(reading.brokers),
        "event_time_ms": round_time_ms,
        **({"deleted_groups": deleted} if deleted else {}),
    }


def select_heartbeats(
    known: Mapping[ChannelKey, tuple[Channel, int | None]],
    reading: Reading,
    profiles: Mapping[tuple[str, str], Profile],
    round_time_ms: int,
) -> tuple[list[Event], dict[ChannelKey, tuple[Channel, int | None]]]:
    """Heartbeats that are new, and a leave for every channel or group that a broker listed and no longer lists.

    A channel keeps the time of its true last heartbeat, however often the broker lists it; without one (a broker
    before code 328) being listed is all that is known, and counts as now.
    """
    seen = find_channels(reading, profiles)
    events = []
    for key, (channel, _) in sorted(known.items(), key=lambda item: item[0]):
        if channel.broker_name in reading.brokers and (gone := _left(channel, seen.get(key))):
            events.append(_heartbeat_event(reading.cluster, gone, round_time_ms, leaving=True))
    for key, (channel, heartbeat_ms) in sorted(seen.items(), key=lambda item: item[0]):
        if heartbeat_ms is None or known.get(key) != (channel, heartbeat_ms):
            event_time_ms = round_time_ms if heartbeat_ms is None else min(heartbeat_ms, round_time_ms)
            events.append(_heartbeat_event(reading.cluster, channel, event_time_ms))
    unheard = {key: entry for key, entry in known.items() if key[0] not in reading.brokers}
    kept = {key: entry for key, entry in unheard.items() if key[0] in reading.brokers_asked}
    return events, {**kept, **seen}


def _left(channel: Channel, now: tuple[Channel, int | None] | None) -> Channel | None:
    """The channel with the groups it left, or None when it left none. UNREGISTER_CLIENT names groups, too."""
    if now is None:
        return channel
    groups = {consumer.consumer_group for consumer in now[0].consumers}
    gone = tuple(consumer for consumer in channel.consumers if consumer.consumer_group not in groups)
    return replace(channel, consumers=gone) if gone else None


def _heartbeat_event(cluster: str, channel: Channel, event_time_ms: int, *, leaving: bool = False) -> Event:
    event = {"cluster": cluster, **asdict(channel), "event_time_ms": event_time_ms}
    return HEARTBEATS, event | {"leaving": True} if leaving else event


def select_pulls(
    known: Mapping[tuple[str, str, QueueKey], int], reading: Reading, round_time_ms: int
) -> tuple[list[Event], dict[tuple[str, str, QueueKey], int]]:
    """A pull of every queue that a member pulled since the round before, at the client's own time.

    A queue that was dropped or never pulled has none, nor one that an orderly consumer could not lock: the client
    sets the time of a pull before it sees that it may not pull. Of twins that both answered, the later pull counts.
    """
    newest: dict[tuple[str, str, QueueKey], ProcessQueue] = {}
    for (group, client_id), infos in reading.running.items():
        for queue in _held(infos):
            key = (group, client_id, (queue.topic, queue.broker_name, queue.queue_id))
            if key not in newest or queue.last_pull_timestamp > newest[key].last_pull_timestamp:
                newest[key] = queue
    twins = find_twins(reading.brokers.values())
    addresses = _addresses(reading)
    events = []
    for key, queue in sorted(newest.items(), key=lambda item: item[0]):
        group, client_id, _ = key
        if queue.last_pull_timestamp > known.get(key, 0):
            is_told = (group, client_id) not in twins
            client_addr = addresses.get((queue.broker_name, group, client_id)) if is_told else None
            offsets = reading.offsets.get((group, key[2]), UNKNOWN_OFFSETS)
            events.append(_pull_event(reading, group, client_id, client_addr, queue, offsets, round_time_ms))
    listed = {(group, client_id) for _, group, client_id in addresses}
    is_complete = set(reading.brokers) >= set(reading.brokers_asked)
    kept = {key: at for key, at in known.items() if key[:2] in listed or not is_complete}
    return events, kept | {key: max(queue.last_pull_timestamp, kept.get(key, 0)) for key, queue in newest.items()}


def _held(infos: Iterable[RunningInfo]) -> Iterable[ProcessQueue]:
    for info in infos:
        for queue in info.process_queues:
            is_pulled = queue.last_pull_timestamp > 0 and not queue.is_dropped
            may_pull = queue.is_locked or not info.consume_orderly
            if is_pulled and may_pull and not queue.topic.startswith("%RETRY%"):
                yield queue


def _addresses(reading: Reading) -> dict[tuple[str, str, str], str]:
    """(broker_name, group, client_id) to the channel's address at that broker."""
    return {
        (broker_name, group.consumer_group, each.client_id): each.client_addr
        for broker_name, view in reading.brokers.items()
        for group in view.groups
        for each in group.connections
    }


def _pull_event(
    reading: Reading,
    group: str,
    client_id: str,
    client_addr: str | None,
    queue: ProcessQueue,
    offsets: OffsetWrapper,
    round_time_ms: int,
) -> Event:
    view = reading.brokers.get(queue.broker_name)
    return PULLS, {
        "cluster": reading.cluster,
        "broker_name": queue.broker_name,
        "broker_id": view.broker.broker_id if view else 0,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "consumer_group": group,
        "client_addr": client_addr,
        "client_id": client_id,
        "pull_offset": _next_offset(queue, offsets),
        "commit_offset": _known(offsets.consumer_offset),
        "max_offset": _known(offsets.broker_offset),
        "pull_status": NO_PERMISSION if view and group in view.refused else None,
        "event_time_ms": min(queue.last_pull_timestamp, round_time_ms),
    }


def _next_offset(queue: ProcessQueue, offsets: OffsetWrapper) -> int:
    """The broker's pull offset; before there is one, what follows the client's cache; 0 when nobody can tell."""
    cached = queue.cached_msg_max_offset + 1 if queue.cached_msg_count else queue.commit_offset
    return max(offsets.pull_offset if offsets.pull_offset >= 0 else cached, 0)


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def select_routes(
    known: Mapping[str, tuple[TopicRoute, int]], reading: Reading, round_time_ms: int
) -> tuple[list[Event], dict[str, tuple[TopicRoute, int]]]:
    """Routes that changed or were not said for ROUTE_REPEAT_MS, and an empty one for each topic that was deleted.

    A topic is deleted when the NameServer lost it while all its brokers are registered. When a broker is gone too,
    the NameServer only forgot: clients go on with the route they have.
    """
    kept = dict(known)
    events = []
    for route in reading.routes:
        before = known.get(route.topic)
        if before is None or before[0] != route or round_time_ms - before[1] >= ROUTE_REPEAT_MS:
            events.append(_route_event(reading.cluster, route, round_time_ms))
            kept[route.topic] = (route, round_time_ms)
    if reading.topics is not None and reading.registered is not None:
        for topic, (route, _) in sorted(known.items()):
            if topic not in reading.topics and {name for name, _ in route.brokers} <= reading.registered:
                empty = TopicRoute(topic, (), (), order_topic=False)
                events.append(_route_event(reading.cluster, empty, round_time_ms))
                del kept[topic]
    return events, kept


def _route_event(cluster: str, route: TopicRoute, event_time_ms: int) -> Event:
    return ROUTES, {
        "cluster": cluster,
        "topic": route.topic,
        "queues": [asdict(queue) for queue in route.queues],
        "brokers": [{"broker_name": name, "broker_ids": list(ids)} for name, ids in route.brokers],
        "order_topic": route.order_topic,
        "event_time_ms": event_time_ms,
    }


def latency_event(cluster: str, latency: Latency, round_time_ms: int) -> Event:
    """One probe. A failed one isolates the broker, as it would for a producer with sendLatencyFaultEnable."""
    return SEND_LATENCIES, {
        "cluster": cluster,
        **asdict(latency),
        "queue_id": 0,
        "isolation": latency.send_status is None,
        "event_time_ms": min(latency.event_time_ms, round_time_ms),
    }
