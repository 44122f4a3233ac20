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
    """The column that its history is asked by; the newest row of a key by it is the key's state."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns."""
        return tuple(column.name for column in self.columns)


def _column(name: str, type_: ColumnType, comment: str, *, required: bool = False) -> Column:
    return Column(name, type_, comment, required)


_CLUSTER = _column("cluster", STRING, "the RocketMQ cluster's name", required=True)
_CHANGED_AT = _column("changed_at", TIMESTAMP, "event time of this transition", required=True)
_BATCH_ID = _column("batch_id", LONG, "the micro-batch that wrote the row", required=True)


def _table(name: str, comment: str, key: tuple[str, ...], *columns: Column, time: str = "changed_at") -> Table:
    return Table(name, comment, key, (*columns, _BATCH_ID), time)


ALERTS = _table(
    "alerts",
    "One row a transition of an incident; the newest row of an incident_id is its state.",
    ("incident_id",),
    _column("alert_id", STRING, "hash of the identity labels: kind, cluster, group, topic, ...", required=True),
    _column("incident_id", STRING, "alert_id and the tick that opened it, in ms: one page", required=True),
    _column("kind", STRING, "what is wrong: starved_queue, duplicate_client_id, broker_isolated, ...", required=True),
    _column("severity", STRING, "critical, error, warning or info", required=True),
    _column("state", STRING, "PENDING, FIRING, RECOVERING, RESOLVED, or UNKNOWN: the data is missing", required=True),
    _column("reason", STRING, "why this row was written: an enumeration (udfs.alerts.life.Reason)"),
    _column("cause", STRING, "why: frozen_client, mixed_strategy, ...; the kind itself where it is its own cause"),
    _CLUSTER,
    _column("consumer_group", STRING, "the consumer group, where one is concerned"),
    _column("topic", STRING, "the topic, where one is concerned"),
    _column("broker_name", STRING, "the broker, or the brokers joined by a comma, whose view shows it"),
    _column("client_id", STRING, "the client, where one is concerned"),
    _column("queues", STRINGS, "queues nobody consumes, as broker:queue_id, sorted"),
    _column("summary", STRING, "what, where, since when and why, in a sentence or two", required=True),
    _column("advice", STRING, "the one line that fixes it", required=True),
    _column("evidence", STRING, "JSON: addresses, offsets and times that the verdict rests on", required=True),
    _column("inhibited_by", STRING, "the incident_id that explains this one, so this one does not page"),
    _column("labels", STRING, "JSON: the identity labels that alert_id is the hash of, without the kind"),
    _column("completeness", DOUBLE, "0 to 1: the share of the brokers and clients concerned that gave data"),
    _column("flaps", INTEGER, "how often the condition came back in this incident"),
    _column("is_flapping", BOOLEAN, "it comes and goes: held open as one incident until it calms down"),
    _column("started_at", TIMESTAMP, "event time of the first sign", required=True),
    _column("fired_at", TIMESTAMP, "event time of the first FIRING row; null before it"),
    _CHANGED_AT,
)

ASSIGNMENTS = _table(
    "assignments",
    "One row each time a queue's planned owner, observed owners or verdict changed.",
    ("cluster", "consumer_group", "topic", "broker_name", "queue_id"),
    _CLUSTER,
    _column("consumer_group", STRING, "the consumer group", required=True),
    _column("topic", STRING, "the topic", required=True),
    _column("broker_name", STRING, "the queue's broker", required=True),
    _column("queue_id", INTEGER, "the queue's number in its broker", required=True),
    _column("planned_owner", STRING, "client_id the strategy gives it to; null when nobody"),
    _column("observed_owners", STRINGS, "who pulled it lately: client_id, or client_addr where only that is known"),
    _column(
        "verdict", STRING, "OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED or UNKNOWN", required=True
    ),
    _column("completeness", DOUBLE, "0 to 1: the share of the group's brokers and clients that gave data"),
    _column("since", TIMESTAMP, "event time since which this verdict holds", required=True),
    _CHANGED_AT,
    _column(
        "verdict_reason", STRING, "why it is UNKNOWN or NOT_JUDGED: a code (udfs.groups.verdict_reason); else null"
    ),
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
    _column("topics", STRINGS, "topics it subscribes in this group, sorted"),
    _column("strategy", STRING, "AllocateMessageQueueStrategy.getName(), where somebody reported it"),
    _column(
        "change",
        STRING,
        "JOINED, CHANGED (topics or strategy), LEFT (unregistered or closed) or EXPIRED (silent)",
        required=True,
    ),
    _column("last_heartbeat", TIMESTAMP, "event time of its newest heartbeat", required=True),
    _CHANGED_AT,
)

FAULT_ITEMS = _table(
    "fault_items",
    "One row each time a producer's FaultItem of a broker became unavailable or available again.",
    ("cluster", "broker_name", "client_id"),
    _CLUSTER,
    _column("broker_name", STRING, "the broker the item is about", required=True),
    _column("client_id", STRING, "the producer that keeps the item", required=True),
    _column("client_version", STRING, "its release, which decides the latency table", required=True),
    _column("current_latency_ms", LONG, "FaultItem.currentLatency, ms; back by time: what kept it out", required=True),
    _column("isolation", BOOLEAN, "whether the send that decided it failed and isolated the broker", required=True),
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
    _column("unavailable_until", TIMESTAMP, "when the last of the k comes back, as known now; null when k is 0"),
    _CHANGED_AT,
)

QUARANTINE = _table(
    "quarantine",
    "Messages that break their contract, whole, with every reason.",
    ("topic", "partition", "offset"),
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
    "What is owed to each receiver and what came of each attempt; or why nobody was notified. Renewals leave no row.",
    ("incident_id", "receiver", "state"),
    _column("incident_id", STRING, "the incident", required=True),
    _column("state", STRING, "the state that is reported: FIRING, RESOLVED or ACKNOWLEDGED", required=True),
    _column("receiver", STRING, "the receiver's name; * in a row that says why nobody is told", required=True),
    _column("attempt", INTEGER, "from 1; 0 where nothing was attempted. Of failures 1, 2, 4, 8, ...", required=True),
    _column("code", INTEGER, "HTTP status; null when no answer came"),
    _column("latency_ms", LONG, "until the answer, or until it was given up", required=True),
    _column("delivered_at", TIMESTAMP, "when the attempt ended, or when this was decided", required=True),
    _column("delivery_key", STRING, "incident_id, status and changed_at in ms: what receivers drop repetitions by"),
    _column("kind", STRING, "the alert's kind"),
    _column("status", STRING, "firing, resolved or acknowledged"),
    _column("changed_at", TIMESTAMP, "event time of the transition that is told"),
    _column("outcome", STRING, "PENDING, DELIVERED, RETRYING, REFUSED, SILENCED, INHIBITED, LIMITED or NO_ROUTE"),
    _column("reason", STRING, "the receiver's answer; or the silence, mute, incident or limit that kept it back"),
    _column("route", STRING, "the route that named the receiver"),
    time="delivered_at",
)

SILENCES = _table(
    "silences",
    "What need not be reported, from when until when, by whose word; the newest row of a silence_id holds.",
    ("silence_id",),
    _column("silence_id", STRING, "its name, 8 hex digits", required=True),
    _column("matchers", STRING, "JSON: label to the glob patterns of which one must match", required=True),
    _column("created_by", STRING, "who answers for it", required=True),
    _column("comment", STRING, "why", required=True),
    _column("starts_at", TIMESTAMP, "it covers alerts from then on", required=True),
    _column("ends_at", TIMESTAMP, "until just before", required=True),
    _column("changed_at", TIMESTAMP, "when this row was written", required=True),
)

ACKNOWLEDGEMENTS = _table(
    "acknowledgements",
    "One row each time somebody said that they are at an incident.",
    ("incident_id", "acknowledged_at"),
    _column("incident_id", STRING, "the incident", required=True),
    _column("acknowledged_by", STRING, "who is at it", required=True),
    _column("note", STRING, "what they say", required=True),
    _column("acknowledged_at", TIMESTAMP, "when they said so", required=True),
    time="acknowledged_at",
)

QUALITY = _table(
    "quality",
    "What came of each expectation on each sample of a topic's newest events.",
    ("suite", "expectation"),
    _column("suite", STRING, "the expectation suite: the topic, and the lists that lead to its rows", required=True),
    _column("expectation", STRING, "the column it is about, and in set or in range", required=True),
    _column("success", BOOLEAN, "whether it held", required=True),
    _column("evaluated", LONG, "rows evaluated: those with a value", required=True),
    _column("unexpected", LONG, "those of them that are not as expected"),
    _column("unexpected_share", DOUBLE, "unexpected of evaluated, 0 to 1"),
    _column("severity", STRING, "critical, warning or info; only critical ones open data_quality"),
    _column("description", STRING, "the expectation in words"),
    _column("observed", STRINGS, "up to five unexpected values"),
    _column("sample_offsets", STRINGS, "where up to five of them stand, as topic-partition@offset"),
    _column("topic", STRING, "the Kafka topic"),
    _column("offsets", STRING, "JSON: partition to the first and the last offset of the sample"),
    _column("query", STRING, "the query whose batch led to it; null for one that somebody asked for"),
    _column("validated_at", TIMESTAMP, "when", required=True),
    time="validated_at",
)

REPAIRS = _table(
    "repairs",
    "What people did with quarantined messages, action by action. One that has been claimed is never published again.",
    ("topic", "partition", "offset", "ingest_time"),
    _column("topic", STRING, "the Kafka topic", required=True),
    _column("partition", INTEGER, "the Kafka partition", required=True),
    _column("offset", LONG, "the Kafka offset of the quarantined message", required=True),
    _column("ingest_time", TIMESTAMP, "its Kafka timestamp: offsets begin anew in a topic made anew", required=True),
    _column("action", STRING, "REPAIRED, CLAIMED (for publishing, once) or REPLAYED (Kafka has it)", required=True),
    _column("value", BINARY, "the repaired message; in CLAIMED what is published"),
    _column("claim_id", STRING, "the replay that claimed it, also in the header of what it published"),
    _column("owner", STRING, "who did it", required=True),
    _column("replayed_partition", INTEGER, "where Kafka put it; of REPLAYED"),
    _column("replayed_offset", LONG, "the same"),
    _column("changed_at", TIMESTAMP, "when", required=True),
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        ALERTS,
        ASSIGNMENTS,
        MEMBERSHIPS,
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

PROPERTIES: Mapping[str, str] = {
    "delta.checkpointInterval": "100",  # a checkpoint in line with every tenth commit is what the default costs
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
}
