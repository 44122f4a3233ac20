"""What a client is: kind, release, group, topics and settings, as a scenario names them."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from streaming.simulator.scenario import Name

Kind = Literal[
    "push",
    "push_orderly",
    "lite_pull",
    "pull_assign",
    "pop",
    "broadcasting",
    "producer",
    "grpc_push",
    "grpc_producer",
]

GRPC_KINDS = ("grpc_push", "grpc_producer")
PRODUCER_KINDS = ("producer", "grpc_producer")

Release = Literal["4.7.1", "4.9.8", "5.5.0"]
"""Of the remoting clients; those of gRPC are of one release, GRPC."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ClientSpec:
    """What a client is. Times and rates are the client's own, `clock_skew_s` is added to its clock.

    `instance_name`    "" for RocketMQ's own, by process id; equal names and client_ip on two processes are twins
    `process`          "" for a JVM of its own; clients of one name share one
    `expression`       tags that a consumer subscribes, tags from which a producer draws one for each message
    `assign`           of pull_assign: "broker-a:0", ...; every queue of its topics without it
    `strategy`         AllocateMessageQueueStrategy.getName(), its options in `options`
    `order_by`         of a producer: how many keys it has, each of which goes to one queue; 0 sends in turn
    `fault_avoidance`  of a producer: sendLatencyFaultEnable
    `hooked`           of a producer: it tells balancewatch its send latencies (streaming/agent/BalancewatchHook.java)
    `mute`             of a remoting client: it answers no GET_CONSUMER_RUNNING_INFO
    `consume_ms`       how long its listener takes for each message
    `options`          further setters by Java property, {"pullThresholdForQueue": 10}; of strategies config_queues
                       ("broker-a:0", ...), consumer_idcs, virtual_nodes, rooms {"broker-a": "east", CLIENT_ID: "east"}
    `running`          whether it runs from the start of a play
    """

    name: Name
    kind: Kind
    group: str
    topics: tuple[str, ...]
    release: Release = "5.5.0"
    expression: str = "*"
    instance_name: str = ""
    client_ip: str = "127.0.0.1"
    strategy: str = "AVG"
    process: str = ""
    assign: tuple[str, ...] = ()
    rate_per_s: float = 5.0
    order_by: int = 0
    fault_avoidance: bool = False
    hooked: bool = False
    mute: bool = False
    consume_ms: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    clock_skew_s: float = 0.0
    running: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError for what no client can be."""
        if self.hooked and self.kind != "producer":
            raise ValueError(f"client {self.name}: only a producer is hooked, not {self.kind}")
        if self.mute and self.kind in GRPC_KINDS:
            raise ValueError(f"client {self.name}: only a remoting client is mute, not {self.kind}")
        if self.kind == "pop" and self.release != "5.5.0":
            raise ValueError(f"client {self.name}: {self.release} has no POP")

    def in_play(self, suffix: str) -> "ClientSpec":
        """Return the client with its topics and its group by their names on the cluster."""
        return replace(self, group=self.group + suffix, topics=tuple(topic + suffix for topic in self.topics))

    @property
    def is_producer(self) -> bool:
        return self.kind in PRODUCER_KINDS

    @property
    def is_grpc(self) -> bool:
        return self.kind in GRPC_KINDS
