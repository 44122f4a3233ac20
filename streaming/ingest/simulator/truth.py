"""What is really so in the modelled cluster: which queues nobody consumes, from when, until when, and why.

A queue is starved when no live process holds it. Causes, in the order they are asked:

    group_offline        no process of the group runs
    duplicate_client_id  the slot belongs to a second process with the ClientId of a first
    reconnect            the slot belongs to a channel that was replaced and is not yet expired
    frozen_client        the slot's process is stopped, and listed
    lost_client          the slot's process is gone, and listed
    not_subscribed       the slot's process does not subscribe the topic
    mixed_strategies     the group's processes allocate by different strategies
    rebalance            the slot's process is about to take it: seconds
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from streaming.ingest.simulator.broker import Channel
from streaming.ingest.simulator.consumer import Consumer
from udfs.allocation import allocate_all
from udfs.model import MessageQueue


@dataclass(frozen=True, slots=True)
class Starved:
    """Nobody consumed `mq` for the group from `start_ms` up to `end_ms`; None: still so."""

    consumer_group: str
    mq: MessageQueue
    start_ms: int
    end_ms: int | None
    cause: str


class Truth:
    """Every interval of starvation so far, in the order they ended, then the open ones."""

    def __init__(self) -> None:
        self._ended: list[Starved] = []
        self._open: dict[tuple[str, MessageQueue], Starved] = {}

    def __iter__(self) -> Iterator[Starved]:
        yield from self._ended
        yield from self._open.values()

    def at(self, time_ms: int) -> list[Starved]:
        """What was starved at a time."""
        return [one for one in self if one.start_ms <= time_ms and (one.end_ms is None or time_ms < one.end_ms)]

    def update(self, consumer_group: str, causes: dict[MessageQueue, str], now_ms: int) -> None:
        """From now on exactly the queues of `causes` are starved in the group, for these causes."""
        for key, one in list(self._open.items()):
            if key[0] == consumer_group and causes.get(key[1]) != one.cause:
                del self._open[key]
                if one.start_ms < now_ms:
                    self._ended.append(replace(one, end_ms=now_ms))
        for mq, cause in causes.items():
            if (consumer_group, mq) not in self._open:
                self._open[consumer_group, mq] = Starved(consumer_group, mq, now_ms, None, cause)


def find_starved(
    consumers: list[Consumer], channels: list[Channel], mq_all: list[MessageQueue]
) -> dict[MessageQueue, str]:
    """The starved queues of one topic for one group, with their causes.

    `consumers` are the group's processes, dead ones left out; `channels` the group's list at a broker.
    """
    held = {mq for consumer in consumers if consumer.is_live for mq in consumer.process_queues}
    starved = [mq for mq in mq_all if mq not in held]
    if not starved:
        return {}
    strategies: set[str] = {consumer.strategy for consumer in consumers}
    if not consumers or not channels:
        return dict.fromkeys(starved, "rebalance" if consumers else "group_offline")
    slots = allocate_all(min(strategies), "", mq_all, [f"{index:06}" for index in range(len(channels))])
    slot_of = {mq: int(slot) for slot, share in slots.items() for mq in share}
    return {mq: _cause(channels, slot_of[mq], mq.topic, strategies) for mq in starved}


def _cause(channels: list[Channel], slot: int, topic: str, strategies: set[str]) -> str:
    client = channels[slot].client
    assert isinstance(client, Consumer)  # noqa: S101  # only consumers register for a group
    same_id = [channel.client for channel in channels if channel.client.client_id == client.client_id]
    is_later_slot = slot > 0 and channels[slot - 1].client.client_id == client.client_id
    if is_later_slot and len({id(one) for one in same_id if one.is_running}) > 1:
        return "duplicate_client_id"
    if is_later_slot and len(set(map(id, same_id))) == 1 and client.is_live:
        return "reconnect"
    if client.is_running and client.is_frozen:
        return "frozen_client"
    if not client.is_running:
        return "lost_client"
    if topic not in client.subscriptions:
        return "not_subscribed"
    return "mixed_strategies" if len(strategies) > 1 else "rebalance"
