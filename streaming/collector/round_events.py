"""The events of a round: changes since earlier rounds. Pure functions of reading and memory.

A client sets the time of a pull before it sends one, also while it is suspended or its broker does not answer. So a
pull counts only if it was served. The client's own offset moves with what it consumes, and when a pull brought no
matching message (DefaultMQPushConsumerImpl.correctTagsOffset). It does not move while the broker gives it messages of
tags that only another member subscribes: the client drops them and asks for more.

No event of a round is later than the round's own time, whatever the clocks of brokers and clients say, so the clock
event that ends the round never overtakes one. A change since the last round is not earlier than that round, so no
machine's clock decides what is late.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, TypeVar

import msgspec

from schemas.events import CLOCKS, HEARTBEATS, MOST_GROUPS, NAME_CHARACTERS, PULLS, ROUTES, SEND_LATENCIES
from streaming.collector.reading import (
    Channel,
    ChannelKey,
    Event,
    Profile,
    QueueKey,
    Reading,
    Unheard,
    find_channels,
    find_group_names,
    find_members,
    find_twins,
    update_profiles,
)
from streaming.collector.rocketmq_answers import OffsetWrapper, ProcessQueue, RunningInfo, TopicRoute
from streaming.collector.round_memory import (
    Machine,
    Memory,
    Moment,
    NoDataKey,
    Offsets,
    Pulled,
    Reported,
    Stamp,
    known_ahead_ms,
    pick_reported,
    update_skews,
)
from streaming.kafka_io.publisher import MOST_BYTES
from udfs.brokers.broker_coverage import EVERY_MEMBER
from udfs.rocketmq.own_names import REVIVE_GROUP

MAX_NO_DATA = 2_000
"""Maximum entries of a clock event; beyond it, a group stands for its members and a broker for its groups."""


def clock_event(
    source: Mapping[str, Any], reading: Reading, before: Memory, after: Memory, round_time_ms: int
) -> tuple[str, dict[str, Any]]:
    """Return the clock event that ends the round between two memories: its completeness, and the missing data.

    `source` has the event's fields of the collector: its name, its poll interval and its groups (none: all).
    Clients choose their ClientIds: rows of missing data are joined until the event is small enough to be published.

    A group is deleted if each broker that had its configuration has answered without it (mqadmin deleteSubGroup), and
    no other broker has it. A broker that is gone has deleted nothing.
    """
    had = frozenset().union(*before.groups.values())
    has = frozenset().union(*{**before.groups, **find_group_names(reading)}.values())
    reported = {
        **source,
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
    event = {
        "cluster": reading.cluster,
        "source": "collector",
        "brokers_asked": sorted(reading.brokers_asked),
        "brokers_answered": sorted(reading.brokers),
        **{name: value for name, value in reported.items() if value},
        "event_time_ms": round_time_ms,
    }
    limit = MAX_NO_DATA
    while missing := [
        {**dict(zip(("broker_name", "consumer_group", "client_id"), key, strict=True)), "reason": reason}
        | {"since_ms": since_ms}
        for *key, reason, since_ms in pick_no_data(reading.unheard, after.unheard, limit)
    ]:
        event["unheard"] = missing
        if limit == 1 or len(msgspec.json.encode(event)) <= MOST_BYTES:
            break
        limit //= 2
    return CLOCKS, event


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
    parts: dict[NoDataKey | None, list[Row]] = defaultdict(list)
    for row in rows:
        parts[key_of(row)].append(row)
    kept = parts.pop(None, [])
    excess = len(rows) - limit
    for key, members in sorted(parts.items(), key=lambda item: -len(item[1])):
        if key is not None and excess > 0 and len(members) > 1:
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
    leaves, reported, completed = _compare(memory, reading, seen, now)
    stamps: list[Stamp] = []
    reached: dict[str, int] = {}
    found: dict[ChannelKey, Event] = {}
    for key, (listed, heartbeat_ms) in sorted(seen.items(), key=lambda item: (item[1][1] or 0, item[0])):
        view = reading.brokers[listed.broker_name]
        last = known.get(key)
        groups = {consumer.consumer_group for consumer in listed.consumers}
        if heartbeat_ms is None and groups and groups <= view.unread and not listed.producer_groups:
            continue  # missing data in this round
        channel = completed[key]
        has_moved = last is not None and last.heartbeat_ms is not None and heartbeat_ms != last.heartbeat_ms
        round_before = memory.broker_rounds.get(channel.broker_name) if has_moved else None
        if heartbeat_ms is None:
            event_time_ms = now.ended_ms
        elif last and last.heartbeat_ms == heartbeat_ms:
            event_time_ms = last.event_time_ms
        else:
            ahead_ms = known_ahead_ms(memory.skews, Machine("broker", channel.broker_name))
            newest_ms = newest[channel.broker_name] - ahead_ms
            if not round_before and not now.ended_ms - IMPLAUSIBLE_MS <= newest_ms <= now.ended_ms:
                ahead_ms += newest_ms - now.ended_ms  # its newest heartbeat is dated now
            placed_ms = now.place(heartbeat_ms - ahead_ms, round_before)
            event_time_ms = max(placed_ms, reached.get(channel.broker_name, placed_ms))
            reached[channel.broker_name] = event_time_ms
        if heartbeat_ms and round_before:
            stamps.append(Stamp(Machine("broker", channel.broker_name), heartbeat_ms, round_before.began_ms))
        reported[key] = Reported(channel, heartbeat_ms, event_time_ms)
        if last is None or heartbeat_ms is None or (last.channel, last.heartbeat_ms) != (channel, heartbeat_ms):
            found[key] = _event(reading.cluster, channel, event_time_ms, is_listed_only=heartbeat_ms is None)
    return [*leaves, *(found[key] for key in sorted(found))], reported, stamps


def _compare(
    memory: Memory, reading: Reading, seen: Mapping[ChannelKey, tuple[Channel, int | None]], now: Moment
) -> tuple[list[Event], dict[ChannelKey, Reported], dict[ChannelKey, Channel]]:
    """Return a leave for each channel or group that a broker no longer lists, the other known channels, and those of
    `seen`, completed by earlier data that the broker did not report in this round.
    """
    leaves: list[Event] = []
    reported: dict[ChannelKey, Reported] = {}
    completed: dict[ChannelKey, Channel] = {key: listed for key, (listed, _) in seen.items()}
    for key, before in sorted(memory.channels.items(), key=lambda item: item[0]):
        known, listed = before.channel, completed.get(key)
        view = reading.brokers.get(known.broker_name)
        if view is None:
            if known.broker_name in reading.brokers_asked:
                reported[key] = before
            continue
        names = {consumer.consumer_group for consumer in listed.consumers} if listed else set()
        gone = tuple(c for c in known.consumers if c.consumer_group not in names | view.unread)
        unreported = tuple(c for c in known.consumers if c.consumer_group in view.unread - names)
        if listed:
            consumers = sorted((*listed.consumers, *unreported), key=lambda consumer: consumer.consumer_group)
            producer_groups = listed.producer_groups if view.reports_producers else known.producer_groups
            completed[key] = replace(listed, consumers=tuple(consumers), producer_groups=producer_groups)
            reported[key] = before
        elif unreported or not (known.consumers or view.reports_producers):
            reported[key] = replace(before, channel=replace(known, consumers=unreported))
        if gone or key not in reported:  # UNREGISTER_CLIENT names groups
            leaves.append(_event(reading.cluster, replace(known, consumers=gone), now.ended_ms, leaving=True))
    return leaves, reported, completed


def _event(
    cluster: str, channel: Channel, event_time_ms: int, *, leaving: bool = False, is_listed_only: bool = False
) -> Event:
    event = {"cluster": cluster, **asdict(channel), "event_time_ms": event_time_ms}
    flags = {"leaving": leaving, "is_listed_only": is_listed_only}
    return HEARTBEATS, event | {name: True for name, is_set in flags.items() if is_set}


Outcome = Literal["served", "dropped", "in_vain"]


def _note_pull(stamp_ms: int, queue: ProcessQueue, offsets: OffsetWrapper, last: Pulled | None) -> Pulled:
    """Return the state of a queue of a push consumer without twins. Without the broker's offsets waiting continues."""
    own, has_waited = queue.commit_offset, last is not None and last.waiting_from == queue.commit_offset
    is_waiting = not queue.cached_msg_count and own >= 0 and (has_waited or own < offsets.broker_offset)
    is_asked = 0 <= offsets.pull_offset < offsets.broker_offset
    return Pulled(stamp_ms, own if is_waiting else None, offsets.pull_offset if is_asked else None)


def outcome_of(last: Pulled | None, now: Pulled, offsets: OffsetWrapper, info: RunningInfo, topic: str) -> Outcome:
    """Return the outcome of the pulls between two answers. A client that subscribes by tags drops messages."""
    if last is None or last.waiting_from is None or last.waiting_from != now.waiting_from:
        return "served"
    has_tags = any(  # PullAPIWrapper.processPullResult
        each.topic == topic and each.expression_type == "TAG" and each.sub_string != "*" for each in info.subscriptions
    )
    if not has_tags:
        return "in_vain"
    if offsets.pull_offset < 0:
        return "served"  # unknown
    return "in_vain" if last.asked_from == offsets.pull_offset else "dropped"


PullKey = tuple[str, str, QueueKey]
"""consumer group, client id, queue."""

WAITING_REPEAT_MS = 60_000
"""Period in which unchanged offsets of a queue with waiting messages are published."""

REVIVED_MS = 60_000
"""PopReviveService reads its log every few seconds (reviveInterval, reviveMaxSlow, and its wait for acks)."""

UNKNOWN_OFFSETS = OffsetWrapper(-1, -1, -1)

NO_MATCHED_MSG = "NO_MATCHED_MSG"
"""PullStatus: the client drops the broker's messages and advances without a commit."""

NO_PERMISSION = "NO_PERMISSION"
"""The answer to pulls of a group with consumeEnable = false. The client retries every 3 s."""


def select_pulls(
    memory: Memory, reading: Reading, channels: Mapping[ChannelKey, Reported], now: Moment
) -> tuple[list[Event], dict[PullKey, Pulled], list[Stamp]]:
    """Return an event for each queue pulled since its member's last answer, the state of all queues, and the stamps of
    clients' clocks. `channels` include those of brokers that did not answer.

    Not reported: queues that were dropped or never pulled, that an orderly consumer could not lock, or whose waiting
    messages did not arrive. Of twins that both answered, the later pull counts.
    """
    newest: dict[PullKey, ProcessQueue] = {}
    for (group, client_id), infos in reading.running.items():
        for queue in _held(infos):
            key = (group, client_id, (queue.topic, queue.broker_name, queue.queue_id))
            if key not in newest or queue.last_pull_timestamp > newest[key].last_pull_timestamp:
                newest[key] = queue
    twins = find_twins(reading.brokers.values())
    addresses = _addresses(channels)
    events = []
    stamps = []
    pulled: dict[PullKey, Pulled] = {}
    for key, queue in sorted(newest.items(), key=lambda item: item[0]):
        member = (key[0], key[1])
        last, stamp_ms = memory.pulls.get(key), queue.last_pull_timestamp
        last_ms = last.stamp_ms if last else None
        is_alone = member not in twins
        offsets = reading.offsets.get((member[0], key[2]), UNKNOWN_OFFSETS)
        has_moved = last_ms is None or (stamp_ms != last_ms if is_alone else stamp_ms > last_ms)
        pulled[key] = Pulled(stamp_ms if is_alone else max(stamp_ms, last_ms or 0))
        info = reading.running[member][0]
        if is_alone and info.is_push:
            pulled[key] = _note_pull(stamp_ms, queue, offsets, last)
        if not has_moved:
            continue
        before = memory.member_rounds.get(member) if last_ms is not None else None
        if before and is_alone:
            stamps.append(Stamp(Machine("client", member[1]), stamp_ms, before.began_ms))
        view = reading.brokers.get(queue.broker_name)
        is_refused = view is not None and member[0] in view.refused
        outcome = outcome_of(last, pulled[key], offsets, info, queue.topic)
        if outcome == "in_vain" and not is_refused:
            continue  # suspended, or cut off from this broker
        known = addresses.get((queue.broker_name, *member), ())
        cached = queue.cached_msg_max_offset + 1 if queue.cached_msg_count else queue.commit_offset
        events.append(
            _pull_event(
                reading,
                (member[0], key[2]),
                offsets,
                now.place(stamp_ms - known_ahead_ms(memory.skews, Machine("client", member[1])), before),
                client_addr=next(iter(known)) if is_alone and len(known) == 1 else None,
                client_id=member[1],
                pull_offset=max(offsets.pull_offset if offsets.pull_offset >= 0 else cached, 0),
                pull_status=NO_PERMISSION if is_refused else NO_MATCHED_MSG if outcome == "dropped" else None,
            )
        )
    listed = {(group, client_id) for _, group, client_id in addresses}
    kept = {key: at for key, at in memory.pulls.items() if key[:2] in listed or not reading.is_complete}
    return events, kept | pulled, stamps


def select_offsets(
    memory: Memory, reading: Reading, pulls: Iterable[Event], now: Moment
) -> tuple[list[Event], dict[tuple[str, QueueKey], Offsets]]:
    """Return an event for each queue whose commit or max offset moved and that is not in `pulls`, and all offsets.

    Members without an answer or without queues commit too. The event is repeated while messages wait, because no offset
    moves after a burst that no client consumes. Groups that never committed are skipped.
    """
    reported = {(pull["consumer_group"], (pull["topic"], pull["broker_name"], pull["queue_id"])) for _, pull in pulls}
    events = []
    groups = {group.consumer_group for view in reading.brokers.values() for group in view.groups} | {REVIVE_GROUP}
    kept = {key: last for key, last in memory.offsets.items() if key[0] in groups or not reading.is_complete}
    for key, answered in sorted(reading.offsets.items(), key=lambda item: item[0]):
        if answered.consumer_offset < 0 or key[1][0].startswith("%RETRY%"):
            continue
        last = memory.offsets.get(key)
        offsets = _read_by_broker(answered, last, now.ended_ms) if key[0] == REVIVE_GROUP else answered
        current = (offsets.consumer_offset, offsets.broker_offset)
        is_due = last is None or last[:2] != current
        if last is not None and last.commit < last.end:
            is_due = is_due or now.ended_ms >= last.published_ms + WAITING_REPEAT_MS
        if key not in reported and is_due:
            pull_offset = max(offsets.pull_offset, offsets.consumer_offset)
            events.append(_pull_event(reading, key, offsets, now.ended_ms, pull_offset=pull_offset, offsets_only=True))
        kept[key] = Offsets(
            *current,
            published_ms=now.ended_ms if last is None or is_due or key in reported else last.published_ms,
            ended_ms=now.ended_ms if last is None or last.end != offsets.broker_offset else last.ended_ms,
        )
    return events, kept


def _read_by_broker(offsets: OffsetWrapper, last: Offsets | None, now_ms: int) -> OffsetWrapper:
    """Return the revive log's offsets in the form of other groups: the next offset.

    PopReviveService commits the newest finished checkpoint, not the acks behind it. A log that has not grown for
    REVIVED_MS counts as read.
    """
    end = offsets.broker_offset
    commit = min(offsets.consumer_offset + 1, end)
    if last is not None and last.end <= end:
        is_quiet = last.end == end and now_ms >= last.ended_ms + REVIVED_MS
        commit = end if is_quiet else max(commit, last.commit)
    return OffsetWrapper(end, commit, commit)


def _held(infos: Iterable[RunningInfo]) -> Iterable[ProcessQueue]:
    for info in infos:
        for queue in info.process_queues:
            is_pulled = queue.last_pull_timestamp > 0 and not queue.is_dropped
            may_pull = queue.is_locked or not info.consume_orderly
            if is_pulled and may_pull and not queue.topic.startswith("%RETRY%"):
                yield queue


def _addresses(channels: Mapping[ChannelKey, Reported]) -> dict[tuple[str, str, str], set[str]]:
    """Return the addresses of each (broker_name, group, ClientId), as listed now or last."""
    known: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for reported in channels.values():
        channel = reported.channel
        for consumer in channel.consumers:
            known[(channel.broker_name, consumer.consumer_group, channel.client_id)].add(channel.client_addr)
    return known


def _pull_event(
    reading: Reading, key: tuple[str, QueueKey], offsets: OffsetWrapper, event_time_ms: int, **fields: Any
) -> Event:
    group, (topic, broker_name, queue_id) = key
    view = reading.brokers.get(broker_name)
    unknown: Mapping[str, Any] = {"client_addr": None, "client_id": None, "pull_status": None}
    return PULLS, {
        "cluster": reading.cluster,
        "broker_name": broker_name,
        "broker_id": view.broker.broker_id if view else 0,
        "topic": topic,
        "queue_id": queue_id,
        "consumer_group": group,
        "commit_offset": offsets.consumer_offset if offsets.consumer_offset >= 0 else None,
        "max_offset": offsets.broker_offset if offsets.broker_offset >= 0 else None,
        **unknown,
        **fields,
        "event_time_ms": event_time_ms,
    }


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
    latencies = [
        (
            SEND_LATENCIES,
            {
                "cluster": reading.cluster,
                **asdict(latency),
                "queue_id": 0,
                "isolation": latency.send_status is None,  # as for a producer with sendLatencyFaultEnable
                "event_time_ms": min(latency.event_time_ms, round_time_ms),
            },
        )
        for latency in reading.latencies
    ]
    members = find_members(reading.brokers.values())
    skews = update_skews(memory.skews, [*broker_stamps, *client_stamps], round_time_ms)
    machines = {Machine("broker", name) for name in reading.brokers_asked} | {
        Machine("client", client_id) for _, client_id in members
    }
    no_data = [each[:3] for each in reading.unheard]
    absent = set(reading.brokers_asked) - set(reading.brokers)  # their missing data keeps its date
    kept = {key: since_ms for key, since_ms in memory.unheard.items() if key[0] in absent}
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
        unheard=kept | {key: memory.unheard.get(key, round_time_ms) for key in no_data},
    )


def _of(known: Mapping[Key, Value], wanted: Iterable[Key]) -> dict[Key, Value]:
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
