"""The servers of a simulated cluster: NameServer, brokers and their messages."""

from collections.abc import Callable, Iterator

from streaming.simulator.broker import Broker, MessageStore, Node
from streaming.simulator.name_server import NameServer
from streaming.simulator.scenario import Scenario
from streaming.simulator.world import World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import LocalFileOffsetStore
from udfs.rocketmq.route import PERM_READ, PERM_WRITE
from udfs.rocketmq.version import ClientVersion


class Cluster:
    """`on_change(consumer_group)` is called when consumption of a group (None: any) may have changed."""

    def __init__(self, world: World, scenario: Scenario, on_change: Callable[[str | None], None]) -> None:
        self.world = world
        self.store = MessageStore(world.random, {topic.topic: topic.tags for topic in scenario.topics})
        self.on_change = on_change
        names = tuple(broker.broker_name for broker in scenario.brokers)
        self.name_server = NameServer(world, names, scenario.topics, self._on_route_changed)
        self.brokers = {
            broker.broker_name: Broker(world, broker, self.name_server, self.store, on_change)
            for broker in scenario.brokers
        }
        self.name_server.start()
        for topic in self.name_server.table:
            for mq, _ in self.queues(topic):
                self.store.queue(mq)
        self._files: dict[tuple[str, str, str], LocalFileOffsetStore] = {}

    def node(self, broker_name: str, broker_ids: tuple[int, ...]) -> Node:
        """Return the node that a client with these ids asks: the master, else the first slave."""
        return self.brokers[broker_name].nodes[min(broker_ids)]

    def queues(self, topic: str) -> Iterator[tuple[MessageQueue, bool]]:
        """Yield (queue, is_readable) for every readable or writable queue, its broker up or down."""
        for broker_name, data in self.name_server.table[topic].items():
            read = data.read_queue_nums if data.perm & PERM_READ else 0
            write = data.write_queue_nums if data.perm & PERM_WRITE else 0
            for queue_id in range(max(read, write)):
                yield MessageQueue(topic, broker_name, queue_id), queue_id < read

    def burst(self, topic: str, messages: int) -> None:
        """Store messages, spread over the topic's writable queues."""
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
        """Return a broadcasting client's offset file, which outlives the process."""
        return self._files.setdefault((host, client_id, consumer_group), LocalFileOffsetStore(client_version))

    def _on_route_changed(self) -> None:
        for broker in self.brokers.values():
            broker.on_route_changed()
        self.on_change(None)
