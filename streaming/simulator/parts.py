"""Who there is in a modelled cluster: brokers, topics, consumer groups and their processes, producers.

Field names are RocketMQ's. A consumer has a `name` of its own besides, because two of them may carry one client_id.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from udfs.rocketmq.allocation import STRATEGIES

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0)]


def _check_strategy(name: str) -> str:
    if name.partition("-")[0] not in STRATEGIES:
        raise ValueError(f"strategy {name!r} is not one of {', '.join(STRATEGIES)}")
    return name


Strategy = Annotated[str, AfterValidator(_check_strategy)]
"""AllocateMessageQueueStrategy.getName(): "AVG", "MACHINE_ROOM_NEARBY-AVG", ..."""


class Part(BaseModel):
    """A table of a scenario file. What is not listed is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Broker(Part):
    """A broker group; in a file its name alone will do."""

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
    broker_names: tuple[Name, ...] | None = Field(default=None, description="who has it; None: every broker")
    tags: tuple[Name, ...] = Field(default=(), description="of its messages: queue i has tags[i % count] alone")
    order_topic: bool = Field(default=False, description="has an order configuration: its queues stay, brokers or no")
    auto_create: bool = Field(
        default=False, description="is not there until a producer finds it by TBW102's route and sends to it"
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
    running: bool = Field(default=True, description="runs from the start; else a happening starts it")


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
        description="DefaultMQPullConsumer: its running info lists no queues, and it keeps its offsets elsewhere",
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
        """What the consumer subscribes; nothing when it assigns its queues itself."""
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
