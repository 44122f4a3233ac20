"""What a modelled collector remembers of queues whose messages wait at the broker, none of them at their client yet."""

from typing import Literal

from streaming.simulator.broker import Broker
from streaming.simulator.consumer import Consumer
from streaming.simulator.simulation import Simulation
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import NO_OFFSET

Outcome = Literal["served", "dropped", "in_vain"]
Place = tuple[str, str, MessageQueue]
"""Group, ClientId, queue."""


class Waiting:
    """By queue its client's own offset and the one its broker was asked for, where messages wait, as of the round
    before.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._waiting_from: dict[Place, int | None] = {}
        self._asked_from: dict[Place, int | None] = {}

    def outcome(self, consumer: Consumer, mq: MessageQueue, broker: Broker | None) -> Outcome:
        """What became of the pulls that the client says it made since then. To be asked once a round of each queue of a
        client that answers and has no twin.
        """
        place = consumer.consumer_group, consumer.client.client_id, mq
        queue_end = self._simulation.max_offset(mq.topic, mq.broker_name, mq.queue_id) if broker else NO_OFFSET
        asked = consumer.table[mq].next_offset
        before, asked_before = self._waiting_from.get(place), self._asked_from.get(place)
        self._waiting_from[place] = now = self._find(consumer, mq, broker, before, queue_end)
        self._asked_from[place] = asked if asked < queue_end else None
        if before is None or now != before:
            return "served"
        return "in_vain" if consumer.of.sub_string == "*" or asked == asked_before else "dropped"

    def _find(
        self, consumer: Consumer, mq: MessageQueue, broker: Broker | None, before: int | None, queue_end: int
    ) -> int | None:
        own = consumer.offsets.to_commit(mq)
        if own == NO_OFFSET and broker is not None:
            own = broker.asked_node.offsets.query_offset(consumer.consumer_group, mq)
        may_drop = consumer.of.sub_string != "*" and consumer.is_consuming and not consumer.consume_ms
        is_cached = consumer.table[mq].next_offset > own and not may_drop
        if own < 0 or is_cached:
            return None
        return own if before == own or own < queue_end else None
