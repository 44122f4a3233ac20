"""A broker: one name for a master and its slaves, how fast it stores, and what it refuses.

What is told of it is what the node knows that a collector asks: of those the NameServer lists, the lowest id.
"""

from collections.abc import Callable

from streaming.simulator import parts
from streaming.simulator.message_store import CommitLog, MessageStore
from streaming.simulator.name_server import REGISTER_MS, NameServer
from streaming.simulator.node import Node
from streaming.simulator.world import Process, World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import slave_sync_ms
from udfs.rocketmq.route import PERM_READ
from udfs.rocketmq.slave_read import SlaveReadConfig, suggest_which_broker_id
from udfs.rocketmq.version import parse_client_version

NO_PERMISSION, NO_MATCHED_MSG, REFUSED = "NO_PERMISSION", "NO_MATCHED_MSG", "REFUSED"


class Broker:
    """`error` ends every send while it is set. `consume_disabled` are groups whose consumeEnable is false."""

    def __init__(
        self,
        world: World,
        of: parts.Broker,
        name_server: NameServer,
        store: MessageStore,
        on_change: Callable[[str | None], None],
    ) -> None:
        self.world = world
        self.broker_name = of.broker_name
        self.store = store
        self.commit_log = CommitLog(of)
        self.on_change = on_change
        self.error: str | None = None
        self.is_memory_pressed = False
        self.is_whole = True
        self.consume_disabled: set[str] = set()
        self.slave_read_config = SlaveReadConfig(of.slave_read_enable)
        self._version = parse_client_version(of.broker_version)
        self.slave_sync_ms = slave_sync_ms(self._version)
        self._name_server = name_server
        self.nodes = {broker_id: Node(self, broker_id) for broker_id in range(of.slaves + 1)}
        self.asked_node = self.nodes[0]
        for broker_id in self.nodes:
            name_server.register(self.broker_name, broker_id)
        world.env.process(self._registering())

    @property
    def master(self) -> Node:
        return self.nodes[0]

    @property
    def answers(self) -> bool:
        """Whether a collector that asks it is answered."""
        return self.asked_node.is_up

    def has_slave(self) -> bool:
        """Whether a slave is up."""
        return any(node.is_up for broker_id, node in self.nodes.items() if broker_id)

    def serving_node(self) -> Node | None:
        """Who serves pulls of clients that know the newest route; None: nobody."""
        node = self.asked_node
        is_allowed = node.broker_id == 0 or self.slave_read_config.slave_read_enable
        return node if node.is_up and is_allowed else None

    def set_memory_pressed(self, is_pressed: bool) -> None:
        """Its backlog is, or is no more, too long for its memory."""
        self.is_memory_pressed = is_pressed
        self.on_node_changed()

    def suggest_broker_id(self, node: Node) -> int:
        """What a pull's answer suggests for the next one."""
        return suggest_which_broker_id(
            self.is_memory_pressed,
            self.slave_read_config,
            asked_broker_id=node.broker_id,
            has_master=self.master.is_up,
            broker_version=self._version,
        )

    def refusal(self, node: Node, consumer_group: str, mq: MessageQueue, *, posts_subscription: bool) -> str | None:
        """Why a pull is refused: NO_PERMISSION, or REFUSED for what no pull's status tells; None: it is served."""
        if consumer_group in self.consume_disabled:
            return NO_PERMISSION
        data = self._name_server.table[mq.topic].get(self.broker_name)
        if data is None:
            return REFUSED  # TOPIC_NOT_EXIST
        if not data.perm & PERM_READ:
            return NO_PERMISSION
        if mq.queue_id >= data.read_queue_nums:
            return REFUSED  # INVALID_PARAMETER
        if posts_subscription or node.has_subscription(consumer_group, mq.topic):
            return None
        return REFUSED  # SUBSCRIPTION_NOT_EXIST

    def register(self, broker_id: int) -> None:
        """A node came up."""
        self._name_server.register(self.broker_name, broker_id)
        self.on_node_changed()

    def unregister(self, broker_id: int) -> None:
        """A node left in a way that the NameServer notices at once."""
        self._name_server.unregister(self.broker_name, broker_id)

    def on_node_changed(self) -> None:
        """A node went down or came up: pulls it held are answered by nobody."""
        self.is_whole = not self.is_memory_pressed and all(node.is_up for node in self.nodes.values())
        for queue in self.store.of_broker(self.broker_name):
            queue.release()
        self.on_route_changed()
        self.on_change(None)

    def on_route_changed(self) -> None:
        """The NameServer lists others of its nodes: another may be the one that is asked."""
        listed = self._name_server.broker_ids(self.broker_name)
        asked = self.nodes[listed[0]] if listed else self.asked_node
        if asked is not self.asked_node:
            if asked.is_up:
                self.asked_node.say_leaving()
            self.asked_node = asked
            if asked.is_up:
                asked.say_listed()
            self.on_change(None)

    def _registering(self) -> Process:
        while True:
            yield self.world.env.timeout(REGISTER_MS)
            for broker_id, node in self.nodes.items():
                if node.is_up:
                    self._name_server.register(self.broker_name, broker_id)
