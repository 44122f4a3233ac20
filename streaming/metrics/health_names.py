"""The metrics of the service's own health: batches, Kafka, time, state, the JVM, threads."""

from streaming.metrics.metric import SHORT, Counter, Gauge, Histogram

PHASE_SECONDS = Histogram(
    "balancewatch_batch_phase_seconds",
    "seconds",
    ("query", "phase"),
    "A micro-batch by Spark's phases: latestOffset, queryPlanning, walCommit, addBatch, ...; triggerExecution is all. "
    "The rest after a batch (queries.rest_ms) is in none of them.",
    "addBatch: the rules, the state and the tables. latestOffset: Kafka. walCommit, commitOffsets: its disk.",
    SHORT,
)
MESSAGES = Counter(
    "balancewatch_messages_total",
    "messages",
    ("query", "topic"),
    "Kafka messages that a query has worked through.",
    "Nothing. That it stands still means that nobody publishes, or the query does not run.",
)
PROCESSED = Gauge(
    "balancewatch_processed_rows_per_second",
    "messages per second",
    ("query",),
    "How fast the newest batch with messages was worked through.",
    "Nothing. Where it comes down to what arrives, the next step is lag: more cores, or more partitions.",
)
LAG = Gauge(
    "balancewatch_kafka_lag_messages",
    "messages",
    ("query", "topic"),
    "Messages in Kafka that the newest batch left for the next ones, over a topic's partitions.",
    "The query is slower than what arrives: see the phases; raise queries.max_offsets_per_trigger if they are short.",
)
LAG_MAX = Gauge(
    "balancewatch_kafka_lag_max_messages",
    "messages",
    ("query", "topic"),
    "The same in the topic's partition that is furthest behind.",
    "Far above the others' share: the keys are skewed, or one broker of Kafka is slow.",
)
EVENT_TIME_GAP = Gauge(
    "balancewatch_event_time_lag_seconds",
    "seconds",
    ("cluster",),
    "From a collector's newest clock event that was worked through to now; after a restart, from the newest verdict.",
    "The collector stopped, though `run` then keeps the time, or the query lags; a simulated past is as old as it is.",
)
PROGRESS_AGE = Gauge(
    "balancewatch_progress_age_seconds",
    "seconds",
    ("query",),
    "Since a query ended a batch or said that it has nothing to do, or since a relay of its own, `relay`, read the "
    "table `alerts`; counted by a thread that needs no JVM.",
    "It hangs: Kafka, the disk or the JVM. /readyz says 503 above metrics.unready_after_seconds, /healthz above "
    "unhealthy_after_seconds.",
)
JVM_AGE = Gauge(
    "balancewatch_jvm_age_seconds",
    "seconds",
    (),
    "Since the JVM last answered; it is asked every few seconds.",
    "It hangs or collects garbage: raise spark.driver_memory if the heap is full; restart it if it stays.",
)
JVM_HEAP = Gauge(
    "balancewatch_jvm_heap_bytes",
    "bytes",
    (),
    "Heap that the JVM uses.",
    "Near balancewatch_jvm_heap_max_bytes for long: raise spark.driver_memory, or read less at a time.",
)
JVM_HEAP_MAX = Gauge(
    "balancewatch_jvm_heap_max_bytes",
    "bytes",
    (),
    "Heap that the JVM may use: spark.driver_memory.",
    "Nothing: it is a setting.",
)
STATE_ROWS = Counter(
    "balancewatch_state_rows_updated_total",
    "rows",
    ("query",),
    "State values that a query has written: an index, a stamp and the buckets that changed, for each task.",
    "Much of what is known changes: groups come and go, or routes change.",
)
STATE_MEMORY = Gauge(
    "balancewatch_state_memory_bytes",
    "bytes",
    ("query",),
    "Memory of a query's state store.",
    "It is outside of the heap: leave the machine room for it.",
)
STATE_FILES = Gauge(
    "balancewatch_state_files_bytes",
    "bytes",
    ("query",),
    "Files of a query's state, as of its newest snapshot.",
    "It follows groups and brokers. Without more of these, names are made up by whoever publishes.",
)
STATE_COMMIT = Histogram(
    "balancewatch_state_commit_seconds",
    "seconds",
    ("query",),
    "Committing a batch's state, summed over its partitions.",
    "The checkpoint's disk is slow, or the state large.",
    SHORT,
)
QUERY_STARTS = Counter(
    "balancewatch_query_starts_total",
    "starts",
    ("query",),
    "Starts of a query: the first, and one each time that changed rules are taken.",
    "With rules that nobody changed, something rewrites their file.",
)
RULES_TAKEN = Counter(
    "balancewatch_rules_taken_total",
    "times",
    (),
    "Changed rules or receivers were taken while running.",
    'Each is in the log, key by key: "rule changed".',
)
ROWS_WRITTEN = Counter(
    "balancewatch_rows_written_total",
    "rows",
    ("table",),
    "Rows of batches for the Delta tables.",
    "Much changes. Of assignments and memberships: clients come and go.",
)
QUARANTINED_MESSAGES = Counter(
    "balancewatch_quarantined_messages_total",
    "messages",
    ("topic",),
    "Messages that broke their contract, each once however many reasons it has.",
    "As a share of balancewatch_messages_total it says how much of what publishers tell is lost.",
)
QUARANTINED = Counter(
    "balancewatch_quarantined_total",
    "messages",
    ("topic", "reason"),
    "Messages that broke their contract, each once for each of its reasons: summed it may be more than all of them.",
    "A publisher sends what it should not: the table quarantine has every message whole, with its reasons.",
)
PART_ALIVE = Gauge(
    "balancewatch_part_alive",
    "is so",
    ("part",),
    "1 while a thread of the service is alive: relay, clock-keeper, canary, quality.",
    "Nothing. 0: it died, and /healthz says 503; start the service again: it goes on where it was.",
)
LOG_LINES = Counter(
    "balancewatch_log_lines_total",
    "lines",
    ("level",),
    "Lines of the log that are warnings or errors.",
    "Read them.",
)
BUILD_INFO = Gauge(
    "balancewatch_build_info",
    "is so",
    ("version",),
    "1, with the release that runs.",
    "Nothing.",
)
