"""The five events of Kafka, one JSON object a message.

Times are epoch milliseconds, UTC. Names are RocketMQ's in snake_case. Unlisted fields are dropped; a message without a
required field goes to quarantine. The metadata of a field, with the bounds that limit the cost of one message:

    comment           its meaning and source
    unit              ms, offset, ...; "" for names and flags
    null              the meaning of null or absence; "never" marks a required field
    minimum, maximum  of a number
    is_name           of a text: it may not be empty
    max_length        of a text, in characters; default 255 (NAME_CHARACTERS)
    max_items         of a list
    totals            of a list of objects: number field → the largest sum over the list
    max_ahead_ms      of the event's time: the most that it may be later than Kafka's timestamp

A heartbeat is what *one* broker received on *one* channel. Only `client_addr` distinguishes twins.

The clock event ends a poll round, carries its time, and lists missing data. Verdicts are made at clock events only. One
of source "forget" is a person's decision and moves no time.
"""

from collections.abc import Mapping
from typing import Any

from schemas import types as T

NEVER = "never"

NAME_CHARACTERS = 255
"""Of any name. RocketMQ's own Validators take 127 of a topic and 255 of a group; a ClientId has an instance name."""

EXPRESSION_CHARACTERS = 16_384
"""Of a tag or SQL92 expression."""

MOST_QUEUES = 16_384
"""Of one topic, over all its brokers. Each consumer group has a verdict per queue at each clock event.

This number takes half a second of one core, and 5 MB of state, per group."""

MOST_BROKERS = 1_024
MOST_GROUPS = 10_000

FIRST_MS = 1_325_376_000_000
"""2012-01-01, before the first RocketMQ. An earlier time is a clock that was never set."""


def field_of(
    name: str, type_: T.DataType, comment: str, *, unit: str = "", null: str = NEVER, **bounds: Any
) -> T.StructField:
    metadata: dict[str, Any] = {"comment": comment, "unit": unit, "null": null, **bounds}
    return T.StructField(name, type_, nullable=null != NEVER, metadata=metadata)


def name_of(name: str, comment: str, *, null: str = NEVER) -> T.StructField:
    """Return a name's field. A required name may not be empty; an optional one may."""
    field = field_of(name, T.StringType(), comment, null=null)
    if null == NEVER:
        field.metadata["is_name"] = True
    return field


def list_of(*fields: T.StructField) -> T.ArrayType:
    return T.ArrayType(T.StructType(list(fields)))


STRING, LONG, INTEGER, BOOLEAN = T.StringType(), T.LongType(), T.IntegerType(), T.BooleanType()
STRINGS = T.ArrayType(STRING)


def event_time(max_ahead_ms: int) -> T.StructField:
    return field_of(
        "event_time_ms",
        LONG,
        "when it happened",
        unit="ms since 1970, UTC",
        minimum=FIRST_MS,
        max_ahead_ms=max_ahead_ms,
    )


_CLUSTER = name_of("cluster", "the RocketMQ cluster's name")
_TOPIC = name_of("topic", "the topic's name")
_BROKER_NAME = name_of("broker_name", "the broker group's name; one name for a master and its slaves")
_QUEUE_ID = field_of(
    "queue_id", INTEGER, "the queue's number in its broker, from 0", minimum=0, maximum=MOST_QUEUES - 1
)


_EVENT_TIME = event_time(86_400_000)
"""At most a day ahead of Kafka's timestamp; anything later than that timestamp counts as Kafka's time."""


SUBSCRIPTION = (
    name_of("topic", "the topic subscribed"),
    field_of("sub_string", STRING, 'the tag expression, "*" for all', max_length=EXPRESSION_CHARACTERS),
    field_of(
        "sub_version", LONG, "when the client made this subscription; a newer one replaces an older one", unit="ms"
    ),
    field_of("expression_type", STRING, "TAG or SQL92"),
)

CONSUMER = (
    name_of("consumer_group", "the consumer group"),
    field_of("consume_type", STRING, "CONSUME_ACTIVELY (pull), CONSUME_PASSIVELY (push) or CONSUME_POP"),
    field_of("message_model", STRING, "CLUSTERING or BROADCASTING"),
    field_of(
        "consume_from_where", STRING, "CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET or CONSUME_FROM_TIMESTAMP"
    ),
    field_of(
        "strategy",
        STRING,
        "AllocateMessageQueueStrategy.getName(), from ConsumerRunningInfo; not part of RocketMQ's heartbeat",
        null="not reported; taken from other members or the settings",
    ),
    field_of(
        "client_rebalance",
        BOOLEAN,
        "whether the client rebalances itself; false for POP",
        null="true",
    ),
    field_of(
        "consume_orderly",
        BOOLEAN,
        "whether it uses MessageListenerOrderly and so locks its queues, from ConsumerRunningInfo",
        null="not reported; order_topic of the route decides",
    ),
    field_of(
        "subscriptions",
        list_of(*SUBSCRIPTION),
        "SubscriptionData of the group, empty with without_sub",
        max_items=1_000,
    ),
)

HEARTBEAT = T.StructType(
    [
        _CLUSTER,
        name_of("broker_name", "the broker that received it; views of brokers are never merged"),
        field_of(
            "broker_id",
            LONG,
            "0 for the master, above 0 for a slave; clients send heartbeats to both, only the master's count",
            null="0",
            minimum=0,
        ),
        name_of("client_id", "ClientConfig.buildMQClientId: ip@instanceName"),
        field_of("client_addr", STRING, "ip:port of the channel at the broker; two under one client_id are twins"),
        field_of("language", STRING, "LanguageCode of the client: JAVA, GO, CPP, ..."),
        field_of("client_version", STRING, 'the client\'s release, "4.9.8" or "V4_9_8"'),
        field_of("producer_groups", STRINGS, "groups it produces for", max_items=1_000),
        field_of("consumers", list_of(*CONSUMER), "ConsumerData of each group it consumes for", max_items=1_000),
        field_of(
            "without_sub",
            BOOLEAN,
            "heartbeat V2 (5.1.3+): unchanged subscriptions are left out",
            null="false",
        ),
        field_of(
            "leaving",
            BOOLEAN,
            "the client unregistered (UNREGISTER_CLIENT), or the broker closed the channel",
            null="false",
        ),
        field_of(
            "is_listed_only",
            BOOLEAN,
            "the broker lists the channel without the time of its last heartbeat (4.x, SDKs without "
            "CLIENT_INNER_PRODUCER): evidence of membership, not of a heartbeat",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

SEND_LATENCY = T.StructType(
    [
        _CLUSTER,
        name_of("client_id", "the producer that keeps the FaultItem"),
        field_of("client_version", STRING, "the client's release; it decides the latency table"),
        _TOPIC,
        _BROKER_NAME,
        _QUEUE_ID,
        field_of("latency_ms", LONG, "how long the attempt took", unit="ms", minimum=0, maximum=86_400_000),
        field_of("isolation", BOOLEAN, "whether the attempt failed and isolates the broker"),
        field_of("reachable", BOOLEAN, "5.1.4+: whether the broker counts as reachable afterwards", null="true"),
        field_of("send_status", STRING, "SEND_OK, FLUSH_DISK_TIMEOUT, ...", null="the attempt ended in an exception"),
        _EVENT_TIME,
    ]
)

PULL = T.StructType(
    [
        _CLUSTER,
        _BROKER_NAME,
        field_of("broker_id", LONG, "0 for the master, above 0 for a slave", minimum=0),
        _TOPIC,
        _QUEUE_ID,
        name_of("consumer_group", "the consumer group"),
        name_of("client_addr", "ip:port of the channel", null="not reported; twins cannot be distinguished"),
        name_of("client_id", "the client that pulled", null="not part of RocketMQ's request; derived from the channel"),
        field_of("pull_offset", LONG, "the next offset requested", unit="offset", minimum=0),
        field_of("commit_offset", LONG, "the group's committed offset", unit="offset", null="not reported", minimum=0),
        field_of("max_offset", LONG, "the queue's end", unit="offset", null="not reported", minimum=0),
        field_of(
            "pull_status",
            STRING,
            "FOUND, NO_NEW_MSG, NO_MATCHED_MSG, OFFSET_ILLEGAL; NO_PERMISSION when the broker refused the pull "
            "(consumeEnable is false, or the topic is not readable)",
            null="not reported",
        ),
        field_of(
            "suggest_broker_id", LONG, "the broker id suggested for the next pull", null="not reported", minimum=0
        ),
        field_of(
            "offsets_only",
            BOOLEAN,
            "no pull was observed; the event has only the broker's offsets",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

QUEUE_DATA = (
    _BROKER_NAME,
    field_of(
        "read_queue_nums",
        INTEGER,
        "queues for consumers: 0 to read_queue_nums - 1",
        minimum=0,
        maximum=MOST_QUEUES,
    ),
    field_of(
        "write_queue_nums", INTEGER, "queues for producers: 0 to write_queue_nums - 1", minimum=0, maximum=MOST_QUEUES
    ),
    field_of("perm", INTEGER, "bits: 8 priority, 4 read, 2 write, 1 inherit", minimum=0, maximum=15),
)

ROUTE = T.StructType(
    [
        _CLUSTER,
        _TOPIC,
        field_of(
            "queues",
            list_of(*QUEUE_DATA),
            "QueueData per broker; empty when the topic was deleted",
            max_items=MOST_BROKERS,
            totals={"read_queue_nums": MOST_QUEUES, "write_queue_nums": MOST_QUEUES},
        ),
        field_of(
            "brokers",
            list_of(
                _BROKER_NAME,
                field_of(
                    "broker_ids",
                    T.ArrayType(LONG),
                    "ids of its brokers; without 0 there is no master",
                    max_items=MOST_BROKERS,
                ),
            ),
            "BrokerData of the route",
            max_items=MOST_BROKERS,
        ),
        field_of("order_topic", BOOLEAN, "the topic has an order configuration at the NameServer", null="false"),
        field_of(
            "has_queue_mapping",
            BOOLEAN,
            "a static topic (5.x, topicQueueMappingByBroker): clients hold logical queues, so all are NOT_JUDGED",
            null="false",
        ),
        _EVENT_TIME,
    ]
)

MOST_NAME_SERVERS = 100

NO_DATA = (
    name_of("broker_name", "the broker that should have given the data", null="every broker asked"),
    name_of("consumer_group", "the consumer group", null="every group"),
    name_of("client_id", "the member of the group", null="every member"),
    field_of(
        "reason",
        STRING,
        "refused (the broker answered with an error), timed_out, left_in_peace (backoff after a time-out), no_time "
        "(the poll round ended first) or failed",
    ),
    field_of("since_ms", LONG, "when the data began to be missing", unit="ms since 1970, UTC", minimum=0),
)

SKEW = (
    name_of("machine", "the broker's name or the ClientId"),
    field_of("role", STRING, "broker or client"),
    field_of("ahead_ms", LONG, "how far its clock is ahead of the collector's; negative if behind", unit="ms"),
)

FORGOTTEN = (
    field_of("kind", STRING, "cluster, broker, group or collector"),
    name_of("name", "its name"),
    name_of("owner", "the person who decided it"),
    field_of("reason", STRING, "the person's reason", null="not reported"),
)

ADDRESS = (
    name_of("broker_name", "the broker that answered"),
    name_of("address", "host:port of its master, from the NameServer"),
)

CLOCK = T.StructType(
    [
        _CLUSTER,
        name_of("source", 'the sender: "collector", "simulator" or "run"; "forget" moves no time'),
        name_of("collector", "id of the collector, if there are several", null="the only collector"),
        field_of("groups", STRINGS, "the consumer groups of this poll round", null="all", max_items=MOST_GROUPS),
        field_of(
            "interval_ms",
            LONG,
            "the poll interval",
            unit="ms",
            null="not reported; measured from the events",
            minimum=1,
        ),
        field_of("brokers_asked", STRINGS, "the brokers that the poll round asked", max_items=MOST_BROKERS),
        field_of(
            "brokers_answered",
            STRINGS,
            "those that answered; their events are in Kafka before this one",
            max_items=MOST_BROKERS,
        ),
        field_of(
            "unheard",
            list_of(*NO_DATA),
            "missing data at brokers that answered",
            null="nothing",
            max_items=MOST_GROUPS,
        ),
        field_of(
            "skews",
            list_of(*SKEW),
            "machines whose clock is more than 10 s off",
            null="none known",
            max_items=1_000,
        ),
        field_of(
            "name_servers",
            STRINGS,
            "the NameServers in the collector's settings",
            null="not reported",
            max_items=MOST_NAME_SERVERS,
        ),
        field_of(
            "name_servers_unreachable",
            STRINGS,
            "those that did not answer in this poll round",
            null="none",
            max_items=MOST_NAME_SERVERS,
        ),
        field_of(
            "broker_addresses",
            list_of(*ADDRESS),
            "the masters that answered; different addresses from two collectors mean two clusters with one name",
            null="not reported",
            max_items=MOST_BROKERS,
        ),
        field_of(
            "deleted_groups",
            STRINGS,
            "consumer groups deleted since the last poll round",
            null="none",
            max_items=MOST_GROUPS,
        ),
        field_of(
            "forgotten",
            list_of(*FORGOTTEN),
            "removed for good by `balancewatch forget`; open incidents about it resolve",
            null="nothing",
            max_items=1_000,
        ),
        event_time(60_000),
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
    HEARTBEATS: "a heartbeat that one broker received on one channel",
    SEND_LATENCIES: "one send attempt of a producer",
    PULLS: "one pull request that a broker received",
    ROUTES: "a topic's route; sent when it changes and every 30 s",
    CLOCKS: "the end of a poll round: its time, and the brokers that were asked and answered",
}
"""Topic to the description of its message."""

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
