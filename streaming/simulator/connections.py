"""A client's channels, one a node, and the brokers it cannot reach."""

from collections.abc import Callable, Iterable

from streaming.simulator.network import Endpoint
from streaming.simulator.node import Channel, Node
from streaming.simulator.world import World

_EPHEMERAL_PORTS = range(32_768, 61_000)


class Connections:
    """`cut` are brokers between whom and the client nothing passes. `on_open(node)` is called for a new channel."""

    def __init__(self, client: Endpoint, world: World, host: str, on_open: Callable[[Node, Channel], object]) -> None:
        self.cut: set[str] = set()
        self._client = client
        self._world, self._host = world, host
        self._on_open = on_open
        self._channels: dict[Node, Channel] = {}

    def __getitem__(self, node: Node) -> Channel:
        """The channel to a node, opened when there is none."""
        channel = self._channels.get(node)
        if channel is None or not channel.is_open:
            port = self._world.random.choice(_EPHEMERAL_PORTS)
            channel = self._channels[node] = Channel(self._client, f"{self._host}:{port}")
            self._on_open(node, channel)
        return channel

    def reaches(self, node: Node) -> bool:
        """Whether a request to the node is answered."""
        return node.is_up and node.broker.broker_name not in self.cut

    def has(self, node: Node, channel: Channel) -> bool:
        """Whether the channel is still the one to this node."""
        return self._channels.get(node) is channel

    def open(self) -> list[tuple[Node, Channel]]:
        """The channels over which something can be said."""
        return [(node, one) for node, one in self._channels.items() if one.is_open and self.reaches(node)]

    def replace(self) -> None:
        """Go on over new channels; the brokers are not told that the old ones are dead."""
        self._channels.clear()

    def mend(self, broker_names: Iterable[str]) -> None:
        """The network is back. The client has given up its channels meanwhile, and now the brokers hear of it."""
        self.cut -= set(broker_names)
        for node, channel in list(self._channels.items()):
            if node.broker.broker_name in broker_names:
                del self._channels[node]
                if channel.is_open and node.is_up:
                    node.close(channel)
