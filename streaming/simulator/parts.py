"""The tables of a scenario file: servers, topics, groups, producers, happenings and expected findings.

Field names are RocketMQ's. A consumer also has a unique `name`, because two consumers may share a client_id.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from udfs.rocketmq.allocation import STRATEGIES

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0)]
View = Literal["model", "agents", "collector"]
"""Who monitors a simulated cluster (`Conditions`)."""


def _check_strategy(name: str) -> str:
    if name.partition("-")[0] not in STRATEGIES:
        raise ValueError(f"strategy {name!r} is not one of {', '.join(STRATEGIES)}")
    return name


Strategy = Annotated[str, AfterValidator(_check_strategy)]
"""AllocateMessageQueueStrategy.getName(): "AVG", "MACHINE_ROOM_NEARBY-AVG", ..."""


class Part(BaseModel):
    """A table of a scenario file. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Broker(Part):
    """A broker group. A file may give its name alone."""

    broker_name: Name
    broker_version: str = "5.3.3"
    slaves: int = Field(default=0, ge=0, description="their ids are 1, 2, ...")
    slave_read_enable: bool = Field(default=False, description="whether a slave may be pulled from")
    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = Field(
        default="ASYNC_FLUSH", description="SYNC_FLUSH answers a send after the disk has it: 5 to 20 ms later"
    )
    broker_role: Literal["ASYNC_MASTER", "SYNC_MASTER"] = Field(
        default="ASYNC_MASTER",
        description="SYNC_MASTER up to 4.9.8 waits for a slave, and without one answers SLAVE_NOT_AVAILABLE",
    )


def _named(broker: Any) -> Any:
    return {"broker_name": broker} if isinstance(broker, str) else broker


BrokerOrName = Annotated[Broker, BeforeValidator(_named)]


class Topic(Part):
    topic: Name
    queue_nums: int = Field(ge=1, description="readable and writable queues on each broker")
    read_queue_nums: int | None = Field(default=None, ge=0, description="None: queue_nums")
    write_queue_nums: int | None = Field(default=None, ge=0, description="None: queue_nums")
    perm: int = Field(default=6, ge=0, le=7, description="4 read, 2 write")
    broker_names: tuple[Name, ...] | None = Field(default=None, description="brokers that have it; None: all")
    tags: tuple[Name, ...] = Field(default=(), description="of its messages: queue i has only tags[i % count]")
    order_topic: bool = Field(default=False, description="has an orderTopicConf: its queues stay if brokers go down")
    auto_create: bool = Field(
        default=False, description="does not exist until a producer sends to it by TBW102's route"
    )


class Consumer(Part):
    name: Name
    client_id: Name
    host: Name = Field(description="the address brokers see; behind NAT it is not the one in client_id")
    language: str = "JAVA"
    client_version: str = "5.3.3"
    strategy: Strategy | None = Field(default=None, description="None: the group's")
    reports_strategy: bool = Field(default=True, description="whether its heartbeats carry the strategy")
    config_queues: tuple[Name, ...] = Field(default=(), description='CONFIG: "broker:queue_id" of the first topic')
    room: str | None = Field(default=None, description="MACHINE_ROOM_NEARBY: where it runs")
    subscriptions: tuple[Name, ...] | None = Field(default=None, description="topics; None: the group's")
    sub_string: Name = Field(default="*", description="tag expression of its subscriptions")
    assigned_queues: dict[Name, tuple[Name, ...]] = Field(
        default={}, description='topic to "broker:queue_id": it pulls these by assign() and never rebalances'
    )
    process: Name | None = Field(
        default=None,
        description="consumers of one process stop, freeze and lose the network together; those with one client_id "
        "share one MQClientInstance, so one channel and heartbeat",
    )
    never_answers: bool = Field(default=False, description="never returns running info to a collector")
    use_heartbeat_v2: bool = Field(default=False, description="5.1.3+: leaves unchanged subscriptions out")
    running: bool = Field(default=True, description="runs from the start; otherwise a happening starts it")


class Group(Part):
    consumer_group: Name
    subscriptions: tuple[Name, ...] = Field(default=(), description="topics; may be empty where all members assign()")
    strategy: Strategy = "AVG"
    consumer_idcs: tuple[Name, ...] = Field(default=(), description="MACHINE_ROOM: the rooms it covers")
    virtual_nodes: int = Field(default=10, ge=0, description="CONSISTENT_HASH: replicas of a client on the ring")
    message_model: Literal["CLUSTERING", "BROADCASTING"] = "CLUSTERING"
    client_rebalance: bool = Field(default=True, description="false: POP, the broker hands out messages")
    pull_consumers: bool = Field(
        default=False,
        description="DefaultMQPullConsumer: its running info lists no queues, and its offsets are local",
    )
    consume_orderly: bool = Field(default=False, description="MessageListenerOrderly: queues must be locked")
    pull_interval_ms: int = Field(default=0, ge=0, description="DefaultMQPushConsumer.pullInterval")
    lives_with_its_members: bool = Field(
        default=False,
        description="belongs to one process, for example to invalidate a cache; no member is expected afterwards",
    )
    reports_retry_topic: bool = Field(default=False, description="heartbeats list %RETRY%GROUP, as a real broker's do")
    consumers: tuple[Consumer, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Group":
        for consumer in self.consumers:
            if not (consumer.subscriptions or self.subscriptions or consumer.assigned_queues):
                raise ValueError(f"consumer {consumer.name!r} has neither subscriptions nor assigned_queues")
        return self

    def topics_of(self, consumer: Consumer) -> tuple[str, ...]:
        """Return the topics that the consumer subscribes; none if it assigns its queues itself."""
        if consumer.assigned_queues:
            return ()
        return self.subscriptions if consumer.subscriptions is None else consumer.subscriptions


class Producer(Part):
    client_id: Name
    host: Name
    producer_group: Name = "producers"
    language: str = "JAVA"
    client_version: str = "5.3.3"
    topics: tuple[Name, ...] = Field(min_length=1)
    sends_per_second: float = Field(default=2.0, gt=0, le=1000)
    distance_ms: int = Field(default=0, ge=0, description="each send takes this much longer, to every broker")
    send_latency_enable: bool = Field(default=True, description="sendLatencyFaultEnable: keeps FaultItems")
    start_detector_enable: bool = Field(default=False, description="5.1.4+: asks unreachable brokers every 3 s")
    sends_by_key: bool = Field(
        default=False, description="MessageQueueSelector: the key decides the queue; no retry, no FaultItem"
    )


ClientAction = Literal[
    "start", "stop", "crash", "kill", "freeze", "thaw", "reconnect",
    "cut_network", "keep_route", "stop_pulling", "hang_listener", "suspend",
    "slow_listener", "subscribe",
]  # fmt: skip
BrokerAction = Literal["slow_broker", "fail_broker", "stop_broker", "crash_broker", "lose_broker", "press_memory"]
ClusterAction = Literal["scale_topic", "set_perm", "disable_consume"]
ActionForGood = Literal["recreate_topic", "drop_topics", "burst", "rename_collector", "remove_agents"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "slow_broker": ("broker_name", "until", "latency_ms"),
    "fail_broker": ("broker_name", "until"),
    "stop_broker": ("broker_name",),
    "crash_broker": ("broker_name",),
    "lose_broker": ("broker_name",),
    "press_memory": ("broker_name", "until"),
    "scale_topic": ("topic",),
    "set_perm": ("topic", "perm"),
    "disable_consume": ("consumer_group",),
    "recreate_topic": ("topic",),
    "drop_topics": ("broker_name",),
    "burst": ("topic", "messages"),
    "rename_collector": ("collector",),
    "remove_agents": (),
    "subscribe": ("consumer", "subscriptions"),
    "slow_listener": ("consumer", "consume_ms"),
}
LASTING = {
    "freeze", "cut_network", "keep_route", "stop_pulling", "hang_listener", "suspend", "slow_listener",
    "slow_broker", "fail_broker", "stop_broker", "crash_broker", "lose_broker", "press_memory",
    "scale_topic", "set_perm", "disable_consume",
}  # fmt: skip
"""Actions that `until` ends; without `until` they are permanent."""
FOR_GOOD: tuple[str, ...] = get_args(ActionForGood)


class Happening(Part):
    """A change of the cluster, `at` a time and again every `every` seconds.

    Up to keep_route, a consumer's name stands for its process with all its groups; below, for that consumer alone.

    start, stop         a consumer process starts; shuts down cleanly and unregisters
    crash               it dies and its system closes the channels; offsets are not committed
    kill                its host is lost: no channel is closed, brokers expire it after 120 s
    freeze, thaw        SIGSTOP and SIGCONT: it keeps channel and queues and is silent
    reconnect           its channels are replaced by new ones; the old ones fall silent and are not closed
    cut_network         no packet passes between it and `broker_name` (None: any broker)
    keep_route          it no longer polls the NameServer and keeps the routes it has
    stop_pulling        a client bug: it stops pulling `queues` (None: all), and its idle time does not count
    hang_listener       its listener does not return: no commit, and no queue lock is released
    suspend             DefaultMQPushConsumer.suspend(): it makes pulls and sends none, and consumes nothing
    slow_listener       each message of a queue takes `consume_ms`: with a full cache it rarely pulls, but consumes
    subscribe           it subscribes `subscriptions` instead
    slow_broker         sends to a broker take `latency_ms` longer
    fail_broker         sends to a broker end in `error`
    stop_broker         a broker shuts down cleanly: it unregisters and closes its channels
    crash_broker        its process dies: channels and NameServer notice at once, offsets of the last 5 s are lost
    lose_broker         its host is lost: the NameServer drops it after 120 s
    press_memory        a broker's backlog exceeds 40 % of memory: it suggests its slave for pulls
    scale_topic         the topic has `queue_nums` queues on each broker
    set_perm            the topic has `perm` at `broker_name` (None: at all brokers)
    disable_consume     consumeEnable of the group is false: brokers refuse its pulls
    recreate_topic      the topic is deleted and created again; its offsets and commits start at 0
    drop_topics         a broker loses all topics
    burst               the topic receives `messages` at once, spread over its writable queues
    rename_collector    a collector named `collector` replaces the previous one: a standby, or a new pod
    remove_agents       the brokers' agents, which report each heartbeat and pull, end; the collector continues
    """

    at: Seconds
    every: float | None = Field(default=None, gt=0)
    until: Seconds | None = None
    jitter: float = Field(default=0, ge=0, description="maximum delay in seconds by the seed, drawn each time")
    action: ClientAction | BrokerAction | ClusterAction | ActionForGood
    consumer: str | None = None
    broker_name: str | None = None
    broker_id: int | None = Field(default=None, ge=0, description="which node of the broker; None: all")
    topic: str | None = None
    consumer_group: str | None = None
    latency_ms: int | None = Field(default=None, ge=0)
    consume_ms: int | None = Field(default=None, gt=0)
    messages: int | None = Field(default=None, gt=0)
    collector: Name | None = None
    error: Literal["RemotingException", "MQBrokerException"] = "RemotingException"
    queue_nums: int | None = Field(default=None, ge=1)
    read_queue_nums: int | None = Field(default=None, ge=0)
    write_queue_nums: int | None = Field(default=None, ge=0)
    perm: Annotated[int, Field(ge=0, le=7)] | None = None
    queues: tuple[Name, ...] | None = Field(default=None, description='"broker:queue_id", of any topic')
    subscriptions: tuple[Name, ...] | None = None

    @property
    def lasts_ms(self) -> int:
        """Duration; 0 for an instant or permanent change."""
        return int((self.until - self.at) * 1000) if self.until is not None else 0

    @model_validator(mode="after")
    def _check(self) -> "Happening":
        for field in _NEEDS.get(self.action, ("consumer",)):
            if getattr(self, field) is None:
                raise ValueError(f"action {self.action!r} needs {field}")
        if self.action == "scale_topic" and not (self.queue_nums or self.read_queue_nums or self.write_queue_nums):
            raise ValueError("action 'scale_topic' needs queue_nums")
        if self.until is not None and self.action not in LASTING:
            raise ValueError(f"action {self.action!r} has no until")
        if self.until is not None and self.until <= self.at:
            raise ValueError(f"until = {self.until:g} is not after at = {self.at:g}")
        if self.every is not None and self.until is not None and self.until - self.at + self.jitter >= self.every:
            raise ValueError(f"every = {self.every:g} begins again before until = {self.until:g}")
        return self


Cause = Literal[
    "duplicate_client_id", "member_not_subscribed", "mixed_strategy", "split_view", "stale_route", "frozen_client",
    "pull_stopped", "order_lock", "write_only_queue", "consume_disabled", "group_offline", "strategy_gap",
    "consume_stopped",
]  # fmt: skip
"""Why a queue starves, where a page is due."""

CAUSES: tuple[str, ...] = get_args(Cause)

Kind = Literal[
    "starved_queue", "stalled_queue", "double_consumed_queue", "duplicate_client_id", "split_view",
    "inconsistent_subscription", "group_offline", "client_id_at_risk", "order_at_risk", "slave_read",
    "offset_regression", "broker_isolated", "no_available_broker", "broker_evicted", "cluster_no_data",
    "broker_no_data", "broker_without_master", "slow_collector", "clock_skew", "rule_failed",
    "name_server_unreachable", "cluster_name_conflict",
]  # fmt: skip
"""Kinds of findings."""


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation of one run, in epoch ms. `end_ms` None: to the end of the run."""

    kind: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    required: bool
    start_ms: int
    end_ms: int | None


class Expectation(Part):
    """A finding of `kind` with the given labels, due between `from` and `until` (None: the end).

    One that is not `required` may be reported or not.
    """

    kind: Kind
    cause: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    client_id: str | None = None
    from_: Seconds = Field(default=0, alias="from")
    until: Seconds | None = None
    required: bool = True

    @model_validator(mode="after")
    def _check(self) -> "Expectation":
        if self.kind == "starved_queue" and self.cause not in CAUSES:
            raise ValueError(f"kind 'starved_queue' needs cause: one of {', '.join(CAUSES)}")
        if self.until is not None and self.until <= self.from_:
            raise ValueError(f"until = {self.until:g} is not after from = {self.from_:g}")
        return self

    def resolve(self, start_ms: int) -> Expected:
        """Return the expectation of a run whose second 0, shifts included, was at `start_ms`."""
        return Expected(
            **self.model_dump(exclude={"from_", "until"}),
            start_ms=start_ms + int(self.from_ * 1000),
            end_ms=None if self.until is None else start_ms + int(self.until * 1000),
        )
