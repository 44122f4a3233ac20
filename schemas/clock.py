"""The clock event: it ends a poll round, carries its time, and lists missing data.

Verdicts are made at clock events only. A clock event of source "forget" is a person's decision and moves no time.
"""

from pyspark.sql import types as T

from schemas.fields import LONG, MOST_BROKERS, MOST_GROUPS, STRING, STRINGS, event_time, field_of, list_of, name_of

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
        name_of("cluster", "the RocketMQ cluster's name"),
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
