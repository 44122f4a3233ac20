"""The brokers' side: queues that grow, channels that come, fall silent and are expired."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.events import ROUTES
from streaming.ingest.simulator.scenario import Topic
from streaming.ingest.simulator.world import Alarm, Process, World
from udfs.model import MessageQueue

if TYPE_CHECKING:
    from streaming.ingest.simulator.client import Client

CHANNEL_EXPIRED_MS = 120_000
"""ClientManager: ConsumerManager.CHANNEL_EXPIRED_TIMEOUT."""
SCAN_MS = 10_000
"""ClientHousekeepingService scans for silent channels this often."""
ROUTE_MS = 30_000
"""A route is said again this often, changed or not."""


@dataclass(eq=False, slots=True)
class Channel:
    """One TCP connection of a client to a broker. A broker's lists hold channels, not ClientIds."""

    client: "Client"
    client_addr: str
    heard_ms: int = 0
    is_open: bool = True


@dataclass(eq=False, slots=True)
class Queue:
    """A queue's end, what each group committed, and the pull requests the broker holds until a message comes."""

    mq: MessageQueue
    max_offset: int
    committed: dict[str, int] = field(default_factory=dict)
    held: list[Alarm] = field(default_factory=list)

    def append(self) -> int:
        """One message more; returns its offset."""
        self.max_offset += 1
        if self.held:
            held, self.held = self.held, []
            for alarm in held:
                alarm.ring()
        return self.max_offset - 1


class Broker:
    """ConsumerManager of one broker: its own list of channels a group, never merged with another's."""

    def __init__(self, world: World, broker_name: str, on_change: Callable[[str], None]) -> None:
        self.broker_name = broker_name
        self.extra_latency_ms = 0
        self.error: str | None = None
        self._world = world
        self._on_change = on_change
        self._channels: dict[str, dict[Channel, None]] = {}
        world.env.process(self._scanning())

    def register(self, consumer_group: str, channel: Channel) -> None:
        """A heartbeat came. A channel not listed yet is a change, and the group's clients are told."""
        channel.heard_ms = self._world.now_ms
        channels = self._channels.setdefault(consumer_group, {})
        if channel not in channels:
            channels[channel] = None
            self._notify(consumer_group)

    def unregister(self, consumer_group: str, channel: Channel) -> None:
        """UNREGISTER_CLIENT, or the channel is gone."""
        channel.is_open = False
        channels = self._channels.get(consumer_group, {})
        if channel in channels:
            del channels[channel]
            self._notify(consumer_group)

    def channels(self, consumer_group: str) -> list[Channel]:
        """The group's channels, sorted by ClientId as every client sorts them."""
        return sorted(self._channels.get(consumer_group, {}), key=lambda channel: channel.client.client_id)

    def client_ids(self, consumer_group: str) -> list[str]:
        """GET_CONSUMER_LIST_BY_GROUP: one ClientId a channel, duplicates kept; sorted."""
        return [channel.client.client_id for channel in self.channels(consumer_group)]

    def _notify(self, consumer_group: str) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to every channel of the group."""
        self._on_change(consumer_group)
        for channel in self._channels[consumer_group]:
            self._world.later(self._world.network_ms(), channel.client.on_members_changed)

    def _scanning(self) -> Process:
        """ConsumerManager.scanNotActiveChannel. An expired channel is closed; nothing is said about it."""
        yield self._world.env.timeout(self._world.random.randrange(SCAN_MS))
        while True:
            yield self._world.env.timeout(SCAN_MS)
            for consumer_group, channels in self._channels.items():
                for channel in list(channels):
                    if self._world.now_ms - channel.heard_ms > CHANNEL_EXPIRED_MS:
                        self.unregister(consumer_group, channel)


class Routes:
    """The NameServer: each topic's queues, said at the start, on change, and every 30 s."""

    def __init__(self, world: World, broker_names: tuple[str, ...], topics: tuple[Topic, ...]) -> None:
        self._world = world
        self._broker_names = broker_names
        self._queue_nums = {topic.topic: topic.queue_nums for topic in topics}
        self.queues: dict[MessageQueue, Queue] = {}
        self.mq_all: dict[str, list[MessageQueue]] = {}
        for topic in self._queue_nums:
            self._make_queues(topic)
        world.env.process(self._saying())

    def scale(self, topic: str, queue_nums: int) -> None:
        """Give a topic another number of queues on each broker. Clients hear of it at their next route poll."""
        self._queue_nums[topic] = queue_nums
        self._make_queues(topic)
        self._say(topic)

    def _make_queues(self, topic: str) -> None:
        self.mq_all[topic] = [
            MessageQueue(topic, broker_name, queue_id)
            for broker_name in sorted(self._broker_names)
            for queue_id in range(self._queue_nums[topic])
        ]
        for mq in self.mq_all[topic]:
            if mq not in self.queues:
                self.queues[mq] = Queue(mq, self._world.random.randrange(1_000, 1_000_000))

    def _saying(self) -> Process:
        while True:
            for topic in self._queue_nums:
                self._say(topic)
            yield self._world.env.timeout(ROUTE_MS)

    def _say(self, topic: str) -> None:
        nums = self._queue_nums[topic]
        self._world.say(
            ROUTES,
            {
                "cluster": self._world.cluster,
                "topic": topic,
                "queues": [
                    {"broker_name": name, "read_queue_nums": nums, "write_queue_nums": nums, "perm": 6}
                    for name in self._broker_names
                ],
                "brokers": [{"broker_name": name, "broker_ids": [0]} for name in self._broker_names],
                "event_time_ms": self._world.now_ms,
            },
        )
