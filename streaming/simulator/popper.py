"""A POP consumer: it holds no queue, and the brokers hand out messages of any queue to whoever asks."""

from collections.abc import Iterable
from typing import Protocol

from schemas.events import PULLS
from streaming.simulator.client import Client
from streaming.simulator.node import Node
from streaming.simulator.world import Process
from udfs.rocketmq.model import MessageQueue

POP_EVERY_MS = 1_000
"""One POP_MESSAGE a topic so often; a real one is held for up to 15 s."""
POP_BATCH = 32


class Popping(Protocol):
    """A consumer, as its pop requests know it."""

    client: Client
    consumer_group: str

    @property
    def topics(self) -> Iterable[str]:
        """What it subscribes."""
        ...


class Popper:
    """The pop requests of one member."""

    def __init__(self, consumer: Popping) -> None:
        self._consumer = consumer

    def run(self) -> Process:
        """Pop until the process ends."""
        client = self._consumer.client
        while True:
            yield from client.sleep(POP_EVERY_MS + client.world.network_ms())
            if not client.is_running:
                return
            for topic in self._consumer.topics:
                route = client.routes.get(topic)
                if route is not None and route.broker_ids:
                    self._pop(topic, client.world.random.choice(list(route.broker_ids)))

    def _pop(self, topic: str, broker_name: str) -> None:
        """POP_MESSAGE at one broker: the first queue that has messages for the group gives them."""
        client, group = self._consumer.client, self._consumer.consumer_group
        node = client.find_node(broker_name)
        route = client.routes[topic]
        for mq in route.mq_all:
            if mq.broker_name == broker_name and node is not None:
                max_offset = client.cluster.store.queue(mq).max_offset
                offset = node.offsets.query_offset(group, mq)
                if offset < 0:
                    node.offsets.commit_offset(group, mq, max_offset)
                elif offset < max_offset:
                    self._say(node, mq, offset, max_offset)
                    node.offsets.commit_offset(group, mq, min(max_offset, offset + POP_BATCH))
                    return

    def _say(self, node: Node, mq: MessageQueue, offset: int, max_offset: int) -> None:
        client = self._consumer.client
        client.world.say(
            PULLS,
            {
                "cluster": client.world.cluster,
                "broker_name": mq.broker_name,
                "broker_id": node.broker_id,
                "topic": mq.topic,
                "queue_id": mq.queue_id,
                "consumer_group": self._consumer.consumer_group,
                "client_addr": client.connections[node].client_addr,
                "client_id": client.client_id,
                "pull_offset": offset,
                "commit_offset": offset,
                "max_offset": max_offset,
                "pull_status": "FOUND",
                "event_time_ms": client.world.now_ms,
            },
        )
