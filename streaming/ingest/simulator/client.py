"""What producers and consumers have in common (MQClientInstance): channels, heartbeats, the route they know."""

from collections.abc import Mapping
from typing import Any

from schemas.events import HEARTBEATS
from streaming.ingest.simulator.broker import Broker, Channel, Routes
from streaming.ingest.simulator.scenario import Consumer, Producer
from streaming.ingest.simulator.world import Process, World
from udfs.model import MessageQueue

HEARTBEAT_MS = 30_000
"""ClientConfig.heartbeatBrokerInterval."""
ROUTE_POLL_MS = 30_000
"""ClientConfig.pollNameServerInterval: for so long a client may work with an old route."""
_EPHEMERAL_PORTS = range(32_768, 61_000)


class Client:
    """A process that talks to every broker, over one channel each."""

    def __init__(self, world: World, brokers: Mapping[str, Broker], routes: Routes, of: Consumer | Producer) -> None:
        self.client_id = of.client_id
        self.is_running = True
        self.is_frozen = False
        self._world = world
        self._brokers = brokers
        self._routes = routes
        self._of = of
        self._thawed: Any = world.env.event()
        self._route: dict[str, list[MessageQueue]] = dict(routes.mq_all)
        self._channels: dict[str, Channel] = {}
        world.env.process(self._heartbeats())
        world.env.process(self._route_polls())

    @property
    def is_live(self) -> bool:
        return self.is_running and not self.is_frozen

    def freeze(self) -> None:
        """SIGSTOP: it says nothing; the brokers list it until they expire its channels."""
        self.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT: everything that fell due meanwhile is done now."""
        if self.is_frozen:
            self.is_frozen = False
            thawed, self._thawed = self._thawed, self._world.env.event()
            thawed.succeed()

    def kill(self) -> None:
        """The host is lost: no channel is closed."""
        self.is_running = False

    def stop(self) -> None:
        """Shut down cleanly: UNREGISTER_CLIENT at every broker."""
        self.is_running = False
        for broker_name, channel in self._channels.items():
            if channel.is_open:
                self._say_heartbeat(broker_name, channel, leaving=True)
                self._unregister(self._brokers[broker_name], channel)

    def reconnect(self) -> None:
        """Go on over new channels; the brokers are not told that the old ones are dead."""
        self._channels.clear()
        self._world.env.process(self._beat())

    def on_members_changed(self) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED came."""

    def _consumers(self) -> list[dict[str, Any]]:
        """ConsumerData of the heartbeat."""
        return []

    def _producer_groups(self) -> list[str]:
        return ["CLIENT_INNER_PRODUCER"]

    def _register(self, broker: Broker, channel: Channel) -> None:
        """The heartbeat has reached the broker."""

    def _unregister(self, broker: Broker, channel: Channel) -> None:
        """The farewell has reached the broker."""

    def _channel(self, broker_name: str) -> Channel:
        channel = self._channels.get(broker_name)
        if channel is None or not channel.is_open:
            port = self._world.random.choice(_EPHEMERAL_PORTS)
            channel = self._channels[broker_name] = Channel(self, f"{self._of.host}:{port}")
        return channel

    def _heartbeats(self) -> Process:
        due_ms = self._world.now_ms
        while self.is_running:
            yield from self._beat()
            due_ms = max(due_ms + HEARTBEAT_MS, self._world.now_ms)
            yield from self._sleep(due_ms - self._world.now_ms)

    def _beat(self) -> Process:
        """One HEART_BEAT to every broker in turn."""
        for broker_name, broker in self._brokers.items():
            yield from self._sleep(self._world.network_ms())
            if not self.is_running:
                return
            channel = self._channel(broker_name)
            self._say_heartbeat(broker_name, channel)
            self._register(broker, channel)

    def _route_polls(self) -> Process:
        while self.is_running:
            yield from self._sleep(ROUTE_POLL_MS)
            self._route = dict(self._routes.mq_all)

    def _sleep(self, delay_ms: int) -> Process:
        """Time passes, and for a frozen client more of it."""
        yield self._world.env.timeout(delay_ms)
        while self.is_frozen:
            yield self._thawed

    def _say_heartbeat(self, broker_name: str, channel: Channel, *, leaving: bool = False) -> None:
        event = {
            "cluster": self._world.cluster,
            "broker_name": broker_name,
            "client_id": self.client_id,
            "client_addr": channel.client_addr,
            "language": self._of.language,
            "client_version": self._of.client_version,
            "producer_groups": self._producer_groups(),
            "consumers": self._consumers(),
            "event_time_ms": self._world.now_ms,
        }
        if leaving:
            event["leaving"] = True
        self._world.say(HEARTBEATS, event)
