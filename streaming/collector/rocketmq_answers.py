"""Answers of RocketMQ's admin calls as frozen dataclasses, parsed from the JSON of the JVM's objects.

A map with objects as keys is a list of [key, value] pairs. Names are RocketMQ's, snake_cased.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from udfs.rocketmq.route import QueueData

STRATEGIES: Mapping[str, str] = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueByConfig": "CONFIG",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
    "AllocateMachineRoomNearby": "MACHINE_ROOM_NEARBY",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
}
"""getName() of each class of org.apache.rocketmq.client.consumer.rebalance; NEARBY's inner strategy is unknown."""

Versions = Callable[[int], str]


@dataclass(frozen=True)
class Broker:
    """The node that answers for a broker group: the master, else the slave with the lowest id."""

    broker_name: str
    broker_id: int
    address: str


@dataclass(frozen=True)
class Subscription:
    """SubscriptionData."""

    topic: str
    sub_string: str
    sub_version: int
    expression_type: str


@dataclass(frozen=True)
class Connection:
    """Connection of a ConsumerConnection, or ProducerInfo: one channel at one broker.

    `last_update_timestamp` is the channel's last heartbeat by the broker's clock, ms, if known.
    """

    client_id: str
    client_addr: str
    language: str
    client_version: str
    last_update_timestamp: int | None = None


@dataclass(frozen=True)
class ConsumerConnection:
    """A consumer group at one broker (code 203). The broker keeps one subscription table for a group."""

    consumer_group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]
    connections: tuple[Connection, ...]


@dataclass(frozen=True)
class ProcessQueue:
    """ProcessQueueInfo: a queue that a consumer holds. Times by the client's clock, ms; offset -1 is unknown."""

    topic: str
    broker_name: str
    queue_id: int
    commit_offset: int
    cached_msg_count: int
    cached_msg_max_offset: int
    last_pull_timestamp: int
    is_dropped: bool
    is_locked: bool = False


@dataclass(frozen=True)
class RunningInfo:
    """ConsumerRunningInfo (code 307) of one group member; None is unknown.

    `is_push`: a DefaultMQPushConsumer, which caches messages until they are consumed.
    """

    strategy: str | None
    client_rebalance: bool | None
    consume_orderly: bool | None
    subscriptions: tuple[Subscription, ...]
    process_queues: tuple[ProcessQueue, ...]
    is_push: bool = False


@dataclass(frozen=True)
class OffsetWrapper:
    """A queue's end and a group's offsets in it at one broker; -1 is unknown."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int


@dataclass(frozen=True)
class TopicRoute:
    """TopicRouteData. `brokers` has each broker's name and serving ids; without 0 there is no master.

    `has_queue_mapping`: a static topic (topicQueueMappingByBroker, 5.x), whose clients hold other queues.
    """

    topic: str
    queues: tuple[QueueData, ...]
    brokers: tuple[tuple[str, tuple[int, ...]], ...]
    order_topic: bool
    has_queue_mapping: bool = False


def parse_version(description: str) -> str:
    """Return `V5_5_0` as `5.5.0`, and any other text unchanged."""
    plain = re.fullmatch(r"V(\d+)_(\d+)_(\d+)", description)
    return ".".join(plain.groups()) if plain else description


def parse_strategy(reflected: str) -> str | None:
    """Return the name of `...rebalance.AllocateMessageQueueAveragely@739d7eca`; None for an unknown class."""
    return STRATEGIES.get(reflected.partition("@")[0].rpartition(".")[2])


def parse_clusters(answer: Mapping[str, Any]) -> dict[str, tuple[Broker, ...]]:
    """Parse a ClusterInfo: the brokers of each cluster."""
    brokers = {
        name: Broker(data["brokerName"], *min((int(broker_id), at) for broker_id, at in data["brokerAddrs"].items()))
        for name, data in answer.get("brokerAddrTable", {}).items()
        if data["brokerAddrs"]
    }
    return {
        cluster: tuple(brokers[name] for name in sorted(names) if name in brokers)
        for cluster, names in answer.get("clusterAddrTable", {}).items()
    }


def parse_route(topic: str, answer: Mapping[str, Any]) -> TopicRoute:
    """Parse a TopicRouteData, sorted so that equal routes compare equal."""
    queues = (
        QueueData(data["brokerName"], data["readQueueNums"], data["writeQueueNums"], data["perm"])
        for data in answer.get("queueDatas") or ()
    )
    brokers = (
        (data["brokerName"], tuple(sorted(int(broker_id) for broker_id in data["brokerAddrs"])))
        for data in answer.get("brokerDatas") or ()
    )
    return TopicRoute(
        topic,
        tuple(sorted(queues, key=lambda queue: queue.broker_name)),
        tuple(sorted(brokers)),
        bool(answer.get("orderTopicConf")),
        bool(answer.get("topicQueueMappingByBroker")),
    )


def parse_consumer_connection(group: str, answer: Mapping[str, Any], versions: Versions) -> ConsumerConnection:
    connections = (_parse_connection(each, each["clientAddr"], versions) for each in answer.get("connectionSet") or ())
    return ConsumerConnection(
        consumer_group=group,
        consume_type=answer.get("consumeType") or "CONSUME_PASSIVELY",
        message_model=answer.get("messageModel") or "CLUSTERING",
        consume_from_where=answer.get("consumeFromWhere") or "CONSUME_FROM_LAST_OFFSET",
        subscriptions=_parse_subscriptions((answer.get("subscriptionTable") or {}).values()),
        connections=tuple(sorted(connections, key=lambda each: (each.client_id, each.client_addr))),
    )


def parse_producers(answer: Mapping[str, Any], versions: Versions) -> dict[str, tuple[Connection, ...]]:
    """Parse a ProducerTableInfo: the channels of each producer group. Consumers are in CLIENT_INNER_PRODUCER."""
    return {
        group: tuple(
            _parse_connection(each, each["remoteIP"].lstrip("/"), versions, each["lastUpdateTimestamp"])
            for each in infos
        )
        for group, infos in (answer.get("data") or {}).items()
    }


def _parse_connection(
    each: Mapping[str, Any], client_addr: str, versions: Versions, last_update_timestamp: int | None = None
) -> Connection:
    language, version = each.get("language") or "OTHER", versions(each.get("version", 0))
    return Connection(each["clientId"], client_addr, language, version, last_update_timestamp)


def parse_running_info(answer: Mapping[str, Any]) -> RunningInfo:
    """Parse a ConsumerRunningInfo. DefaultMQPullConsumer, and DefaultLitePullConsumer before 5.1.1, have no queues."""
    properties = answer.get("properties") or {}
    flags = {name: text == "true" for name, text in properties.items()}
    return RunningInfo(
        strategy=parse_strategy(properties.get("allocateMessageQueueStrategy") or ""),
        client_rebalance=flags.get("clientRebalance"),
        consume_orderly=flags.get("PROP_CONSUMEORDERLY"),  # of push consumers, 4.x and 5.x
        subscriptions=_parse_subscriptions(answer.get("subscriptionSet") or ()),
        process_queues=tuple(
            ProcessQueue(
                topic=mq["topic"],
                broker_name=mq["brokerName"],
                queue_id=mq["queueId"],
                commit_offset=info.get("commitOffset", -1),
                cached_msg_count=info.get("cachedMsgCount", 0),
                cached_msg_max_offset=info.get("cachedMsgMaxOffset", -1),
                last_pull_timestamp=info.get("lastPullTimestamp", 0),
                is_dropped=info.get("droped", False),  # RocketMQ's spelling
                is_locked=info.get("locked", False),
            )
            for mq, info in answer.get("mqTable") or ()
        ),
        is_push=properties.get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY",
    )


def _parse_subscriptions(answers: Any) -> tuple[Subscription, ...]:
    subscriptions = (
        Subscription(
            each["topic"], each.get("subString") or "*", each.get("subVersion", 0), each.get("expressionType") or "TAG"
        )
        for each in answers
    )
    return tuple(sorted(subscriptions, key=lambda subscription: subscription.topic))


def parse_offsets(answer: Mapping[str, Any]) -> dict[tuple[str, str, int], OffsetWrapper]:
    """Parse a ConsumeStats: offsets by (topic, broker_name, queue_id). A group without a commit has none."""
    return {
        (mq["topic"], mq["brokerName"], mq["queueId"]): OffsetWrapper(
            wrapper.get("brokerOffset", -1), wrapper.get("consumerOffset", -1), wrapper.get("pullOffset", -1)
        )
        for mq, wrapper in answer.get("offsetTable") or ()
    }
