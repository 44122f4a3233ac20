"""Metrics of the service's health: batches, Kafka, time, state, the JVM, threads."""

from streaming.metrics.metric import SHORT, Counter, Gauge, Histogram

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
