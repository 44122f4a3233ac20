"""The heartbeats of a round: what each broker heard on each channel, and who left."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from schemas.events import HEARTBEATS
from streaming.collector.machine_skew import Machine, Stamp, known_ahead_ms
from streaming.collector.reading import BrokerReading, Channel, ChannelKey, Profile, Reading, find_channels
from streaming.collector.round_memory import Memory, Moment, Reported

IMPLAUSIBLE_MS = 60_000
"""Two heartbeats of RocketMQ: a broker whose newest one is older by our clock has another clock."""

Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""


def select_heartbeats(
    memory: Memory, reading: Reading, profiles: Mapping[tuple[str, str], Profile], now: Moment
) -> tuple[list[Event], dict[ChannelKey, Reported], list[Stamp]]:
    """Heartbeats that are new, and a leave for every channel or group that a broker listed and no longer lists; the
    channels as they are told now, and what the heartbeats say of the brokers' clocks.

    A channel keeps the time of its true last heartbeat, however often the broker lists it, and heartbeats of one broker
    keep its order, whatever its clock: of two channels of a ClientId, one that begins as the other ends is no twin.
    Without one (a broker before code 328, a client without CLIENT_INNER_PRODUCER) being listed is all that is known,
    and told as that.
    """
    known = memory.channels
    seen = find_channels(reading, profiles)
    newest = _newest_heartbeats(seen.values())
    events: list[Event] = []
    reported: dict[ChannelKey, Reported] = {}
    stamps: list[Stamp] = []
    for key, before in sorted(known.items(), key=lambda item: item[0]):
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
    reached: dict[str, int] = {}
    found: dict[ChannelKey, Event] = {}
    for key, (listed, heartbeat_ms) in sorted(seen.items(), key=lambda item: (item[1][1] or 0, item[0])):
        view = reading.brokers[listed.broker_name]
        last = known.get(key)
        if heartbeat_ms is None and _is_from_before(listed, view):
            continue  # the broker told nothing of it in this round
        channel = _completed(listed, last, view)
        has_moved = last is not None and last.heartbeat_ms is not None and heartbeat_ms != last.heartbeat_ms
        heard = memory.heard.get(channel.broker_name) if has_moved else None
        if heartbeat_ms is None:
            event_time_ms = now.ended_ms
        elif last and last.heartbeat_ms == heartbeat_ms:
            event_time_ms = last.event_time_ms
        else:
            ahead_ms = known_ahead_ms(memory.skews, Machine("broker", channel.broker_name))
            first_seen_ms = _in_step(heartbeat_ms - ahead_ms, newest[channel.broker_name] - ahead_ms, now.ended_ms)
            placed_ms = now.place(heartbeat_ms - ahead_ms if heard else first_seen_ms, heard)
            event_time_ms = max(placed_ms, reached.get(channel.broker_name, placed_ms))
            reached[channel.broker_name] = event_time_ms
        if heartbeat_ms and heard:
            stamps.append(Stamp(Machine("broker", channel.broker_name), heartbeat_ms, heard.began_ms))
        reported[key] = Reported(channel, heartbeat_ms, event_time_ms)
        if last is None or heartbeat_ms is None or (last.channel, last.heartbeat_ms) != (channel, heartbeat_ms):
            found[key] = _event(reading.cluster, channel, event_time_ms, is_listed_only=heartbeat_ms is None)
    return [*events, *(found[key] for key in sorted(found))], reported, stamps


def _newest_heartbeats(seen: Iterable[tuple[Channel, int | None]]) -> dict[str, int]:
    """broker_name to the newest heartbeat it tells, by its own clock."""
    newest: dict[str, int] = {}
    for channel, heartbeat_ms in seen:
        newest[channel.broker_name] = max(newest.get(channel.broker_name, 0), heartbeat_ms or 0)
    return newest


def _in_step(heartbeat_ms: int, newest_ms: int, now_ms: int) -> int:
    """A heartbeat by our clock: a broker's newest one is about now when its clock cannot be right."""
    is_plausible = now_ms - IMPLAUSIBLE_MS <= newest_ms <= now_ms
    return heartbeat_ms if is_plausible else heartbeat_ms + now_ms - newest_ms


def _part(
    channel: Channel, now: tuple[Channel, int | None] | None, view: BrokerReading
) -> tuple[Channel | None, Channel | None]:
    """The channel with the groups it left, and with those it may still be in, for the broker did not tell them.
    UNREGISTER_CLIENT names groups, too.
    """
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
    """The channel, and what was told of it before by a broker that does not tell it in this round."""
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
