"""Pull events of a round: pulls of members, and offsets that moved without a known pull.

A client sets the time of a pull before it sends one, also while it is suspended or its broker does not answer. So a
pull counts only if it was served. The client's own offset moves with what it consumes, and when a pull brought no
matching message (DefaultMQPushConsumerImpl.correctTagsOffset). It does not move while the broker gives it messages of
tags that only another member subscribes: the client drops them and asks for more.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from schemas.events import PULLS
from streaming.collector.reading import ChannelKey, QueueKey, Reading, find_twins
from streaming.collector.rocketmq_answers import OffsetWrapper, ProcessQueue, RunningInfo
from streaming.collector.round_memory import (
    Machine,
    Memory,
    Moment,
    Offsets,
    Pulled,
    Reported,
    Stamp,
    known_ahead_ms,
)
from udfs.rocketmq.own_names import REVIVE_GROUP

Outcome = Literal["served", "dropped", "in_vain"]
SERVED: Outcome = "served"
DROPPED: Outcome = "dropped"
IN_VAIN: Outcome = "in_vain"


def note_pull(stamp_ms: int, queue: ProcessQueue, offsets: OffsetWrapper, last: Pulled | None) -> Pulled:
    """Return the state of a queue of a push consumer without twins. Without the broker's offsets waiting continues."""
    own, has_waited = queue.commit_offset, last is not None and last.waiting_from == queue.commit_offset
    is_waiting = not queue.cached_msg_count and own >= 0 and (has_waited or own < offsets.broker_offset)
    is_asked = 0 <= offsets.pull_offset < offsets.broker_offset
    return Pulled(stamp_ms, own if is_waiting else None, offsets.pull_offset if is_asked else None)


def outcome_of(last: Pulled | None, now: Pulled, offsets: OffsetWrapper, *, may_drop: bool) -> Outcome:
    """Return the outcome of the pulls between two answers. `may_drop`: the client subscribes the topic by tags."""
    if last is None or last.waiting_from is None or last.waiting_from != now.waiting_from:
        return SERVED
    if not may_drop:
        return IN_VAIN
    if offsets.pull_offset < 0:
        return SERVED  # unknown
    return IN_VAIN if last.asked_from == offsets.pull_offset else DROPPED


def may_drop(info: RunningInfo, topic: str) -> bool:
    """Return whether the client filters by tags itself (PullAPIWrapper.processPullResult)."""
    return any(
        each.topic == topic and each.expression_type == "TAG" and each.sub_string != "*" for each in info.subscriptions
    )


Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""

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
    addresses = _addresses(reading, channels)
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
            pulled[key] = note_pull(stamp_ms, queue, offsets, last)
        if not has_moved:
            continue
        before = memory.member_rounds.get(member) if last_ms is not None else None
        if before and is_alone:
            stamps.append(Stamp(Machine("client", member[1]), stamp_ms, before.began_ms))
        view = reading.brokers.get(queue.broker_name)
        is_refused = view is not None and member[0] in view.refused
        outcome = outcome_of(last, pulled[key], offsets, may_drop=may_drop(info, queue.topic))
        if outcome == IN_VAIN and not is_refused:
            continue  # suspended, or cut off from this broker
        client_addr = addresses.get((queue.broker_name, *member)) if is_alone else None
        events.append(
            _event(
                reading,
                (member[0], key[2]),
                offsets,
                now.place(stamp_ms - known_ahead_ms(memory.skews, Machine("client", member[1])), before),
                client_addr=client_addr,
                client_id=member[1],
                pull_offset=_next_offset(queue, offsets),
                pull_status=NO_PERMISSION if is_refused else NO_MATCHED_MSG if outcome == DROPPED else None,
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
            events.append(_event(reading, key, offsets, now.ended_ms, pull_offset=pull_offset, offsets_only=True))
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


def _addresses(reading: Reading, channels: Mapping[ChannelKey, Reported]) -> dict[tuple[str, str, str], str]:
    """Return each member's channel address at each broker, as listed now or last."""
    known: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for reported in channels.values():
        channel = reported.channel
        for consumer in channel.consumers:
            known[(channel.broker_name, consumer.consumer_group, channel.client_id)].add(channel.client_addr)
    remembered = {key: addresses.pop() for key, addresses in known.items() if len(addresses) == 1}
    return remembered | {
        (broker_name, group.consumer_group, each.client_id): each.client_addr
        for broker_name, view in reading.brokers.items()
        for group in view.groups
        for each in group.connections
    }


def _event(
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
        "commit_offset": _known(offsets.consumer_offset),
        "max_offset": _known(offsets.broker_offset),
        **unknown,
        **fields,
        "event_time_ms": event_time_ms,
    }


def _next_offset(queue: ProcessQueue, offsets: OffsetWrapper) -> int:
    """Return the broker's pull offset; without one, the end of the client's cache; 0 if unknown."""
    cached = queue.cached_msg_max_offset + 1 if queue.cached_msg_count else queue.commit_offset
    return max(offsets.pull_offset if offsets.pull_offset >= 0 else cached, 0)


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None
