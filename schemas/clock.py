"""The clock event: what ends a round, and tells what the round did not hear.

Between two of them nothing is concluded. One of source "forget" is a person's decision, and moves no time.
"""

from pyspark.sql import types as T

from schemas.fields import LONG, MOST_BROKERS, MOST_GROUPS, STRING, STRINGS, event_time, field_of, list_of, name_of

MOST_NAME_SERVERS = 100

NO_DATA = (
    name_of("broker_name", "the broker it would have been heard at", null="every broker asked"),
    name_of("consumer_group", "the consumer group", null="every group"),
    name_of("client_id", "the member of the group", null="every member"),
    field_of(
        "reason",
        STRING,
        "refused (the broker answered, and not what was asked), timed_out, left_in_peace (it timed out before, and is "
        "asked again later), no_time (the round had to end) or failed",
    ),
    field_of("since_ms", LONG, "since when it gives no data", unit="ms since 1970, UTC", minimum=0),
)

SKEW = (
    name_of("machine", "the broker's name or the ClientId"),
    field_of("role", STRING, "broker or client"),
    field_of("ahead_ms", LONG, "how far its clock is ahead of the source's; below 0 it is behind", unit="ms"),
)

FORGOTTEN = (
    field_of("kind", STRING, "cluster, broker, group or collector"),
    name_of("name", "its name"),
    name_of("owner", "who decided it"),
    field_of("reason", STRING, "why", null="not reported"),
)

ADDRESS = (
    name_of("broker_name", "the broker that answered"),
    name_of("address", "host:port of its master, by the NameServer"),
)

CLOCK = T.StructType(
    [
        name_of("cluster", "the RocketMQ cluster's name"),
        name_of("source", 'who says so: "collector", "simulator", "run"; "forget" moves no time'),
        name_of("collector", "which of several collectors", null="the only one of its source"),
        field_of("groups", STRINGS, "the consumer groups the round speaks for", null="all", max_items=MOST_GROUPS),
        field_of(
            "interval_ms",
            LONG,
            "how far apart its rounds are meant to be",
            unit="ms",
            null="not reported: as far as they come apart",
            minimum=1,
        ),
        field_of("brokers_asked", STRINGS, "the brokers this round speaks for", max_items=MOST_BROKERS),
        field_of(
            "brokers_answered",
            STRINGS,
            "those of them whose events are in Kafka before this one",
            max_items=MOST_BROKERS,
        ),
        field_of(
            "unheard",
            list_of(*NO_DATA),
            "what the brokers that answered did not let hear",
            null="nothing",
            max_items=MOST_GROUPS,
        ),
        field_of(
            "skews",
            list_of(*SKEW),
            "machines whose clock is over 10 s out of step",
            null="none known",
            max_items=1_000,
        ),
        field_of(
            "name_servers",
            STRINGS,
            "the NameServers that the collector is configured with",
            null="not reported",
            max_items=MOST_NAME_SERVERS,
        ),
        field_of(
            "name_servers_unreachable",
            STRINGS,
            "those of them that did not answer in this round",
            null="none",
            max_items=MOST_NAME_SERVERS,
        ),
        field_of(
            "broker_addresses",
            list_of(*ADDRESS),
            "the masters that answered; two collectors with other addresses read two clusters of one name",
            null="not reported",
            max_items=MOST_BROKERS,
        ),
        field_of(
            "deleted_groups",
            STRINGS,
            "consumer groups deleted on purpose since the last round",
            null="none",
            max_items=MOST_GROUPS,
        ),
        field_of(
            "forgotten",
            list_of(*FORGOTTEN),
            "what a person decided is gone for good (`balancewatch forget`): what was open of it ends",
            null="nothing",
            max_items=1_000,
        ),
        event_time(60_000),
    ]
)
