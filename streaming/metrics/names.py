"""All metrics: name, kind, unit, labels, help text, and what to do when the value rises.

The manual page, the exporter, the Prometheus rules and the Grafana board use this list. The gauges of the tables leave
out the canary's cluster. Groups and brokers beyond `metrics.max_groups` are summed under the name "other".
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Metric:
    """A family of series, compared by identity. `rises` explains a rise and what to do about it."""

    name: str
    unit: str
    labels: tuple[str, ...]
    says: str
    rises: str


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
    "queues",
    ("cluster", "consumer_group", "verdict"),
    "Queues of a group by verdict: OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED or UNKNOWN.",
    "More queues are UNOWNED or NOT_CONSUMED: no client consumes them. `balancewatch alerts --current --group GROUP` "
    "names the cause.",
)
MEMBERS = Gauge(
    "balancewatch_members",
    "channels",
    ("cluster", "consumer_group"),
    "Channels of a group's members, in the view of the broker that lists the most.",
    "Clients joined. Above balancewatch_client_ids, clients share a ClientId: see the alert duplicate_client_id. "
    "0: the group is offline.",
)
CLIENT_IDS = Gauge(
    "balancewatch_client_ids",
    "clients",
    ("cluster", "consumer_group"),
    "Distinct ClientIds of a group, in the view of the broker that lists the most.",
    "The group was scaled out. It falls when the group shrinks.",
)
UNAVAILABLE_PRODUCERS = Gauge(
    "balancewatch_unavailable_producers",
    "producers",
    ("cluster", "broker_name"),
    "Producers whose FaultItem marks the broker as unavailable: they avoid it when they send.",
    "The broker is slow or refuses sends: check it. broker_isolated pages once enough producers avoid the broker.",
)
PRODUCERS = Gauge(
    "balancewatch_producers",
    "producers",
    ("cluster", "broker_name"),
    "Producers that keep a FaultItem for the broker.",
    "More producers report. No action needed.",
)
GROUPS = Gauge(
    "balancewatch_groups",
    "groups",
    ("cluster",),
    "Consumer groups of a cluster that have queues or members.",
    "State and batches grow with the number of groups. So does the number of series, up to metrics.max_groups.",
)
FOLDED = Gauge(
    "balancewatch_series_limited",
    "groups",
    ("kind",),
    'Groups, brokers or clusters without their own series: they are summed under "other" or left out.',
    "Raise metrics.max_groups if Prometheus can store more series. Alerts and tables still name all of them.",
)
INCIDENTS = Gauge(
    "balancewatch_incidents",
    "incidents",
    ("cluster", "kind", "severity", "state", "is_inhibited"),
    "Open incidents: PENDING, FIRING, RECOVERING or UNKNOWN. An inhibited incident has a cause that pages instead.",
    "`balancewatch alerts --current --state FIRING` lists the firing incidents, each with its fix.",
)
CANARY_SECONDS = Histogram(
    "balancewatch_canary_latency_seconds",
    "seconds",
    (),
    "Time from the injection of a simulated twin into Kafka to its delivery by the relay, the path of a real page.",
    "Pages are as late. Check balancewatch_batch_phase_seconds and balancewatch_kafka_lag_messages, then "
    "balancewatch_notifications_pending.",
    LONG,
)
CANARY_AGE = Gauge(
    "balancewatch_canary_age_seconds",
    "seconds",
    (),
    "Time since the newest canary arrived, or since the start if none has arrived. NaN if another process notifies.",
    "Above two intervals and a minute, real alerts may not arrive either. Check /readyz, then `balancewatch canary`.",
)
CANARY_INTERVAL = Gauge(
    "balancewatch_canary_interval_seconds",
    "seconds",
    (),
    "canary.interval_seconds: the interval between canaries; 0 without canaries.",
    "The setting was changed. The rule BalancewatchCanaryLost uses it.",
)
DELIVERY_ATTEMPTS = Counter(
    "balancewatch_delivery_attempts_total",
    "calls",
    ("receiver", "outcome"),
    "Calls of a receiver by outcome: DELIVERED, RETRY, REFUSED or BAD_KEY. Renewals and watchdogs count.",
    "Any outcome but DELIVERED: the receiver or the network fails. The table alert_deliveries has its exact answers.",
)
DELIVERY_DECISIONS = Counter(
    "balancewatch_delivery_decisions_total",
    "decisions",
    ("outcome",),
    "Rows of the delivery log: PENDING, DELIVERED, RETRYING, REFUSED, SILENCED, INHIBITED, LIMITED or NO_ROUTE.",
    "LIMITED: oncall.max_firing_per_kind was reached. NO_ROUTE: no route matches the alert. "
    "SILENCED: see `balancewatch silence list`.",
)
DELIVERY_SECONDS = Histogram(
    "balancewatch_delivery_seconds",
    "seconds",
    ("receiver",),
    "Time from an alert's state change, in event time, to its acceptance by the receiver.",
    "Notifications are late: the receiver fails, a digest waits, or batches lag behind.",
    LONG,
)
ATTEMPT_SECONDS = Histogram(
    "balancewatch_delivery_attempt_seconds",
    "seconds",
    ("receiver",),
    "Duration of one call of a receiver, up to its answer or timeout.",
    "The receiver or the network is slow. Above oncall.timeout_seconds a call counts as failed.",
    SHORT,
)
DUE_NOTICES = Gauge(
    "balancewatch_notifications_pending",
    "notifications",
    ("receiver",),
    "Notifications that wait for delivery to a receiver.",
    "The receiver does not accept them: check balancewatch_delivery_attempts_total and the log. The relay retries "
    "until the receiver accepts them.",
)
RELAY_RESTARTS = Counter(
    "balancewatch_relay_restarts_total",
    "times",
    (),
    "Restarts of the relay after a failure; it resumes from the tables.",
    'The log line "relay restarted" has the reason.',
)

VERDICTS = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""The metrics of verdicts, incidents and notifications."""

PHASE_SECONDS = Histogram(
    "balancewatch_batch_phase_seconds",
    "seconds",
    ("query", "phase"),
    "Duration of a micro-batch by Spark phase: latestOffset, queryPlanning, walCommit, addBatch, ... "
    "triggerExecution is the total. The pause after a batch (queries.rest_ms) is in no phase.",
    "addBatch: the rules, the state or the tables are slow. latestOffset: Kafka is slow. "
    "walCommit or commitOffsets: the checkpoint's disk is slow.",
    SHORT,
)
MESSAGES = Counter(
    "balancewatch_messages_total",
    "messages",
    ("query", "topic"),
    "Kafka messages that a query has processed.",
    "Messages arrive. If it does not grow, no collector or agent publishes, or the query does not run.",
)
PROCESSED = Gauge(
    "balancewatch_processed_rows_per_second",
    "messages per second",
    ("query",),
    "Processing rate of the newest batch with messages.",
    "No action needed. If it falls to the arrival rate, lag follows: add cores or partitions.",
)
LAG = Gauge(
    "balancewatch_kafka_lag_messages",
    "messages",
    ("query", "topic"),
    "Messages of a topic that the newest batch left in Kafka, summed over the partitions.",
    "Messages arrive faster than the query processes them. Check balancewatch_batch_phase_seconds; if batches are "
    "short, raise queries.max_offsets_per_trigger.",
)
LAG_MAX = Gauge(
    "balancewatch_kafka_lag_max_messages",
    "messages",
    ("query", "topic"),
    "Messages that the newest batch left in the topic's partition with the most lag.",
    "If it is far above the other partitions, the keys are skewed or a Kafka broker is slow.",
)
EVENT_TIME_GAP = Gauge(
    "balancewatch_event_time_lag_seconds",
    "seconds",
    ("cluster",),
    "Age of the newest collector clock event that the query has processed; after a restart, of the newest verdict.",
    "The collector stopped or the query lags. Clock events that `run` publishes for a silent collector do not count. "
    "A simulated past keeps its age.",
)
PROGRESS_AGE = Gauge(
    "balancewatch_progress_age_seconds",
    "seconds",
    ("query",),
    "Time since a query ended a batch or reported that it is idle. For a separate `relay` process: since it read the "
    "table `alerts`. Measured without the JVM.",
    "The query hangs on Kafka, the disk or the JVM. /readyz answers 503 above metrics.unready_after_seconds, /healthz "
    "above metrics.unhealthy_after_seconds.",
)
JVM_AGE = Gauge(
    "balancewatch_jvm_age_seconds",
    "seconds",
    (),
    "Time since the JVM last answered; the service asks it every few seconds.",
    "The JVM hangs or collects garbage. If the heap is full, raise spark.driver_memory; if the value keeps rising, "
    "restart the service.",
)
JVM_HEAP = Gauge(
    "balancewatch_jvm_heap_bytes",
    "bytes",
    (),
    "Used heap of the JVM.",
    "If it stays near balancewatch_jvm_heap_max_bytes, raise spark.driver_memory or lower "
    "queries.max_offsets_per_trigger.",
)
JVM_HEAP_MAX = Gauge(
    "balancewatch_jvm_heap_max_bytes",
    "bytes",
    (),
    "Maximum heap of the JVM: spark.driver_memory.",
    "The setting was changed.",
)
STATE_ROWS = Counter(
    "balancewatch_state_rows_updated_total",
    "rows",
    ("query",),
    "State values that a query has written: per task an index, a stamp and the changed buckets.",
    "State changes often: groups come and go, or routes change.",
)
STATE_MEMORY = Gauge(
    "balancewatch_state_memory_bytes",
    "bytes",
    ("query",),
    "Memory of a query's state store, outside the heap.",
    "Leave free memory on the machine for it.",
)
STATE_FILES = Gauge(
    "balancewatch_state_files_bytes",
    "bytes",
    ("query",),
    "Size of a query's state files, as of its newest snapshot.",
    "It grows with groups and brokers. If these did not grow, a publisher invents names.",
)
STATE_COMMIT = Histogram(
    "balancewatch_state_commit_seconds",
    "seconds",
    ("query",),
    "Time to commit a batch's state, summed over the partitions.",
    "The checkpoint's disk is slow, or the state is large.",
    SHORT,
)
QUERY_STARTS = Counter(
    "balancewatch_query_starts_total",
    "starts",
    ("query",),
    "Starts of a query: the first one, and one for each change of the rules.",
    "If you did not change the rules, a program rewrites the rules file.",
)
RULES_TAKEN = Counter(
    "balancewatch_rules_taken_total",
    "times",
    (),
    "Reloads of changed rules or receivers while running.",
    'The log names each changed key: "rule changed" or "notification settings changed".',
)
ROWS_WRITTEN = Counter(
    "balancewatch_rows_written_total",
    "rows",
    ("table",),
    "Rows that batches wrote to the Delta tables.",
    "More changes are recorded. For assignments and memberships: clients come and go.",
)
QUARANTINED_MESSAGES = Counter(
    "balancewatch_quarantined_messages_total",
    "messages",
    ("topic",),
    "Messages that broke their contract, each counted once.",
    "Their share of balancewatch_messages_total is the share of lost data.",
)
QUARANTINED = Counter(
    "balancewatch_quarantined_total",
    "messages",
    ("topic", "reason"),
    "Messages that broke their contract, by reason. A message with several reasons counts once for each.",
    "A publisher sends invalid messages. The table quarantine has each full message with its reasons.",
)
TABLE_AGE = Gauge(
    "balancewatch_table_age_seconds",
    "seconds",
    ("table",),
    "Time since the metrics of a Delta table were current. If the table cannot be read, they keep their last values.",
    'The table is unreadable or its storage hangs: the log line "table not read for metrics" has the reason.',
)
PART_ALIVE = Gauge(
    "balancewatch_part_alive",
    "flag",
    ("part",),
    "1 while a thread of the service is alive: relay, clock-keeper, canary or quality.",
    "The thread is alive. At 0 the thread died and /healthz answers 503: restart the service; it resumes where it "
    "stopped.",
)
LOG_LINES = Counter(
    "balancewatch_log_lines_total",
    "lines",
    ("level",),
    "Log lines of level warning or error.",
    "Read the log.",
)
BUILD_INFO = Gauge(
    "balancewatch_build_info",
    "flag",
    ("version",),
    "Always 1; the label has the running release.",
    "Never.",
)

METRICS = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of this file."""

HEALTH = METRICS[len(VERDICTS) :]
"""The metrics of the service's health: batches, Kafka, time, state, the JVM, threads."""
