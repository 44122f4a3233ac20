"""The events of a round: changes since earlier rounds. Pure functions of reading and memory.

No event of a round is later than the round's own time, whatever the clocks of brokers and clients say, so the clock
event that ends the round never overtakes one. A change since the last round is not earlier than that round, so no
machine's clock decides what is late.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from schemas.events import CLOCKS, HEARTBEATS, ROUTES, SEND_LATENCIES
from schemas.fields import MOST_GROUPS, NAME_CHARACTERS
from streaming.collector.pull_events import select_offsets, select_pulls
from streaming.collector.reading import (
    BrokerReading,
    Channel,
    ChannelKey,
    Latency,
    Profile,
    Reading,
    Unheard,
    find_channels,
    find_group_names,
    find_members,
    update_profiles,
)
from streaming.collector.rocketmq_answers import TopicRoute
from streaming.collector.round_memory import (
    Machine,
    Memory,
    Moment,
    NoDataKey,
    Reported,
    Stamp,
    known_ahead_ms,
    pick_reported,
    update_skews,
)
from udfs.brokers.broker_coverage import EVERY_MEMBER

Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""

MAX_NO_DATA = 2_000
"""Maximum entries of a clock event; beyond it, a group stands for its members and a broker for its groups."""


@dataclass(frozen=True)
class Source:
    """A collector: its name, its poll interval and its groups (none: all)."""

    collector: str
    interval_ms: int
    groups: tuple[str, ...] = ()


def clock_event(
    source: Source, reading: Reading, before: Memory, after: Memory, round_time_ms: int
) -> tuple[str, dict[str, Any]]:
    """Return the clock event that ends the round between two memories: its completeness, and the missing data.

    A group is deleted if each broker that had its configuration has answered without it (mqadmin deleteSubGroup), and
    no other broker has it. A broker that is gone has deleted nothing.
    """
    had = frozenset().union(*before.groups.values())
    has = frozenset().union(*{**before.groups, **find_group_names(reading)}.values())
    reported = {
        "groups": sorted(source.groups),
        "unheard": [
            {**dict(zip(("broker_name", "consumer_group", "client_id"), key, strict=True)), "reason": reason}
            | {"since_ms": since_ms}
            for *key, reason, since_ms in pick_no_data(reading.unheard, after.unheard)
        ],
        "skews": [skew for skew in pick_reported(after.skews) if is_name(skew["machine"])],
        "name_servers": [name for name in reading.name_servers if is_name(name)],
        "name_servers_unreachable": [name for name in reading.name_servers_unreachable if is_name(name)],
        "broker_addresses": [
            {"broker_name": name, "address": view.broker.address}
            for name, view in sorted(reading.brokers.items())
            if view.broker.broker_id == 0
        ],
        "deleted_groups": sorted(name for name in had - has if is_name(name))[:MOST_GROUPS],
    }
    return CLOCKS, {
        "cluster": reading.cluster,
        "source": "collector",
        "collector": source.collector,
        "interval_ms": source.interval_ms,
        "brokers_asked": sorted(reading.brokers_asked),
        "brokers_answered": sorted(reading.brokers),
        **{name: value for name, value in reported.items() if value},
        "event_time_ms": round_time_ms,
    }


def date_no_data(known: Mapping[NoDataKey, int], reading: Reading, round_time_ms: int) -> dict[NoDataKey, int]:
    """Return since when each item is missing. An item keeps its date while its broker does not answer."""
    dates = {each[:3]: known.get(each[:3], round_time_ms) for each in reading.unheard}
    absent = set(reading.brokers_asked) - set(reading.brokers)
    return {key: since_ms for key, since_ms in known.items() if key[0] in absent} | dates


Row = tuple[str | None, str | None, str | None, str, int]
"""broker_name, consumer_group, client_id, reason, since_ms."""


def pick_no_data(unheard: Iterable[Unheard], since: Mapping[NoDataKey, int], limit: int = MAX_NO_DATA) -> list[Row]:
    """Return at most `limit` rows. If there are more, one row stands for all members of a group (ClientId
    EVERY_MEMBER), largest first, then for all groups of a broker, then for all members of all groups.
    """
    rows: list[Row] = [
        (*each[:3], each.reason, since[each[:3]])
        for each in unheard
        if all(name is None or is_name(name) for name in each[:3])
    ]
    rows = _collapsed(rows, limit, lambda row: (None, row[1], EVERY_MEMBER) if row[2] is not None else None)
    rows = _collapsed(rows, limit, lambda row: (row[0], None, None) if row[2] is None else None)
    rows = _collapsed(rows, limit, lambda row: (None, None, EVERY_MEMBER) if row[2] is not None else None)
    if len(rows) > limit:
        rows = [_joined((None, None, None), rows)]
    return sorted(rows, key=lambda row: tuple(each or "" for each in row[:3]))


def is_name(name: object) -> bool:
    """Return whether the event schema accepts it. A client chooses its ClientId, and must not void a clock event."""
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS


def _collapsed(rows: list[Row], limit: int, key_of: Callable[[Row], NoDataKey | None]) -> list[Row]:
    """Join the rows of a key into one, largest first, until there are at most `limit` rows."""
    if len(rows) <= limit:
        return rows
    parts: dict[NoDataKey, list[Row]] = defaultdict(list)
    kept = []
    for row in rows:
        key = key_of(row)
        if key is None:
            kept.append(row)
        else:
            parts[key].append(row)
    excess = len(rows) - limit
    for key, members in sorted(parts.items(), key=lambda item: -len(item[1])):
        if excess > 0 and len(members) > 1:
            excess -= len(members) - 1
            kept.append(_joined(key, members))
        else:
            kept += members
    return kept


def _joined(key: NoDataKey, rows: list[Row]) -> Row:
    """Return one row with the most common reason and the earliest start."""
    reason = Counter(row[3] for row in rows).most_common(1)[0][0]
    return (*key, reason, min(row[4] for row in rows))


IMPLAUSIBLE_MS = 60_000
"""Two heartbeats of RocketMQ. A broker whose newest one is older, by the collector's clock, has a wrong clock."""


def select_heartbeats(
    memory: Memory, reading: Reading, profiles: Mapping[tuple[str, str], Profile], now: Moment
) -> tuple[list[Event], dict[ChannelKey, Reported], list[Stamp]]:
    """Return new heartbeats and a leave for each channel or group that a broker no longer lists; all channels; and the
    stamps of the brokers' clocks.

    A channel keeps the time of its last heartbeat, however often the broker lists it. Heartbeats of one broker keep
    its order, whatever its clock: a channel that begins as another of its ClientId ends is no twin. Without a heartbeat
    (a broker before code 328, a client without CLIENT_INNER_PRODUCER) the event says `is_listed_only`.
    """
    known = memory.channels
    seen = find_channels(reading, profiles)
    newest: dict[str, int] = defaultdict(int)
    for channel, heartbeat_ms in seen.values():
        newest[channel.broker_name] = max(newest[channel.broker_name], heartbeat_ms or 0)
    events, reported = _select_leaves(memory, reading, seen, now)
    stamps: list[Stamp] = []
    reached: dict[str, int] = {}
    found: dict[ChannelKey, Event] = {}
    for key, (listed, heartbeat_ms) in sorted(seen.items(), key=lambda item: (item[1][1] or 0, item[0])):
        view = reading.brokers[listed.broker_name]
        last = known.get(key)
        if heartbeat_ms is None and _is_from_before(listed, view):
            continue  # missing data in this round
        channel = _completed(listed, last, view)
        has_moved = last is not None and last.heartbeat_ms is not None and heartbeat_ms != last.heartbeat_ms
        round_before = memory.broker_rounds.get(channel.broker_name) if has_moved else None
        if heartbeat_ms is None:
            event_time_ms = now.ended_ms
        elif last and last.heartbeat_ms == heartbeat_ms:
            event_time_ms = last.event_time_ms
        else:
            ahead_ms = known_ahead_ms(memory.skews, Machine("broker", channel.broker_name))
            first_seen_ms = _in_step(heartbeat_ms - ahead_ms, newest[channel.broker_name] - ahead_ms, now.ended_ms)
            placed_ms = now.place(heartbeat_ms - ahead_ms if round_before else first_seen_ms, round_before)
            event_time_ms = max(placed_ms, reached.get(channel.broker_name, placed_ms))
            reached[channel.broker_name] = event_time_ms
        if heartbeat_ms and round_before:
            stamps.append(Stamp(Machine("broker", channel.broker_name), heartbeat_ms, round_before.began_ms))
        reported[key] = Reported(channel, heartbeat_ms, event_time_ms)
        if last is None or heartbeat_ms is None or (last.channel, last.heartbeat_ms) != (channel, heartbeat_ms):
            found[key] = _event(reading.cluster, channel, event_time_ms, is_listed_only=heartbeat_ms is None)
    return [*events, *(found[key] for key in sorted(found))], reported, stamps


def _select_leaves(
    memory: Memory, reading: Reading, seen: Mapping[ChannelKey, tuple[Channel, int | None]], now: Moment
) -> tuple[list[Event], dict[ChannelKey, Reported]]:
    """Return a leave for each channel or group that a broker no longer lists, and the other known channels."""
    events: list[Event] = []
    reported: dict[ChannelKey, Reported] = {}
    for key, before in sorted(memory.channels.items(), key=lambda item: item[0]):
        view = reading.brokers.get(before.channel.broker_name)
        if view is None:
            if before.channel.broker_name in reading.brokers_asked:
                reported[key] = before
            continue
        gone, stays = _part(before.channel, seen.get(key), view)
        if gone:
            events.append(_event(reading.cluster, gone, now.ended_ms, leaving=True))
        if stays:
            reported[key] = replace(before, channel=stays)
    return events, reported


def _in_step(heartbeat_ms: int, newest_ms: int, now_ms: int) -> int:
    """Return a heartbeat by the collector's clock. The newest heartbeat of an implausible clock is dated now."""
    is_plausible = now_ms - IMPLAUSIBLE_MS <= newest_ms <= now_ms
    return heartbeat_ms if is_plausible else heartbeat_ms + now_ms - newest_ms


def _part(
    channel: Channel, now: tuple[Channel, int | None] | None, view: BrokerReading
) -> tuple[Channel | None, Channel | None]:
    """Split a channel into the groups it left (UNREGISTER_CLIENT names groups) and those it may still be in."""
    listed = {consumer.consumer_group for consumer in now[0].consumers} if now else set()
    gone = tuple(c for c in channel.consumers if c.consumer_group not in listed | view.unread)
    unreported = tuple(c for c in channel.consumers if c.consumer_group in view.unread)
    if now is not None:
        return (replace(channel, consumers=gone) if gone else None), channel
    if unreported:
        return (replace(channel, consumers=gone) if gone else None), replace(channel, consumers=unreported)
    if not channel.consumers and not view.reports_producers:
        return None, channel
    return channel, None


def _is_from_before(channel: Channel, view: BrokerReading) -> bool:
    groups = {consumer.consumer_group for consumer in channel.consumers}
    return bool(groups) and groups <= view.unread and not channel.producer_groups


def _completed(channel: Channel, last: Reported | None, view: BrokerReading) -> Channel:
    """Return the channel, completed by earlier data that the broker did not report in this round."""
    if last is None:
        return channel
    listed = {consumer.consumer_group for consumer in channel.consumers}
    unreported = [c for c in last.channel.consumers if c.consumer_group in view.unread - listed]
    consumers = sorted((*channel.consumers, *unreported), key=lambda consumer: consumer.consumer_group)
    producer_groups = channel.producer_groups if view.reports_producers else last.channel.producer_groups
    return replace(channel, consumers=tuple(consumers), producer_groups=producer_groups)


def _event(
    cluster: str, channel: Channel, event_time_ms: int, *, leaving: bool = False, is_listed_only: bool = False
) -> Event:
    event = {"cluster": cluster, **asdict(channel), "event_time_ms": event_time_ms}
    flags = {"leaving": leaving, "is_listed_only": is_listed_only}
    return HEARTBEATS, event | {name: True for name, is_set in flags.items() if is_set}


ROUTE_REPEAT_MS = 30_000

Key = TypeVar("Key")
Value = TypeVar("Value")


def compute_round(memory: Memory, reading: Reading, round_time_ms: int) -> tuple[list[Event], Memory]:
    """Return the events of a round, without its clock event, and the new memory."""
    now = Moment(round_time_ms - reading.took_ms, round_time_ms)
    profiles = update_profiles(memory.profiles, reading)
    heartbeats, channels, broker_stamps = select_heartbeats(memory, reading, profiles, now)
    pulls, pulled, client_stamps = select_pulls(memory, reading, channels, now)
    offsets, known_offsets = select_offsets(memory, reading, pulls, now)
    routes, routed = select_routes(memory.routes, reading, round_time_ms)
    latencies = [latency_event(reading.cluster, latency, round_time_ms) for latency in reading.latencies]
    members = find_members(reading.brokers.values())
    skews = update_skews(memory.skews, [*broker_stamps, *client_stamps], round_time_ms)
    machines = {Machine("broker", name) for name in reading.brokers_asked} | {
        Machine("client", client_id) for _, client_id in members
    }
    return [*routes, *heartbeats, *pulls, *offsets, *latencies], Memory(
        profiles=profiles,
        channels=channels,
        pulls=pulled,
        offsets=known_offsets,
        routes=routed,
        groups={**memory.groups, **find_group_names(reading)},
        broker_rounds=_of(memory.broker_rounds, reading.brokers_asked) | dict.fromkeys(reading.brokers, now),
        member_rounds=(_of(memory.member_rounds, members) if reading.is_complete else dict(memory.member_rounds))
        | dict.fromkeys(reading.running, now),
        skews=_of(skews, machines) if reading.is_complete else skews,
        unheard=date_no_data(memory.unheard, reading, round_time_ms),
    )


def _of(known: Mapping[Key, Value], wanted: Iterable[Key]) -> dict[Key, Value]:
    """Return the known entries of the wanted keys."""
    return {key: known[key] for key in wanted if key in known}


def select_routes(
    known: Mapping[str, tuple[TopicRoute, int]], reading: Reading, round_time_ms: int
) -> tuple[list[Event], dict[str, tuple[TopicRoute, int]]]:
    """Return routes that changed or are due after ROUTE_REPEAT_MS, and an empty one for each deleted topic.

    A topic is deleted if the NameServer no longer has it while all its brokers are registered. If a broker is gone too,
    the NameServer merely dropped the route, and clients keep theirs.
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
        **({"has_queue_mapping": True} if route.has_queue_mapping else {}),
        "event_time_ms": event_time_ms,
    }


def latency_event(cluster: str, latency: Latency, round_time_ms: int) -> Event:
    """Return the event of a probe. A failed one isolates the broker, as for a producer with sendLatencyFaultEnable."""
    return SEND_LATENCIES, {
        "cluster": cluster,
        **asdict(latency),
        "queue_id": 0,
        "isolation": latency.send_status is None,
        "event_time_ms": min(latency.event_time_ms, round_time_ms),
    }
