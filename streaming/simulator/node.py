"""One broker process, master or slave, with lists, locks and offsets of its own, never merged with another's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from schemas.events import HEARTBEATS
from streaming.simulator.network import BrokerOfNodes, Endpoint
from streaming.simulator.world import Event, Process
from udfs.rocketmq.consumer_manager import SCAN_MS, ClientChannelInfo, ConsumerManager, SubscriptionData
from udfs.rocketmq.offset_store import FLUSH_CONSUMER_OFFSET_MS, ConsumerOffsetManager
from udfs.rocketmq.queue_lock import RebalanceLockManager


@dataclass(eq=False, slots=True)
class Channel:
    """One TCP connection of a client to a node. A broker's lists hold channels, not ClientIds."""

    client: Endpoint
    client_addr: str
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Beat:
    """ConsumerData of a heartbeat, as the broker reads it."""

    consumer_group: str
    consume_type: str
    message_model: str
    subscriptions: tuple[SubscriptionData, ...]


def wants(sub_string: str, tag: str) -> bool:
    """Whether a tag expression lets a message of this tag pass."""
    return sub_string == "*" or tag in (each.strip() for each in sub_string.split("||"))


class Node:
    """The master (broker_id 0) or a slave of a broker. `told` are the heartbeats of the channels it lists."""

    def __init__(self, broker: BrokerOfNodes, broker_id: int) -> None:
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

    def heart_beat(self, channel: Channel, beats: Iterable[Beat], event: Event, *, without_sub: bool) -> bool:
        """HEART_BEAT: whether it changed a group, of which the group's clients are told."""
        self.reported[channel] = event
        if self.broker.asked_node is self:
            self._world.say(HEARTBEATS, event)
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

    def unregister(self, channel: Channel, consumer_groups: Iterable[str]) -> None:
        """UNREGISTER_CLIENT, after which the client closes the channel."""
        self._say_closed(channel)
        for consumer_group in consumer_groups:
            if self.consumers.unregister_consumer(consumer_group, channel):
                self._notify(consumer_group)

    def close(self, channel: Channel) -> None:
        """The other end closed the channel."""
        self._say_closed(channel)
        for consumer_group in self.consumers.do_channel_close(channel):
            self._notify(consumer_group)

    def channels(self, consumer_group: str) -> list[Channel]:
        """The group's channels, sorted by ClientId as every client sorts them."""
        info = self.consumers.consumer_table.get(consumer_group)
        listed = [cast(Channel, channel) for channel in info.channels] if info else []
        return sorted(listed, key=lambda channel: channel.client.client_id)

    def has_subscription(self, consumer_group: str, topic: str) -> bool:
        """Whether the group's last heartbeat left the topic in its subscriptions; else its pulls are refused."""
        info = self.consumers.consumer_table.get(consumer_group)
        return info is not None and topic in info.subscriptions

    def gives(self, consumer_group: str, topic: str, tag: str) -> bool:
        """Whether messages of the tag pass the expression that the group's newest heartbeat left here."""
        info = self.consumers.consumer_table.get(consumer_group)
        data = info.subscriptions.get(topic) if info else None
        return data is None or wants(data.sub_string, tag)

    def shut_down(self) -> None:
        """Stop cleanly: offsets are written down, channels closed, the NameServer told."""
        self.offsets.persist()
        self._go_down()
        self.say_leaving()
        self.broker.unregister(self.broker_id)

    def crash(self) -> None:
        """The process dies. Its system closes the connections, so clients and NameServer know at once."""
        self._go_down()
        self.broker.unregister(self.broker_id)

    def lose(self) -> None:
        """The host is lost, and nobody is told."""
        self.is_lost = True
        self._go_down()

    def start(self) -> None:
        """Come up with what is written down, and nobody registered."""
        self.is_up, self.is_lost = True, False
        self.consumers, self.locks = ConsumerManager(), RebalanceLockManager()
        self.offsets.load()
        self.say_leaving()
        self.broker.register(self.broker_id)

    def say_leaving(self) -> None:
        """Whom it listed when it was last asked, and lists no more."""
        reported, self.reported = self.reported, {}
        if self.broker.asked_node is self:
            for event in reported.values():
                self._world.say(HEARTBEATS, {**event, "leaving": True, "event_time_ms": self._world.now_ms})

    def say_listed(self) -> None:
        """Whom it lists, to somebody who has asked another node before."""
        for event in self.reported.values():
            self._world.say(HEARTBEATS, {**event, "event_time_ms": self._world.now_ms})

    def _go_down(self) -> None:
        self.is_up = False
        for channel in self.reported:
            channel.is_open = False
        self.broker.on_node_changed()

    def _say_closed(self, channel: Channel) -> None:
        channel.is_open = False
        event = self.reported.pop(channel, None)
        if event is not None and self.broker.asked_node is self:
            self._world.say(HEARTBEATS, {**event, "leaving": True, "event_time_ms": self._world.now_ms})

    def _notify(self, consumer_group: str) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to every channel of the group."""
        self.broker.on_change(consumer_group)
        for channel in self.consumers.channels_to_notify(consumer_group):
            notice = _Notice(self, cast(Channel, channel), consumer_group)
            self._world.later(self._world.network_ms(), notice)

    def _scanning(self) -> Process:
        """ConsumerManager.scanNotActiveChannel. An expired channel is closed; nothing is said about it."""
        yield self._world.env.timeout(self._world.random.randrange(SCAN_MS))
        while True:
            yield self._world.env.timeout(SCAN_MS)
            if not self.is_up:
                continue
            for consumer_group, expired in self.consumers.scan_not_active_channel(self._world.now_ms):
                channel = cast(Channel, expired)
                channel.is_open = False
                self.reported.pop(channel, None)
                self.broker.on_change(consumer_group)

    def _persisting(self) -> Process:
        """ConsumerOffsetManager.persist, which a slave does by copying its master's offsets."""
        every_ms = self.broker.slave_sync_ms if self.broker_id else FLUSH_CONSUMER_OFFSET_MS
        yield self._world.env.timeout(self._world.random.randrange(every_ms))
        while True:
            if self.is_up and not self.broker_id:
                self.offsets.persist()
            elif self.is_up and self.broker.nodes[0].is_up:
                self.offsets.sync_from(self.broker.nodes[0].offsets)
            yield self._world.env.timeout(every_ms)


class _Notice:
    """A NOTIFY_CONSUMER_IDS_CHANGED on its way."""

    __slots__ = ("_channel", "_consumer_group", "_node")

    def __init__(self, node: Node, channel: Channel, consumer_group: str) -> None:
        self._node, self._channel, self._consumer_group = node, channel, consumer_group

    def __call__(self) -> None:
        if self._channel.is_open and self._channel.client.reaches(self._node):
            self._channel.client.on_members_changed(self._consumer_group)
