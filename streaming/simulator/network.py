"""What the ends of a connection know of each other: a node of its clients and its broker, nobody of who holds them."""

from collections.abc import Callable
from typing import Any, Protocol

from streaming.simulator.world import Event, World
from udfs.rocketmq.slave_read import SlaveReadConfig


class Endpoint(Protocol):
    """A client, as a node knows it, and whoever looks at the node's lists. `consumers` are those of its process."""

    client_id: str
    is_leaving: bool
    consumers: list[Any]

    def reaches(self, node: Any) -> bool:
        """Whether a request to the node is answered."""
        ...

    def on_members_changed(self, consumer_group: str) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED came."""
        ...

    def beat_event(self, broker_name: str, channel: Any, consumers: list[dict[str, Any]]) -> Event:
        """A heartbeat of now over this channel, as its broker tells it."""
        ...


class BrokerOfNodes(Protocol):
    """A broker, as its nodes know it."""

    world: World
    broker_name: str
    slave_sync_ms: int
    slave_read_config: SlaveReadConfig
    asked_node: Any
    nodes: Any
    on_change: Callable[[str | None], None]

    def register(self, broker_id: int) -> None:
        """A node came up."""
        ...

    def unregister(self, broker_id: int) -> None:
        """A node left in a way that the NameServer notices at once."""
        ...

    def on_node_changed(self) -> None:
        """A node went down or came up."""
        ...
