"""A client: RocketMQ's MQClientInstance with its channels, routes and timers, and the offsets of its consumers.

Its consumers and producers share one ClientId, one channel per node and one heartbeat.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from streaming.simulator import scenario as parts
from streaming.simulator.broker import Channel, Cluster, Node
from streaming.simulator.name_server import TopicRoute
from streaming.simulator.world import Event, Process, World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import NO_OFFSET, LocalFileOffsetStore, RemoteBrokerOffsetStore, compute_pull_from_where
from udfs.rocketmq.process_queue import OffsetError
from udfs.rocketmq.version import parse_client_version

HEARTBEAT_MS = 30_000
"""ClientConfig.heartbeatBrokerInterval."""
FIRST_HEARTBEAT_MS = 1_000
"""MQClientInstance.startScheduledTask: the first periodic heartbeat. Consumers also send one at their start."""
ROUTE_POLL_MS = 30_000
"""ClientConfig.pollNameServerInterval: the greatest age of a client's route."""
FIRST_ROUTE_POLL_MS = 10
BEATS_ON_CONNECT_SINCE = (5, 2, 0)
"""MQClientInstance.onChannelActive."""
EPHEMERAL_PORTS = range(32_768, 61_000)


class Client:
    """A client of every broker of its topics, except those in `cut`, with a channel to each node.

    `is_leaving`: it ended, and brokers notice.
    """

    def __init__(self, cluster: Cluster, of: parts.Consumer | parts.Producer) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.client_id = of.client_id
        self.client_version = parse_client_version(of.client_version)
        self.host = of.host
        self.is_running = True
        self.is_frozen = False
        self.is_leaving = False
        self.keeps_route = False
        self.thawed: Any = self.world.env.event()
        self.cut: set[str] = set()
        self.channels: dict[Node, Channel] = {}
        self.consumers: list[Any] = []  # of Consumer, which knows its client
        self.producer_groups: list[str] = []
        self.routes: dict[str, TopicRoute] = {}
        self.topics: set[str] = set()
        self.broker_ids: dict[str, tuple[int, ...]] = {}
        self._of = of
        self._use_heartbeat_v2 = isinstance(of, parts.Consumer) and of.use_heartbeat_v2
        self._knows_subscriptions: set[Node] = set()

    @property
    def is_live(self) -> bool:
        return self.is_running and not self.is_frozen

    def start(self) -> None:
        """MQClientInstance.start: read routes, send a heartbeat if there are consumers, start the timers."""
        for topic in sorted(self.topics):
            self.update_route(topic)
        env = self.world.env
        if self.consumers:
            env.process(self._beat())
        env.process(self._heartbeats())
        env.process(self.repeat(FIRST_ROUTE_POLL_MS, ROUTE_POLL_MS, self._poll_routes))

    def freeze(self) -> None:
        """SIGSTOP: it is silent; brokers list it until they expire its channels."""
        self.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT: everything overdue happens now."""
        if self.is_frozen:
            self.is_frozen = False
            thawed, self.thawed = self.thawed, self.world.env.event()
            thawed.succeed()

    def kill(self) -> None:
        """Lose the host: no channel is closed."""
        self.is_running = False

    def crash(self) -> None:
        """End the process; its system closes the channels."""
        self.is_running, self.is_leaving = False, True
        for node, channel in self._usable_channels():
            node.close(channel)

    def stop(self) -> None:
        """Shut down cleanly: commit, release locks, UNREGISTER_CLIENT at one broker after the other."""
        for consumer in self.consumers:
            consumer.shut_down()
        self.is_running, self.is_leaving = False, True
        self.world.env.process(self._unregister())

    def reconnect(self) -> None:
        """Replace all channels; brokers do not notice that the old ones are dead."""
        self.channels.clear()
        self.world.env.process(self._beat())

    def cut_network(self, broker_names: set[str]) -> None:
        """Cut it off from these brokers: pulls that they hold are never answered."""
        self.cut |= broker_names
        for consumer in self.consumers:
            consumer.wake(broker_names)

    def restore_network(self, broker_names: set[str]) -> None:
        """Restore the network. Brokers notice now that the client gave up its channels, unless its process ended."""
        if not self.is_running:
            return
        self.cut -= broker_names
        for node, channel in list(self.channels.items()):
            if node.broker.broker_name in broker_names:
                del self.channels[node]
                if channel.is_open and node.is_up:
                    node.close(channel)

    def on_members_changed(self, consumer_group: str) -> None:
        """Handle NOTIFY_CONSUMER_IDS_CHANGED."""
        for consumer in self.consumers:
            if consumer.consumer_group == consumer_group:
                consumer.notify()

    def reaches(self, node: Node) -> bool:
        return node.is_up and node.broker.broker_name not in self.cut

    def update_route(self, topic: str) -> TopicRoute | None:
        """Ask the NameServer. The old route is kept if the NameServer no longer has the topic."""
        self.topics.add(topic)
        route = self.cluster.name_server.routes.get(topic)
        if route is not None and route is not self.routes.get(topic):
            self.use_route(route)
        return self.routes.get(topic)

    def use_route(self, route: TopicRoute) -> None:
        """Use this route; forget brokers that no route names."""
        self.routes[route.topic] = route
        broker_ids = {name: ids for known in self.routes.values() for name, ids in known.broker_ids.items()}
        if broker_ids != self.broker_ids:
            self.broker_ids = broker_ids
            for consumer in self.consumers:
                self.world.on_change(consumer.consumer_group)

    def master(self, broker_name: str) -> Node | None:
        """findBrokerAddressInPublish: return the broker's master if the client's routes list it."""
        if 0 in self.broker_ids.get(broker_name, ()):
            return self.cluster.brokers[broker_name].nodes[0]
        return None

    def find_node(self, broker_name: str) -> Node | None:
        """findBrokerAddressInSubscribe: return the master, else a slave of the routes; None: no answer."""
        broker_ids = self.broker_ids.get(broker_name)
        node = self.cluster.node(broker_name, broker_ids) if broker_ids else None
        return node if node is not None and self.reaches(node) else None

    def find_consumer_ids(self, topic: str, consumer_group: str) -> list[str] | None:
        """MQClientInstance.findConsumerIdList: return the group's list of one random broker of the topic's route.

        None if that broker does not answer or has no such group.
        """
        route = self.routes.get(topic)
        if route is None or not route.broker_ids:
            return None
        broker_name = self.world.random.choice(list(route.broker_ids))
        node = self.cluster.node(broker_name, route.broker_ids[broker_name])
        if not self.reaches(node):
            return None
        return node.consumers.get_consumer_list_by_group(consumer_group)

    def sleep(self, delay_ms: int) -> Process:
        """Wait; a frozen client waits longer."""
        yield self.world.env.timeout(delay_ms)
        while self.is_frozen:
            yield self.thawed

    def repeat(self, first_ms: int, every_ms: int, act: Callable[[], object]) -> Process:
        """Call `act` after `first_ms`, then every `every_ms`, until the client ends."""
        delay_ms = first_ms
        while True:
            yield from self.sleep(delay_ms)
            if not self.is_running:
                return
            delay_ms = every_ms
            act()

    def beat_soon(self) -> None:
        """Send an extra heartbeat with all subscriptions, because one changed."""
        self._knows_subscriptions.clear()
        self.world.env.process(self._beat())

    def _unregister(self) -> Process:
        consumer_groups = [consumer.consumer_group for consumer in self.consumers]
        for node, channel in self._usable_channels():
            node.close(channel, consumer_groups)
            yield self.world.env.timeout(self.world.network_ms())

    def _heartbeats(self) -> Process:
        due_ms = self.world.now_ms + FIRST_HEARTBEAT_MS
        while True:
            yield from self.sleep(due_ms - self.world.now_ms)
            if not self.is_running:
                return
            yield from self._beat()
            due_ms = max(due_ms + HEARTBEAT_MS, self.world.now_ms)

    def _beat(self) -> Process:
        """Send HEART_BEAT to each node in turn; producers only to masters."""
        for broker_name, broker_ids in list(self.broker_ids.items()):
            for broker_id in broker_ids:
                if broker_id and not self.consumers:
                    continue
                yield from self.sleep(self.world.network_ms())
                if not self.is_running:
                    return
                node = self.cluster.brokers[broker_name].nodes[broker_id]
                if self.reaches(node):
                    self._beat_at(node)

    def _beat_at(self, node: Node) -> None:
        channel = self.open_channel(node)
        without_sub = node in self._knows_subscriptions
        tables = [consumer.subscriptions for consumer in self.consumers]
        datas = [table.consumer_data_without_sub if without_sub else table.consumer_data for table in tables]
        event = self.beat_event(node.broker.broker_name, channel, datas)
        if without_sub:
            event["without_sub"] = True
        is_changed = node.heart_beat(channel, [table.beat for table in tables], event, without_sub=without_sub)
        if self._use_heartbeat_v2:
            if without_sub and is_changed:
                self._knows_subscriptions.discard(node)
            else:
                self._knows_subscriptions.add(node)

    def beat_event(self, broker_name: str, channel: Channel, consumers: list[dict[str, Any]]) -> Event:
        return {
            "cluster": self.world.cluster,
            "broker_name": broker_name,
            "client_id": self.client_id,
            "client_addr": channel.client_addr,
            "language": self._of.language,
            "client_version": self._of.client_version,
            "producer_groups": self.producer_groups or ["CLIENT_INNER_PRODUCER"],
            "consumers": consumers,
            "event_time_ms": self.world.now_ms,
        }

    def open_channel(self, node: Node) -> Channel:
        """Return the channel to a node. A new one has no subscription at its broker; newer clients send a heartbeat."""
        channel = self.channels.get(node)
        if channel is None or not channel.is_open:
            port = self.world.random.choice(EPHEMERAL_PORTS)
            channel = self.channels[node] = Channel(self, f"{self.host}:{port}")
            self._knows_subscriptions.discard(node)
            if self.client_version >= BEATS_ON_CONNECT_SINCE and self.consumers:
                self.world.later(self.world.network_ms(), partial(self._on_connected, node, channel))
        return channel

    def _usable_channels(self) -> list[tuple[Node, Channel]]:
        return [(node, channel) for node, channel in self.channels.items() if channel.is_open and self.reaches(node)]

    def _on_connected(self, node: Node, channel: Channel) -> None:
        is_new = channel not in node.reported and self.channels.get(node) is channel
        if is_new and self.is_live and self.reaches(node):
            self._beat_at(node)
            for consumer in self.consumers:
                consumer.notify()

    def _poll_routes(self) -> None:
        if not self.keeps_route:
            for topic in sorted(self.topics):
                self.update_route(topic)


class Offsets:
    """The OffsetStore of one member of a group: a file of the client's, or the brokers."""

    def __init__(self, client: Client, consumer_group: str, *, is_local: bool) -> None:
        self._client = client
        self._consumer_group = consumer_group
        self._is_local = is_local
        file = client.cluster.local_offsets(client.host, client.client_id, consumer_group, client.client_version)
        file.load()
        self._store: LocalFileOffsetStore | RemoteBrokerOffsetStore = file
        if not is_local:
            self._store = RemoteBrokerOffsetStore(self._fetch, self._commit)
        self.consumed = self._store.update_offset
        self.persist = self._store.persist_all

    def to_commit(self, mq: MessageQueue) -> int:
        """Return the offset that the next pull commits, or NO_OFFSET."""
        return NO_OFFSET if self._is_local else self._store.offset_table.get(mq, NO_OFFSET)

    def compute_pull_from_where(self, mq: MessageQueue) -> int:
        """Return the first offset of a new queue. Raises OffsetError if the broker does not answer."""
        if not self._is_local:
            self._store.remove_offset(mq)
        stored_offset, max_offset = self._store.read_from_store(mq), self._client.cluster.store.queue(mq).max_offset
        return compute_pull_from_where("CONSUME_FROM_LAST_OFFSET", mq.topic, stored_offset, max_offset)

    def remove(self, mq: MessageQueue) -> None:
        """Commit a queue a last time and forget it."""
        self._store.persist(mq)
        self._store.remove_offset(mq)

    def _commit(self, mq: MessageQueue, offset: int) -> None:
        """Send UPDATE_CONSUMER_OFFSET to the master, else to a slave; lost without an answer."""
        node = self._client.find_node(mq.broker_name)
        if node is not None:
            node.offsets.commit_offset(self._consumer_group, mq, offset)

    def _fetch(self, mq: MessageQueue) -> int | None:
        """QUERY_CONSUMER_OFFSET."""
        node = self._client.find_node(mq.broker_name)
        if node is None:
            raise OffsetError(mq.broker_name)
        offset = node.offsets.query_offset(self._consumer_group, mq)
        return None if offset == NO_OFFSET else offset
