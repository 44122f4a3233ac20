"""What a member's AllocateMessageQueueStrategy is constructed with (udfs.rocketmq.allocation.Options)."""

from typing import Any

from streaming.simulator import parts
from udfs.rocketmq.model import MessageQueue


def strategy_options(group: parts.Group, of: parts.Consumer) -> dict[str, Any]:
    """The options of the member's own strategy; rooms by ClientId, a broker's room stands before its "@"."""
    family = (of.strategy or group.strategy).partition("-")[0]
    if family == "CONFIG":
        return {"config_queues": config_queues(group, of)}
    if family == "MACHINE_ROOM":
        return {"consumer_idcs": frozenset(group.consumer_idcs)}
    if family == "CONSISTENT_HASH":
        return {"virtual_nodes": group.virtual_nodes}
    if family == "MACHINE_ROOM_NEARBY":
        rooms = {consumer.client_id: consumer.room for consumer in group.consumers}
        return {"broker_room": broker_room, "client_room": rooms.get}
    return {}


def broker_room(mq: MessageQueue) -> str:
    """Where the queue's broker is deployed: "room1@broker-a" in room1."""
    return mq.broker_name.partition("@")[0]


def config_queues(group: parts.Group, of: parts.Consumer) -> list[MessageQueue]:
    """CONFIG: the member's own list, of the group's first topic."""
    names = (name.rpartition(":") for name in of.config_queues)
    return [MessageQueue(group.subscriptions[0], broker_name, int(queue_id)) for broker_name, _, queue_id in names]
