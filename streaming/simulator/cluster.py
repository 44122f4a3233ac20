"""The modelled cluster's servers: NameServer, brokers and their messages, and whom to tell when something changed."""

from collections.abc import Callable, Iterator

from streaming.simulator.broker import Broker
from streaming.simulator.message_store import MessageStore
from streaming.simulator.name_server import NameServer
from streaming.simulator.node import Node
from streaming.simulator.scenario import Scenario
from streaming.simulator.world import World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import LocalFileOffsetStore
from udfs.rocketmq.route import PERM_READ, PERM_WRITE
from udfs.rocketmq.version import ClientVersion


class Cluster:
    """`on_change(consumer_group)` is called when who consumes what may have changed; None for any group."""

    def __init__(self, world: World, scenario: Scenario, on_change: Callable[[str | None], None]) -> None:
        self.world = world
        self.store = MessageStore(world.random, {topic.topic: topic.tags for topic in scenario.topics})
        self.on_change = on_change
        names = tuple(broker.broker_name for broker in scenario.brokers)
        self.name_server = NameServer(world, names, scenario.topics, self._on_route_changed)
        self.brokers: dict[str, Broker] = {}
        for broker in scenario.brokers:
            self.brokers[broker.broker_name] = Broker(world, broker, self.name_server, self.store, on_change)
        self.name_server.start()
        for topic in self.name_server.table:
            for mq, _ in self.queues(topic):
                self.store.queue(mq)
        self._files: dict[tuple[str, str, str], LocalFileOffsetStore] = {}

    def node(self, broker_name: str, broker_ids: tuple[int, ...]) -> Node:
        """Who of a broker's nodes a client asks that knows these: the master, or without one the first slave."""
        return self.brokers[broker_name].nodes[min(broker_ids)]

    def queues(self, topic: str) -> Iterator[tuple[MessageQueue, bool]]:
        """(queue, whether consumers may read it) for every queue that may be read or written, its broker up or down."""
        for broker_name, data in self.name_server.table[topic].items():
            read = data.read_queue_nums if data.perm & PERM_READ else 0
            write = data.write_queue_nums if data.perm & PERM_WRITE else 0
            for queue_id in range(max(read, write)):
                yield MessageQueue(topic, broker_name, queue_id), queue_id < read

    def burst(self, topic: str, messages: int) -> None:
        """Store messages, spread over the queues of the topic that producers may write."""
        writable = [
            MessageQueue(topic, name, queue_id)
            for name, data in self.name_server.table[topic].items()
            for queue_id in range(data.write_queue_nums if data.perm & PERM_WRITE else 0)
        ]
        for mq in writable:
            self.store.queue(mq).append(messages // len(writable))

    def recreate_topic(self, topic: str) -> None:
        """Delete the topic and create it again: brokers forget its messages and the groups' commits."""
        for broker in self.brokers.values():
            for queue in self.store.of_broker(broker.broker_name):
                if queue.mq.topic == topic:
                    queue.max_offset = 0
                    queue.release()
            for node in broker.nodes.values():
                for offsets in node.offsets.offset_table.values():
                    for mq in [mq for mq in offsets if mq.topic == topic]:
                        del offsets[mq]

    def local_offsets(
        self, host: str, client_id: str, consumer_group: str, client_version: ClientVersion
    ) -> LocalFileOffsetStore:
        """A broadcasting client's offsets: its file outlives the process."""
        place = (host, client_id, consumer_group)
        if place not in self._files:
            self._files[place] = LocalFileOffsetStore(client_version)
        return self._files[place]

    def _on_route_changed(self) -> None:
        for broker in self.brokers.values():
            broker.on_route_changed()
        self.on_change(None)
