"""Whose each queue would be: the group's strategy over slots, one a channel, so that a repeated ClientId shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streaming.simulator import parts
from streaming.simulator.consumer import Consumer
from streaming.simulator.node import Channel
from streaming.simulator.strategy_options import config_queues, strategy_options
from udfs.rocketmq.allocation import allocate_all
from udfs.rocketmq.model import MessageQueue


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the group's list. `is_repeated`: an earlier place has the same ClientId, so nobody takes its share."""

    consumer: Consumer
    is_repeated: bool


def share_out(
    group: parts.Group,
    strategies: Mapping[str, int],
    channels: Sequence[Channel],
    consumers: Sequence[Consumer],
    mq_all: list[MessageQueue],
) -> dict[MessageQueue, Slot]:
    """Each queue's slot by the strategy most members have; a queue that nobody is given is left out.

    `channels` is the group's list at a broker, sorted by ClientId.
    """
    if not mq_all or not channels or not strategies:
        return {}
    slots = _slots(group, channels)
    strategy = min(strategies, key=lambda name: (-strategies[name], name))
    if strategy == "CONFIG":
        return {mq: Slot(consumer, False) for consumer in consumers for mq in config_queues(group, consumer.of)}
    names = [f"{index:06}" for index in range(len(slots))]
    by_name = dict(zip(names, slots, strict=True))
    options = strategy_options(group, next(one.of for one in consumers if one.strategy == strategy))
    if strategy == "CONSISTENT_HASH":  # it goes by names, and gives a repeated ClientId's queues to both
        names = [slot.consumer.client.client_id for slot in slots]
        by_name = dict(reversed(list(zip(names, slots, strict=True))))
    if strategy.startswith("MACHINE_ROOM_NEARBY"):
        options["client_room"] = {name: slot.consumer.of.room for name, slot in by_name.items()}.get
    shares = allocate_all(strategy, group.consumer_group, mq_all, names, **options)
    return {mq: by_name[name] for name, share in shares.items() for mq in share}


def _slots(group: parts.Group, channels: Sequence[Channel]) -> list[Slot]:
    slots: list[Slot] = []
    seen: set[str] = set()
    for channel in channels:
        client_id = channel.client.client_id
        consumer = next(one for one in channel.client.consumers if one.consumer_group == group.consumer_group)
        slots.append(Slot(consumer, client_id in seen))
        seen.add(client_id)
    return slots
