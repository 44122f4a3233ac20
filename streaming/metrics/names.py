"""All metrics: name, kind, labels and help text. README.md says what to do when a value rises.

The gauges of the tables leave out the canary's cluster. Groups and brokers beyond `metrics.max_groups` are summed under
the name "other".
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Metric:
    """A family of series, compared by identity."""

    name: str
    labels: tuple[str, ...]
    says: str


@dataclass(frozen=True, eq=False)
class Gauge(Metric):
    """A current value."""


@dataclass(frozen=True, eq=False)
class Counter(Metric):
    """A value that only grows, from 0 at each start. Its name ends in _total."""


@dataclass(frozen=True, eq=False)
class Histogram(Metric):
    """A distribution of durations; `buckets` are the upper bounds in seconds."""

    buckets: tuple[float, ...]


SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Buckets in seconds, from a step of a batch to a batch that catches up after an outage."""

LONG = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Buckets in seconds, from an immediate page to one that waited for its receiver."""

QUEUES = Gauge(
    "balancewatch_queues",
    ("cluster", "consumer_group", "verdict"),
    "Queues of a group by verdict: OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED or UNKNOWN.",
)
MEMBERS = Gauge(
    "balancewatch_members",
    ("cluster", "consumer_group"),
    "Channels of a group's members, in the view of the broker that lists the most.",
)
CLIENT_IDS = Gauge(
    "balancewatch_client_ids",
    ("cluster", "consumer_group"),
    "Distinct ClientIds of a group, in the view of the broker that lists the most.",
)
UNAVAILABLE_PRODUCERS = Gauge(
    "balancewatch_unavailable_producers",
    ("cluster", "broker_name"),
    "Producers whose FaultItem marks the broker as unavailable: they avoid it when they send.",
)
PRODUCERS = Gauge(
    "balancewatch_producers", ("cluster", "broker_name"), "Producers that keep a FaultItem for the broker."
)
GROUPS = Gauge("balancewatch_groups", ("cluster",), "Consumer groups of a cluster that have queues or members.")
FOLDED = Gauge(
    "balancewatch_series_limited",
    ("kind",),
    'Groups, brokers or clusters without their own series: they are summed under "other" or left out.',
)
INCIDENTS = Gauge(
    "balancewatch_incidents",
    ("cluster", "kind", "severity", "state", "is_inhibited"),
    "Open incidents: PENDING, FIRING, RECOVERING or UNKNOWN. An inhibited incident has a cause that pages instead.",
)
CANARY_SECONDS = Histogram(
    "balancewatch_canary_latency_seconds",
    (),
    "Time from the injection of a simulated twin into Kafka to its delivery by the relay, the path of a real page.",
    LONG,
)
CANARY_AGE = Gauge(
    "balancewatch_canary_age_seconds",
    (),
    "Time since the newest canary arrived, or since the start if none has arrived. NaN if another process notifies.",
)
CANARY_INTERVAL = Gauge(
    "balancewatch_canary_interval_seconds",
    (),
    "canary.interval_seconds: the interval between canaries; 0 without canaries.",
)
DELIVERY_ATTEMPTS = Counter(
    "balancewatch_delivery_attempts_total",
    ("receiver", "outcome"),
    "Calls of a receiver by outcome: DELIVERED, RETRY, REFUSED or BAD_KEY. Renewals and watchdogs count.",
)
DELIVERY_DECISIONS = Counter(
    "balancewatch_delivery_decisions_total",
    ("outcome",),
    "Rows of the delivery log: PENDING, DELIVERED, RETRYING, REFUSED, SILENCED, INHIBITED, LIMITED or NO_ROUTE.",
)
DELIVERY_SECONDS = Histogram(
    "balancewatch_delivery_seconds",
    ("receiver",),
    "Time from an alert's state change, in event time, to its acceptance by the receiver.",
    LONG,
)
ATTEMPT_SECONDS = Histogram(
    "balancewatch_delivery_attempt_seconds",
    ("receiver",),
    "Duration of one call of a receiver, up to its answer or timeout.",
    SHORT,
)
DUE_NOTICES = Gauge(
    "balancewatch_notifications_pending", ("receiver",), "Notifications that wait for delivery to a receiver."
)
RELAY_RESTARTS = Counter(
    "balancewatch_relay_restarts_total", (), "Restarts of the relay after a failure; it resumes from the tables."
)

PHASE_SECONDS = Histogram(
    "balancewatch_batch_phase_seconds",
    ("query", "phase"),
    "Duration of a micro-batch by Spark phase: latestOffset, queryPlanning, walCommit, addBatch, ... "
    "triggerExecution is the total. The pause after a batch (queries.rest_ms) is in no phase.",
    SHORT,
)
MESSAGES = Counter("balancewatch_messages_total", ("query", "topic"), "Kafka messages that a query has processed.")
PROCESSED = Gauge(
    "balancewatch_processed_rows_per_second", ("query",), "Processing rate of the newest batch with messages."
)
LAG = Gauge(
    "balancewatch_kafka_lag_messages",
    ("query", "topic"),
    "Messages of a topic that the newest batch left in Kafka, summed over the partitions.",
)
LAG_MAX = Gauge(
    "balancewatch_kafka_lag_max_messages",
    ("query", "topic"),
    "Messages that the newest batch left in the topic's partition with the most lag.",
)
EVENT_TIME_GAP = Gauge(
    "balancewatch_event_time_lag_seconds",
    ("cluster",),
    "Age of the newest collector clock event that the query has processed; after a restart, of the newest verdict.",
)
PROGRESS_AGE = Gauge(
    "balancewatch_progress_age_seconds",
    ("query",),
    "Time since a query ended a batch or reported that it is idle. For a separate `relay` process: since it read the "
    "table `alerts`. Measured without the JVM.",
)
JVM_AGE = Gauge(
    "balancewatch_jvm_age_seconds", (), "Time since the JVM last answered; the service asks it every few seconds."
)
JVM_HEAP = Gauge("balancewatch_jvm_heap_bytes", (), "Used heap of the JVM.")
JVM_HEAP_MAX = Gauge("balancewatch_jvm_heap_max_bytes", (), "Maximum heap of the JVM: spark.driver_memory.")
STATE_ROWS = Counter(
    "balancewatch_state_rows_updated_total",
    ("query",),
    "State values that a query has written: per task an index, a stamp and the changed buckets.",
)
STATE_MEMORY = Gauge(
    "balancewatch_state_memory_bytes", ("query",), "Memory of a query's state store, outside the heap."
)
STATE_FILES = Gauge(
    "balancewatch_state_files_bytes", ("query",), "Size of a query's state files, as of its newest snapshot."
)
STATE_COMMIT = Histogram(
    "balancewatch_state_commit_seconds",
    ("query",),
    "Time to commit a batch's state, summed over the partitions.",
    SHORT,
)
QUERY_STARTS = Counter(
    "balancewatch_query_starts_total",
    ("query",),
    "Starts of a query: the first one, and one for each change of the rules.",
)
RULES_TAKEN = Counter("balancewatch_rules_taken_total", (), "Reloads of changed rules or receivers while running.")
ROWS_WRITTEN = Counter("balancewatch_rows_written_total", ("table",), "Rows that batches wrote to the Delta tables.")
QUARANTINED_MESSAGES = Counter(
    "balancewatch_quarantined_messages_total", ("topic",), "Messages that broke their contract, each counted once."
)
QUARANTINED = Counter(
    "balancewatch_quarantined_total",
    ("topic", "reason"),
    "Messages that broke their contract, by reason. A message with several reasons counts once for each.",
)
TABLE_AGE = Gauge(
    "balancewatch_table_age_seconds",
    ("table",),
    "Time since the metrics of a Delta table were current. If the table cannot be read, they keep their last values.",
)
PART_ALIVE = Gauge(
    "balancewatch_part_alive",
    ("part",),
    "1 while a thread of the service is alive: relay, clock-keeper, canary or quality.",
)
LOG_LINES = Counter("balancewatch_log_lines_total", ("level",), "Log lines of level warning or error.")
BUILD_INFO = Gauge("balancewatch_build_info", ("version",), "Always 1; the label has the running release.")

METRICS = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of this file."""
