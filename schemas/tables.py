"""The Delta tables: append-only logs of transitions; the newest row of a key is its current state.

Written by one batch each under a Delta transaction (app id = query and checkpoint generation, version = batch id).
Times are TIMESTAMP, UTC. `changed_at` is event time, `ingest_time` is Kafka's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ColumnType(Enum):
    """A column's type by its name in SQL, which Spark and DuckDB share but for the last."""

    STRING = "STRING"
    LONG = "BIGINT"
    INTEGER = "INT"
    BOOLEAN = "BOOLEAN"
    DOUBLE = "DOUBLE"
    BINARY = "BINARY"
    TIMESTAMP = "TIMESTAMP"
    """Microseconds, UTC."""
    STRINGS = "ARRAY<STRING>"


STRING, LONG, INTEGER, BOOLEAN = ColumnType.STRING, ColumnType.LONG, ColumnType.INTEGER, ColumnType.BOOLEAN
TIMESTAMP, BINARY, DOUBLE, STRINGS = ColumnType.TIMESTAMP, ColumnType.BINARY, ColumnType.DOUBLE, ColumnType.STRINGS


@dataclass(frozen=True)
class Column:
    """One column of a table; one that is not required may be null."""

    name: str
    type: ColumnType
    comment: str
    is_required: bool = False


@dataclass(frozen=True)
class Table:
    """One Delta table: its columns with comments, the columns that name a row's subject, and the time of its rows."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    time: str
    """The time column; the newest row of a key by it is the key's state."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _column(name: str, type_: ColumnType, comment: str, *, required: bool = False) -> Column:
    return Column(name, type_, comment, required)


_CLUSTER = _column("cluster", STRING, "the RocketMQ cluster's name", required=True)
_QUEUE = (
    _CLUSTER,
    _column("consumer_group", STRING, "the consumer group", required=True),
    _column("topic", STRING, "the topic", required=True),
    _column("broker_name", STRING, "the queue's broker", required=True),
    _column("queue_id", INTEGER, "the queue's number in its broker", required=True),
)
_QUEUE_KEY = tuple(column.name for column in _QUEUE)
_CHANGED_AT = _column("changed_at", TIMESTAMP, "event time of this transition", required=True)
_BATCH_ID = _column("batch_id", LONG, "the micro-batch that wrote the row", required=True)


def _table(name: str, comment: str, key: tuple[str, ...], *columns: Column, time: str = "changed_at") -> Table:
    return Table(name, comment, key, (*columns, _BATCH_ID), time)


ALERTS = _table(
    "alerts",
    "One row per transition of an incident; the newest row of an incident_id is its state.",
    ("incident_id",),
    _column("alert_id", STRING, "hash of the identity labels: kind, cluster, group, topic, ...", required=True),
    _column(
        "incident_id", STRING, "alert_id and the time of the clock event that opened it, in ms: one page", required=True
    ),
    _column("kind", STRING, "what is wrong: starved_queue, duplicate_client_id, broker_isolated, ...", required=True),
    _column("severity", STRING, "critical, error, warning or info", required=True),
    _column("state", STRING, "PENDING, FIRING, RECOVERING, RESOLVED, or UNKNOWN: data is missing", required=True),
    _column("reason", STRING, "why this row was written (udfs.alerts.life.Reason)"),
    _column("cause", STRING, "frozen_client, mixed_strategy, ...; the kind itself if it has no other cause"),
    _CLUSTER,
    _column("consumer_group", STRING, "the consumer group, if the alert is about one"),
    _column("topic", STRING, "the topic, if the alert is about one"),
    _column("broker_name", STRING, "the broker or brokers, comma-separated, whose view shows it"),
    _column("client_id", STRING, "the client, if the alert is about one"),
    _column("queues", STRINGS, "the affected queues, as broker:queue_id, sorted"),
    _column("summary", STRING, "what is wrong, where, since when and why", required=True),
    _column("advice", STRING, "how to fix it, in one line", required=True),
    _column("evidence", STRING, "JSON: the addresses, offsets and times behind the finding", required=True),
    _column("inhibited_by", STRING, "the incident_id of its cause; an inhibited incident does not page"),
    _column("labels", STRING, "JSON: the identity labels in alert_id, without the kind"),
    _column("completeness", DOUBLE, "0 to 1: the share of its brokers and clients that gave data"),
    _column("flaps", INTEGER, "how often the condition returned in this incident"),
    _column("is_flapping", BOOLEAN, "whether it flaps: it stays open as one incident until it is calm"),
    _column("started_at", TIMESTAMP, "event time at which the condition was first seen", required=True),
    _column("fired_at", TIMESTAMP, "event time of the first FIRING row; null before"),
    _CHANGED_AT,
)

ASSIGNMENTS = _table(
    "assignments",
    "One row each time a queue's planned owner, observed owners or verdict changed.",
    _QUEUE_KEY,
    *_QUEUE,
    _column("planned_owner", STRING, "client_id to which the strategy assigns it; null if none"),
    _column(
        "observed_owners",
        STRINGS,
        "clients that pulled it recently: client_id, or client_addr if the client_id is unknown",
    ),
    _column(
        "verdict", STRING, "OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED or UNKNOWN", required=True
    ),
    _column("completeness", DOUBLE, "0 to 1: the share of the group's brokers and clients that gave data"),
    _column("since", TIMESTAMP, "event time at which this verdict began", required=True),
    _CHANGED_AT,
    _column("verdict_reason", STRING, "code for UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason); else null"),
)

MEMBERSHIPS = _table(
    "memberships",
    "One row each time a channel joined or left a consumer group in one broker's view.",
    ("cluster", "consumer_group", "broker_name", "client_id", "client_addr"),
    _CLUSTER,
    _column("consumer_group", STRING, "the consumer group", required=True),
    _column("broker_name", STRING, "the broker whose view it is", required=True),
    _column("client_id", STRING, "the member's ClientId", required=True),
    _column("client_addr", STRING, "ip:port of its channel at that broker", required=True),
    _column("language", STRING, "the client's language"),
    _column("client_version", STRING, "the client's release"),
    _column("topics", STRINGS, "topics that it subscribes to in this group, sorted"),
    _column("strategy", STRING, "AllocateMessageQueueStrategy.getName(), if reported"),
    _column(
        "change",
        STRING,
        "JOINED, CHANGED (topics or strategy), LEFT (unregistered or closed) or EXPIRED (silent)",
        required=True,
    ),
    _column("last_heartbeat", TIMESTAMP, "event time of its newest heartbeat", required=True),
    _CHANGED_AT,
)

BACKLOGS = _table(
    "backlogs",
    "One row each time a queue's backlog of 1,000 messages or more began, doubled, halved or ended.",
    _QUEUE_KEY,
    *_QUEUE,
    _column(
        "messages",
        LONG,
        "messages from the committed offset to the end of the queue; until the next row the backlog is within a factor "
        "of two. Below 1,000: it ended, and no row follows before 1,000. null: no longer known",
    ),
    _CHANGED_AT,
)

FAULT_ITEMS = _table(
    "fault_items",
    "One row each time a producer's FaultItem of a broker became unavailable or available again.",
    ("cluster", "broker_name", "client_id"),
    _CLUSTER,
    _column("broker_name", STRING, "the avoided broker", required=True),
    _column("client_id", STRING, "the producer that has the FaultItem", required=True),
    _column("client_version", STRING, "its release, which selects the latency table", required=True),
    _column(
        "current_latency_ms",
        LONG,
        "FaultItem.currentLatency, ms; after a return by time: the latency that caused it",
        required=True,
    ),
    _column("isolation", BOOLEAN, "whether a failed send isolated the broker", required=True),
    _column("start_timestamp", TIMESTAMP, "FaultItem.startTimestamp: avoided until then", required=True),
    _column("available", BOOLEAN, "FaultItem.isAvailable at changed_at", required=True),
    _CHANGED_AT,
)

BROKER_HEALTH = _table(
    "broker_health",
    "One row each time the number of producers that avoid a broker changed.",
    ("cluster", "broker_name"),
    _CLUSTER,
    _column("broker_name", STRING, "the broker", required=True),
    _column("unavailable_producers", INTEGER, "k: producers whose FaultItem is unavailable", required=True),
    _column("producers", INTEGER, "n: producers that keep a FaultItem of it", required=True),
    _column("unavailable_until", TIMESTAMP, "when the last of the k becomes available, as known now; null if k is 0"),
    _CHANGED_AT,
)

QUARANTINE = _table(
    "quarantine",
    "Messages that break their contract: the raw bytes and every reason.",
    ("topic", "partition", "offset", "ingest_time"),
    _column("topic", STRING, "the Kafka topic", required=True),
    _column("partition", INTEGER, "the Kafka partition", required=True),
    _column("offset", LONG, "the Kafka offset", required=True),
    _column("raw", BINARY, "the message's bytes; null for a message without a value"),
    _column("reasons", STRINGS, 'every reason, "code" or "code: field"', required=True),
    _column("ingest_time", TIMESTAMP, "the Kafka record's timestamp", required=True),
    time="ingest_time",
)

ALERT_DELIVERIES = _table(
    "alert_deliveries",
    "Notifications due, the result of each delivery attempt, or why none was sent. Renewals add no row.",
    ("incident_id", "receiver", "state"),
    _column("incident_id", STRING, "the incident", required=True),
    _column("state", STRING, "the state that is reported: FIRING, RESOLVED or ACKNOWLEDGED", required=True),
    _column("receiver", STRING, "the receiver's name; * if no receiver is notified", required=True),
    _column("attempt", INTEGER, "from 1; 0 without an attempt. Failures are logged at 1, 2, 4, 8, ...", required=True),
    _column("code", INTEGER, "HTTP status; null without an answer"),
    _column("latency_ms", LONG, "time to the answer or the time-out", required=True),
    _column("delivered_at", TIMESTAMP, "when the attempt ended, or the decision was made", required=True),
    _column("delivery_key", STRING, "incident_id, status and changed_at in ms; receivers deduplicate by it"),
    _column("kind", STRING, "the alert's kind"),
    _column("status", STRING, "firing, resolved or acknowledged"),
    _column("changed_at", TIMESTAMP, "event time of the reported transition"),
    _column("outcome", STRING, "PENDING, DELIVERED, RETRYING, REFUSED, SILENCED, INHIBITED, LIMITED or NO_ROUTE"),
    _column(
        "reason",
        STRING,
        "the receiver's answer, or the silence, mute, incident or limit that prevented the notification",
    ),
    _column("route", STRING, "the route that selected the receiver"),
    _column("static_labels", STRING, "JSON: what [[labels]] added to the notification; null if nothing"),
    time="delivered_at",
)

SILENCES = _table(
    "silences",
    "Silences: matchers, period and author; the newest row of a silence_id is its state.",
    ("silence_id",),
    _column("silence_id", STRING, "its name, 8 hex digits", required=True),
    _column("matchers", STRING, "JSON: label to glob patterns; one must match", required=True),
    _column("created_by", STRING, "its author", required=True),
    _column("comment", STRING, "the reason", required=True),
    _column("starts_at", TIMESTAMP, "start, inclusive", required=True),
    _column("ends_at", TIMESTAMP, "end, exclusive", required=True),
    _column("changed_at", TIMESTAMP, "when this row was written", required=True),
)

ACKNOWLEDGEMENTS = _table(
    "acknowledgements",
    "One row per acknowledgement of an incident.",
    ("incident_id", "acknowledged_at"),
    _column("incident_id", STRING, "the incident", required=True),
    _column("acknowledged_by", STRING, "the person who acknowledged it", required=True),
    _column("note", STRING, "the note", required=True),
    _column("acknowledged_at", TIMESTAMP, "time of the acknowledgement", required=True),
    time="acknowledged_at",
)

QUALITY = _table(
    "quality",
    "The result of each expectation on each sample of a topic's newest events.",
    ("suite", "expectation"),
    _column("suite", STRING, "the expectation suite: the topic, and the path of lists to its rows", required=True),
    _column("expectation", STRING, 'the column, and "in set" or "in range"', required=True),
    _column("success", BOOLEAN, "whether it held", required=True),
    _column("evaluated", LONG, "rows evaluated: those with a value", required=True),
    _column("unexpected", LONG, "rows that are not as expected"),
    _column("unexpected_share", DOUBLE, "unexpected of evaluated, 0 to 1"),
    _column("severity", STRING, "critical, warning or info; only critical ones open data_quality"),
    _column("description", STRING, "the expectation in words"),
    _column("observed", STRINGS, "up to five unexpected values"),
    _column("sample_offsets", STRINGS, "positions of up to five of them, as topic-partition@offset"),
    _column("topic", STRING, "the Kafka topic"),
    _column("offsets", STRING, "JSON: partition to the first and the last offset of the sample"),
    _column("query", STRING, "the query whose batch started it; null for `balancewatch quality`"),
    _column("validated_at", TIMESTAMP, "time of the validation", required=True),
    time="validated_at",
)

REPAIRS = _table(
    "repairs",
    "Quarantined messages that a replay published again.",
    ("topic", "partition", "offset", "ingest_time"),
    _column("topic", STRING, "the Kafka topic", required=True),
    _column("partition", INTEGER, "the Kafka partition", required=True),
    _column("offset", LONG, "the Kafka offset of the quarantined message", required=True),
    _column("ingest_time", TIMESTAMP, "its Kafka timestamp; offsets restart in a recreated topic", required=True),
    _column("action", STRING, "REPLAYED: Kafka has it", required=True),
    _column("value", BINARY, "the published message"),
    _column("owner", STRING, "the person who did it", required=True),
    _column("replayed_partition", INTEGER, "partition of the published message"),
    _column("replayed_offset", LONG, "offset of the published message"),
    _column("changed_at", TIMESTAMP, "time of the action", required=True),
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        ALERTS,
        ASSIGNMENTS,
        MEMBERSHIPS,
        BACKLOGS,
        FAULT_ITEMS,
        BROKER_HEALTH,
        QUARANTINE,
        ALERT_DELIVERIES,
        SILENCES,
        ACKNOWLEDGEMENTS,
        QUALITY,
        REPAIRS,
    )
}

TOMBSTONE_HOURS, TOMBSTONES = 2, "delta.deletedFileRetentionDuration"
"""How long a table's log remembers the files that were removed from it. Delta's own 168 would be a million a week."""

PROPERTIES: Mapping[str, str] = {
    TOMBSTONES: f"interval {TOMBSTONE_HOURS} hours",
    "delta.checkpointInterval": "100",  # a checkpoint in line with every tenth commit is what the default costs
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
}
