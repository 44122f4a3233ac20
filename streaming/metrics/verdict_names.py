"""Metrics of verdicts, incidents and notifications.

They reflect the current tables and leave out the canary's cluster. Groups and brokers beyond `metrics.max_groups` are
summed under the name "other".
"""

from streaming.metrics.metric import LONG, SHORT, Counter, Gauge, Histogram

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
