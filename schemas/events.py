"""The five events of Kafka, one JSON object a message.

Times are epoch milliseconds, UTC. Names are RocketMQ's, snake_cased. A field that is not listed here is kept out;
a row that lacks a required one goes to quarantine. Every field carries in its metadata:

    comment  what it says, and who says it
    unit     ms, offset, ...; "" for names and flags
    null     what null, or absence, means; "never" marks a required field
    minimum  the smallest value, where there is one

A heartbeat is what *one* broker received on *one* channel: `client_addr` is the only thing that tells twins apart.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

NEVER = "never"


def _field(
    name: str,
    type_: T.DataType,
    comment: str,
    *,
    unit: str = "",
    null: str = NEVER,
    minimum: int | None = None,
) -> T.StructField:
    metadata: dict[str, Any] = {"comment": comment, "unit": unit, "null": null}
    if minimum is not None:
        metadata["minimum"] = minimum
    return T.StructField(name, type_, nullable=null != NEVER, metadata=metadata)


def _list_of(*fields: T.StructField) -> T.ArrayType:
    return T.ArrayType(T.StructType(list(fields)), containsNull=False)


STRING, LONG, INTEGER, BOOLEAN = T.StringType(), T.LongType(), T.IntegerType(), T.BooleanType()
STRINGS = T.ArrayType(STRING, containsNull=False)

_CLUSTER = _field("cluster", STRING, "the RocketMQ cluster's name")
_TOPIC = _field("topic", STRING, "the topic's name")
_BROKER_NAME = _field("broker_name", STRING, "the broker group's name; one name for a master and its slaves")
_QUEUE_ID = _field("queue_id", INTEGER, "the queue's number in its broker, from 0", minimum=0)
_EVENT_TIME = _field("event_time_ms", LONG, "when it happened", unit="ms since 1970, UTC", minimum=0)

SUBSCRIPTION = (
    _field("topic", STRING, "the topic subscribed"),
    _field("sub_string", STRING, 'the tag expression, "*" for all'),
    _field("sub_version", LONG, "when the client made this subscription; a newer one replaces an older one", unit="ms"),
    _field("expression_type", STRING, "TAG or SQL92"),
)

CONSUMER = (
    _field("consumer_group", STRING, "the consumer group"),
    _field("consume_type", STRING, "CONSUME_ACTIVELY (pull), CONSUME_PASSIVELY (push) or CONSUME_POP"),
    _field("message_model", STRING, "CLUSTERING or BROADCASTING"),
    _field(
        "consume_from_where", STRING, "CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET or CONSUME_FROM_TIMESTAMP"
    ),
    _field(
        "strategy",
        STRING,
        "AllocateMessageQueueStrategy.getName(), from ConsumerRunningInfo; it is not on RocketMQ's wire",
        null="not told; the group's other members or the settings decide",
    ),
    _field(
        "client_rebalance",
        BOOLEAN,
        "whether the client computes its own share; false for POP",
        null="true",
    ),
    _field(
        "consume_orderly",
        BOOLEAN,
        "whether it consumes by MessageListenerOrderly and so must lock its queues, from ConsumerRunningInfo",
        null="not told; as the topic's route says in order_topic",
    ),
    _field("subscriptions", _list_of(*SUBSCRIPTION), "SubscriptionData of the group, empty with without_sub"),
)

HEARTBEAT = T.StructType(
    [
        _CLUSTER,
        _field("broker_name", STRING, "the broker that received it: its own view, never merged with another's"),
        _field(
            "broker_id",
            LONG,
            "0 for the master, above 0 for a slave; clients heartbeat to both, and only the master's list counts",
            null="0",
            minimum=0,
        ),
        _field("client_id", STRING, "ClientConfig.buildMQClientId: ip@instanceName"),
        _field(
            "client_addr", STRING, "ip:port of the channel at the broker; two of them under one client_id are twins"
        ),
        _field("language", STRING, "LanguageCode of the client: JAVA, GO, CPP, ..."),
        _field("client_version", STRING, 'the client\'s release, "4.9.8" or "V4_9_8"'),
        _field("producer_groups", STRINGS, "groups it produces for"),
        _field("consumers", _list_of(*CONSUMER), "ConsumerData of each group it consumes for"),
        _field(
            "without_sub",
            BOOLEAN,
            "heartbeat V2 (5.1.3+): subscriptions are left out because they did not change",
            null="false",
        ),
        _field("leaving", BOOLEAN, "UNREGISTER_CLIENT, or the broker closed the channel", null="false"),
        _field(
            "is_listed_only",
            BOOLEAN,
            "the broker lists the channel and does not tell its last heartbeat (4.x, SDKs without "
            "CLIENT_INNER_PRODUCER): the event tells that it was listed, not that it spoke",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

SEND_LATENCY = T.StructType(
    [
        _CLUSTER,
        _field("client_id", STRING, "the producer that keeps the FaultItem"),
        _field("client_version", STRING, "the client's release; it decides the latency table"),
        _TOPIC,
        _BROKER_NAME,
        _QUEUE_ID,
        _field("latency_ms", LONG, "how long the attempt took", unit="ms", minimum=0),
        _field("isolation", BOOLEAN, "the attempt failed in a way that isolates the broker"),
        _field("reachable", BOOLEAN, "5.1.4+: whether the broker counts as reachable afterwards", null="true"),
        _field("send_status", STRING, "SEND_OK, FLUSH_DISK_TIMEOUT, ...", null="the attempt ended in an exception"),
        _EVENT_TIME,
    ]
)

PULL = T.StructType(
    [
        _CLUSTER,
        _BROKER_NAME,
        _field("broker_id", LONG, "0 for the master, above 0 for a slave", minimum=0),
        _TOPIC,
        _QUEUE_ID,
        _field("consumer_group", STRING, "the consumer group"),
        _field("client_addr", STRING, "ip:port of the channel", null="the source cannot tell twins apart"),
        _field("client_id", STRING, "who pulled", null="not on RocketMQ's wire; known by its channel, if at all"),
        _field("pull_offset", LONG, "the next offset asked for", unit="offset", minimum=0),
        _field("commit_offset", LONG, "the group's committed offset", unit="offset", null="not told", minimum=0),
        _field("max_offset", LONG, "the queue's end", unit="offset", null="not told", minimum=0),
        _field(
            "pull_status",
            STRING,
            "FOUND, NO_NEW_MSG, NO_MATCHED_MSG, OFFSET_ILLEGAL; NO_PERMISSION when the broker refused the pull "
            "(consumeEnable is false, or the topic is not readable)",
            null="not told",
        ),
        _field("suggest_broker_id", LONG, "the broker id suggested for the next pull", null="not told", minimum=0),
        _field(
            "offsets_only",
            BOOLEAN,
            "nobody is known to have pulled: the offsets alone are told, as the broker has them",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

QUEUE_DATA = (
    _BROKER_NAME,
    _field("read_queue_nums", INTEGER, "queues consumers share out: 0 to read_queue_nums - 1", minimum=0),
    _field("write_queue_nums", INTEGER, "queues producers write: 0 to write_queue_nums - 1", minimum=0),
    _field("perm", INTEGER, "bits: 4 read, 2 write, 1 inherit", minimum=0),
)

ROUTE = T.StructType(
    [
        _CLUSTER,
        _TOPIC,
        _field("queues", _list_of(*QUEUE_DATA), "QueueData a broker; empty when the topic was deleted"),
        _field(
            "brokers",
            _list_of(
                _BROKER_NAME,
                _field("broker_ids", T.ArrayType(LONG, containsNull=False), "who serves; no 0 means no master"),
            ),
            "BrokerData of the route",
        ),
        _field("order_topic", BOOLEAN, "the topic has an order configuration at the NameServer", null="false"),
        _field(
            "has_queue_mapping",
            BOOLEAN,
            "a static topic (5.x, topicQueueMappingByBroker): clients hold other queues than these, so none is judged",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

UNHEARD = (
    _field("broker_name", STRING, "the broker it would have been heard at", null="every broker asked"),
    _field("consumer_group", STRING, "the consumer group", null="every group"),
    _field("client_id", STRING, "the member of the group", null="every member"),
    _field(
        "reason",
        STRING,
        "refused (the broker answered, and not what was asked), timed_out, left_in_peace (it timed out before, and is "
        "asked again later), no_time (the round had to end) or failed",
    ),
    _field("since_ms", LONG, "since when it is not heard", unit="ms since 1970, UTC", minimum=0),
)

SKEW = (
    _field("machine", STRING, "the broker's name or the ClientId"),
    _field("role", STRING, "broker or client"),
    _field("ahead_ms", LONG, "how far its clock is ahead of the source's; below 0 it is behind", unit="ms"),
)

FORGOTTEN = (
    _field("kind", STRING, "cluster, broker or group"),
    _field("name", STRING, "its name"),
    _field("owner", STRING, "who decided it"),
    _field("reason", STRING, "why", null="not told"),
)

CLOCK = T.StructType(
    [
        _CLUSTER,
        _field("source", STRING, 'who says so: "collector", "simulator", "run"; "forget" moves no time'),
        _field("collector", STRING, "which of several collectors", null="the only one of its source"),
        _field("groups", STRINGS, "the consumer groups the round speaks for", null="all"),
        _field(
            "interval_ms",
            LONG,
            "how far apart its rounds are meant to be",
            unit="ms",
            null="not told: as far as they come apart",
            minimum=1,
        ),
        _field("brokers_asked", STRINGS, "the brokers this round speaks for"),
        _field("brokers_answered", STRINGS, "those of them whose events are in Kafka before this one"),
        _field("unheard", _list_of(*UNHEARD), "what the brokers that answered did not let hear", null="nothing"),
        _field("skews", _list_of(*SKEW), "machines whose clock is over 10 s out of step", null="none known"),
        _field("deleted_groups", STRINGS, "consumer groups deleted on purpose since the last round", null="none"),
        _field(
            "forgotten",
            _list_of(*FORGOTTEN),
            "what a person decided is gone for good (`balancewatch forget`): what was open of it ends",
            null="nothing",
        ),
        _EVENT_TIME,
    ]
)

HEARTBEATS, SEND_LATENCIES, PULLS, ROUTES, CLOCKS = (
    "rocketmq.heartbeats",
    "rocketmq.send_latencies",
    "rocketmq.pulls",
    "rocketmq.routes",
    "rocketmq.clock",
)

EVENTS: Mapping[str, T.StructType] = {
    HEARTBEATS: HEARTBEAT,
    SEND_LATENCIES: SEND_LATENCY,
    PULLS: PULL,
    ROUTES: ROUTE,
    CLOCKS: CLOCK,
}
"""Topic to the event it carries."""

MEANINGS: Mapping[str, str] = {
    HEARTBEATS: "a heartbeat as one broker received it on one channel",
    SEND_LATENCIES: "one send attempt of a producer",
    PULLS: "one pull request as the broker saw it",
    ROUTES: "a topic's route; sent when it changes and every 30 s; compacted",
    CLOCKS: "time goes on, and which brokers were asked and answered",
}
"""Topic to what one message of it is."""

KEYS: Mapping[str, tuple[str, ...]] = {
    HEARTBEATS: ("cluster", "client_id"),
    SEND_LATENCIES: ("cluster", "broker_name"),
    PULLS: ("cluster", "consumer_group"),
    ROUTES: ("cluster", "topic"),
    CLOCKS: ("cluster",),
}
"""Topic to the fields its message key joins with "|": what must stay in order shares a partition."""


def key_of(topic: str, event: Mapping[str, Any]) -> bytes:
    """The Kafka key of an event: `cluster|client_id`, `cluster|broker_name`, ... in UTF-8."""
    return "|".join(str(event[field]) for field in KEYS[topic]).encode()
