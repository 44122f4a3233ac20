"""The servers of a simulated cluster: brokers, each a master and slaves with client lists, locks and offsets.

Events about a broker show the state of one node: of those that the NameServer lists, the one with the lowest id.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

from schemas.events import HEARTBEATS
from streaming.simulator import scenario as parts
from streaming.simulator.consumer_manager import (
    SCAN_MS,
    ClientChannelInfo,
    ConsumerManager,
    RebalanceLockManager,
    SubscriptionData,
)
from streaming.simulator.name_server import REGISTER_MS, NameServer
from streaming.simulator.world import Alarm, Event, Process, World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import (
    FLUSH_CONSUMER_OFFSET_MS,
    ConsumerOffsetManager,
    LocalFileOffsetStore,
    slave_sync_ms,
)
from udfs.rocketmq.route import PERM_READ, PERM_WRITE
from udfs.rocketmq.version import ClientVersion, parse_client_version

MASTER_ID = 0

SYNC_FLUSH_TIMEOUT_MS = 5_000
"""MessageStoreConfig.syncFlushTimeout; replication's too up to 4.9.2."""

SLAVE_TIMEOUT_MS = 3_000
"""MessageStoreConfig.slaveTimeout, from 4.9.3."""


def put_message(of: parts.Broker, append_ms: int, flush_ms: int, replica_ms: int | None) -> tuple[str, int]:
    """CommitLog.asyncPutMessage and handleDiskFlushAndHA: a stored message's send_status and latency.

    All four statuses mean that the master has the message; none isolates the broker.
    `flush_ms`: how long forcing it to disk takes. `replica_ms`: how long until a slave has it, None without a slave.
    Flush and replication run side by side from 4.7.0, one after the other before; of two failures replication's is
    reported. A SYNC_MASTER without a slave answers SLAVE_NOT_AVAILABLE at once up to 4.9.8. From 5.0 it waits for no
    slave, because inSyncReplicas is 1 by default.
    """
    broker_version = parse_client_version(of.broker_version)
    status, flush_wait_ms, replica_wait_ms = "SEND_OK", 0, 0
    if of.flush_disk_type == "SYNC_FLUSH":
        flush_wait_ms = min(flush_ms, SYNC_FLUSH_TIMEOUT_MS)
        status = "SEND_OK" if flush_ms <= SYNC_FLUSH_TIMEOUT_MS else "FLUSH_DISK_TIMEOUT"
    if of.broker_role == "SYNC_MASTER" and broker_version < (5, 0, 0):
        timeout_ms = SLAVE_TIMEOUT_MS if broker_version >= (4, 9, 3) else SYNC_FLUSH_TIMEOUT_MS
        if replica_ms is None:
            status = "SLAVE_NOT_AVAILABLE"
        else:
            replica_wait_ms = min(replica_ms, timeout_ms)
            status = "FLUSH_SLAVE_TIMEOUT" if replica_ms > timeout_ms else status
    is_parallel = broker_version >= (4, 7, 0)
    wait_ms = max(flush_wait_ms, replica_wait_ms) if is_parallel else flush_wait_ms + replica_wait_ms
    return status, append_ms + wait_ms


GROUP_COMMIT_MS = 10
"""Period in which GroupCommitService takes up flush requests."""
NO_PERMISSION, NO_MATCHED_MSG, REFUSED = "NO_PERMISSION", "NO_MATCHED_MSG", "REFUSED"


@dataclass(eq=False, slots=True)
class Queue:
    """A queue's end, the tag of its messages, and the pull requests its broker holds until one comes."""

    mq: MessageQueue
    max_offset: int
    tag: str = ""
    held: list[Alarm] = field(default_factory=list)

    def append(self, messages: int = 1) -> None:
        self.max_offset += messages
        self.release()

    def release(self) -> None:
        held, self.held = self.held, []
        for alarm in held:
            alarm.ring()


class MessageStore:
    """All queues by MessageQueue. Queues of a topic that shrank keep their messages."""

    def __init__(self, random: Random, tags: Mapping[str, Sequence[str]]) -> None:
        """`tags` of a topic are those of its messages, queue by queue in turn."""
        self._random, self._tags = random, tags
        self.queues: dict[MessageQueue, Queue] = {}

    def queue(self, mq: MessageQueue) -> Queue:
        """Return the queue. A new one starts with a random history."""
        queue = self.queues.get(mq)
        if queue is None:
            tags = self._tags.get(mq.topic, ())
            tag = tags[mq.queue_id % len(tags)] if tags else ""
            queue = self.queues[mq] = Queue(mq, self._random.randrange(1_000, 1_000_000), tag)
        return queue

    def of_broker(self, broker_name: str) -> Iterator[Queue]:
        return (queue for mq, queue in self.queues.items() if mq.broker_name == broker_name)


@dataclass(eq=False, slots=True)
class Channel:
    """One TCP connection of a client to a node. A broker's lists hold channels, not ClientIds."""

    client: Any  # a Client, which knows its channels
    client_addr: str
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Beat:
    """ConsumerData of a heartbeat, as the broker parses it."""

    consumer_group: str
    consume_type: str
    message_model: str
    subscriptions: tuple[SubscriptionData, ...]


def wants(sub_string: str, tag: str) -> bool:
    return sub_string == "*" or tag in (each.strip() for each in sub_string.split("||"))


class Broker:
    """A broker group. `error` ends every send; groups in `consume_disabled` have consumeEnable = false.

    `extra_latency_ms` models a full disk or page cache.
    """

    def __init__(self, world: World, of: parts.Broker, name_server: NameServer, store: MessageStore) -> None:
        self.world = world
        self.broker_name = of.broker_name
        self.store = store
        self.extra_latency_ms = 0
        self._of = of
        self.error: str | None = None
        self.is_memory_pressed = False
        self.is_intact = True
        self.consume_disabled: set[str] = set()
        self.slave_read_enable = of.slave_read_enable
        self.slave_sync_ms = slave_sync_ms(parse_client_version(of.broker_version))
        self.name_server = name_server
        self.nodes = {broker_id: Node(self, broker_id) for broker_id in range(of.slaves + 1)}
        self.asked_node = self.nodes[0]
        for broker_id in self.nodes:
            name_server.register(self.broker_name, broker_id)
        world.env.process(self._registering())

    def put(self) -> tuple[str, int]:
        """Store a message: the send_status of the answer, and its delay after the request's arrival."""
        random = self.world.random
        append_ms = 1 + int(random.expovariate(0.25))
        if self.extra_latency_ms:
            append_ms += int(self.extra_latency_ms * (0.8 + 0.4 * random.random()))
        if (self._of.flush_disk_type, self._of.broker_role) == ("ASYNC_FLUSH", "ASYNC_MASTER"):
            return "SEND_OK", append_ms
        flush_ms = int(random.random() * GROUP_COMMIT_MS + random.expovariate(0.2))
        has_slave = any(node.is_up for broker_id, node in self.nodes.items() if broker_id)
        replica_ms = 1 + int(random.expovariate(0.5)) if has_slave else None
        return put_message(self._of, append_ms, flush_ms, replica_ms)

    def set_memory_pressed(self, is_pressed: bool) -> None:
        """Set whether its backlog exceeds its memory."""
        self.is_memory_pressed = is_pressed
        self.on_node_changed()

    @property
    def suggested_broker_id(self) -> int:
        """The broker id that a pull's answer suggests for the next pull (PullMessageProcessor).

        A pull further behind the end of the commit log than 40 % of the machine's memory reads from disk; with
        slaveReadEnable the answer then suggests SubscriptionGroupConfig.whichBrokerWhenConsumeSlowly, 1.
        """
        return 1 if self.is_memory_pressed and self.slave_read_enable else MASTER_ID

    def refusal(self, node: "Node", consumer_group: str, mq: MessageQueue, *, has_assigned: bool) -> str | None:
        """Return why a pull is refused: NO_PERMISSION, or REFUSED for other codes; None: it is served."""
        if consumer_group in self.consume_disabled:
            return NO_PERMISSION
        data = self.name_server.table[mq.topic].get(self.broker_name)
        if data is None:
            return REFUSED  # TOPIC_NOT_EXIST
        if not data.perm & PERM_READ:
            return NO_PERMISSION
        if mq.queue_id >= data.read_queue_nums:
            return REFUSED  # INVALID_PARAMETER
        is_subscribed = has_assigned or node.has_subscription(consumer_group, mq.topic)
        return None if is_subscribed else REFUSED  # SUBSCRIPTION_NOT_EXIST

    def on_node_changed(self) -> None:
        """Release held pulls after a node went down or came up: they get no answer."""
        self.is_intact = not self.is_memory_pressed and all(node.is_up for node in self.nodes.values())
        for queue in self.store.of_broker(self.broker_name):
            queue.release()
        self.on_route_changed()
        self.world.on_change(None)

    def on_route_changed(self) -> None:
        """Choose the node that is asked, after the NameServer's list of nodes changed."""
        listed = self.name_server.broker_ids(self.broker_name)
        asked = self.nodes[listed[0]] if listed else self.asked_node
        if asked is not self.asked_node:
            if asked.is_up:
                self.asked_node.emit_leaving()
            self.asked_node = asked
            if asked.is_up:
                asked.emit(asked.reported.values())
            self.world.on_change(None)

    def _registering(self) -> Process:
        while True:
            yield self.world.env.timeout(REGISTER_MS)
            for broker_id, node in self.nodes.items():
                if node.is_up:
                    self.name_server.register(self.broker_name, broker_id)


class Node:
    """The master (broker_id 0) or a slave of a broker. `reported` are the heartbeats of its channels."""

    def __init__(self, broker: Broker, broker_id: int) -> None:
        self.broker = broker
        self.broker_id = broker_id
        self.is_up = True
        self.is_lost = False
        self.consumers = ConsumerManager()
        self.locks = RebalanceLockManager()
        self.offsets = ConsumerOffsetManager()
        self.reported: dict[Channel, Event] = {}
        self._world = broker.world
        self._world.env.process(self._scanning())
        self._world.env.process(self._persisting())

    @property
    def may_pull(self) -> bool:
        """PullMessageProcessor.rejectRequest: a slave without slaveReadEnable answers every pull SYSTEM_BUSY."""
        return self.broker_id == MASTER_ID or self.broker.slave_read_enable

    def heart_beat(self, channel: Channel, beats: Iterable[Beat], event: Event, *, without_sub: bool) -> bool:
        """Handle HEART_BEAT. Return whether it changed a group; then the group's clients are notified."""
        self.reported[channel] = event
        if self.broker.asked_node is self:
            self._world.emit(HEARTBEATS, event)
        changed = False
        for beat in beats:
            if self.consumers.register_consumer(
                beat.consumer_group,
                ClientChannelInfo(channel, channel.client.client_id),
                beat.subscriptions,
                self._world.now_ms,
                consume_type=beat.consume_type,
                message_model=beat.message_model,
                without_sub=without_sub,
            ):
                changed = True
                self._notify(beat.consumer_group)
        return changed

    def close(self, channel: Channel, consumer_groups: Iterable[str] | None = None) -> None:
        """Handle a channel that the other end closed; with `consumer_groups`, UNREGISTER_CLIENT of these."""
        channel.is_open = False
        event = self.reported.pop(channel, None)
        if event is not None:
            self.emit([{**event, "leaving": True}])
        if consumer_groups is None:
            left = self.consumers.do_channel_close(channel)
        else:
            left = [name for name in consumer_groups if self.consumers.unregister_consumer(name, channel)]
        for consumer_group in left:
            self._notify(consumer_group)

    def channels(self, consumer_group: str) -> list[Channel]:
        """Return the group's channels, sorted by ClientId as every client sorts them."""
        info = self.consumers.consumer_table.get(consumer_group)
        listed = [cast(Channel, channel) for channel in info.channels] if info else []
        return sorted(listed, key=lambda channel: channel.client.client_id)

    def has_subscription(self, consumer_group: str, topic: str) -> bool:
        """Return whether the group's last heartbeat here subscribed the topic; otherwise its pulls are refused."""
        info = self.consumers.consumer_table.get(consumer_group)
        return info is not None and topic in info.subscriptions

    def gives(self, consumer_group: str, topic: str, tag: str) -> bool:
        """Return whether messages with this tag match the group's newest expression here."""
        info = self.consumers.consumer_table.get(consumer_group)
        data = info.subscriptions.get(topic) if info else None
        return data is None or wants(data.sub_string, tag)

    def shut_down(self) -> None:
        """Stop cleanly: persist offsets, close channels, unregister."""
        self.offsets.persist()
        self._go_down()
        self.emit_leaving()
        self.broker.name_server.unregister(self.broker.broker_name, self.broker_id)

    def crash(self) -> None:
        """End the process. Its system closes the connections, so clients and NameServer notice at once."""
        self._go_down()
        self.broker.name_server.unregister(self.broker.broker_name, self.broker_id)

    def lose(self) -> None:
        """Lose the host. No client or NameServer notices at once."""
        self.is_lost = True
        self._go_down()

    def start(self) -> None:
        """Start with the persisted offsets and no registered client."""
        self.is_up, self.is_lost = True, False
        self.consumers, self.locks = ConsumerManager(), RebalanceLockManager()
        self.offsets.load()
        self.emit_leaving()
        self.broker.name_server.register(self.broker.broker_name, self.broker_id)
        self.broker.on_node_changed()

    def emit_leaving(self) -> None:
        """Emit that every channel it listed has left."""
        reported, self.reported = self.reported, {}
        self.emit({**event, "leaving": True} for event in reported.values())

    def emit(self, heartbeats: Iterable[Event]) -> None:
        """Emit these heartbeats now, if this is the node that is asked."""
        if self.broker.asked_node is self:
            for event in heartbeats:
                self._world.emit(HEARTBEATS, {**event, "event_time_ms": self._world.now_ms})

    def _go_down(self) -> None:
        self.is_up = False
        for channel in self.reported:
            channel.is_open = False
        self.broker.on_node_changed()

    def _notify(self, consumer_group: str) -> None:
        """Send NOTIFY_CONSUMER_IDS_CHANGED to every channel of the group."""
        self._world.on_change(consumer_group)
        for channel in self.consumers.channels_to_notify(consumer_group):
            notice = partial(self._on_notice, cast(Channel, channel), consumer_group)
            self._world.later(self._world.network_ms(), notice)

    def _on_notice(self, channel: Channel, consumer_group: str) -> None:
        if channel.is_open and channel.client.reaches(self):
            channel.client.on_members_changed(consumer_group)

    def _scanning(self) -> Process:
        """Run ConsumerManager.scanNotActiveChannel. An expired channel is closed without an event."""
        yield self._world.env.timeout(self._world.random.randrange(SCAN_MS))
        while True:
            yield self._world.env.timeout(SCAN_MS)
            if not self.is_up:
                continue
            for consumer_group, expired in self.consumers.scan_not_active_channel(self._world.now_ms):
                channel = cast(Channel, expired)
                channel.is_open = False
                self.reported.pop(channel, None)
                self._world.on_change(consumer_group)

    def _persisting(self) -> Process:
        """Run ConsumerOffsetManager.persist. A slave copies its master's offsets instead."""
        every_ms = self.broker.slave_sync_ms if self.broker_id else FLUSH_CONSUMER_OFFSET_MS
        yield self._world.env.timeout(self._world.random.randrange(every_ms))
        while True:
            if self.is_up and not self.broker_id:
                self.offsets.persist()
            elif self.is_up and self.broker.nodes[0].is_up:
                self.offsets.sync_from(self.broker.nodes[0].offsets)
            yield self._world.env.timeout(every_ms)


class Cluster:
    """The NameServer and all brokers of a scenario, and the offset files of its clients."""

    def __init__(self, world: World, scenario: parts.Scenario) -> None:
        self.world = world
        self.store = MessageStore(world.random, {topic.topic: topic.tags for topic in scenario.topics})
        names = tuple(broker.broker_name for broker in scenario.brokers)
        self.name_server = NameServer(world, names, scenario.topics, self._on_route_changed)
        self.brokers = {
            broker.broker_name: Broker(world, broker, self.name_server, self.store) for broker in scenario.brokers
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
        self.world.on_change(None)
