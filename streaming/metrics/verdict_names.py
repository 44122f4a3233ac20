"""The metrics of what balancewatch is there for: verdicts, incidents, and what people were told.

They are what the tables say now, of all clusters but the canary's own. A group or broker beyond `metrics.max_groups` is
summed under the name "other".
"""

from streaming.metrics.metric import LONG, SHORT, Counter, Gauge, Histogram

QUEUES = Gauge(
    "balancewatch_queues",
    "queues",
    ("cluster", "consumer_group", "verdict"),
    "Queues of a group by verdict: OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED or UNKNOWN.",
    "UNOWNED or NOT_CONSUMED: no client consumes them; `balancewatch alerts --current --group GROUP` names the cause.",
)
MEMBERS = Gauge(
    "balancewatch_members",
    "channels",
    ("cluster", "consumer_group"),
    "Channels that are members of a group, in the view of the broker that lists most of them.",
    "Above balancewatch_client_ids, clients share a ClientId: see the alert duplicate_client_id. 0: it is offline.",
)
CLIENT_IDS = Gauge(
    "balancewatch_client_ids",
    "clients",
    ("cluster", "consumer_group"),
    "Different ClientIds of a group, in the view of the broker that lists most of them.",
    "Nothing: the group was scaled out. A fall is a group that shrinks.",
)
UNAVAILABLE_PRODUCERS = Gauge(
    "balancewatch_unavailable_producers",
    "producers",
    ("cluster", "broker_name"),
    "Producers whose FaultItem of the broker is unavailable: they send around it.",
    "The broker is slow, or refuses sends: look at it; broker_isolated pages once enough of them avoid it.",
)
PRODUCERS = Gauge(
    "balancewatch_producers",
    "producers",
    ("cluster", "broker_name"),
    "Producers that keep a FaultItem of the broker.",
    "Nothing: more producers report.",
)
GROUPS = Gauge(
    "balancewatch_groups",
    "groups",
    ("cluster",),
    "Consumer groups of a cluster that have queues or members.",
    "State and batches grow with it; so do the series below metrics.max_groups.",
)
FOLDED = Gauge(
    "balancewatch_series_limited",
    "groups",
    ("kind",),
    'Groups, brokers or clusters without a name of their own here: summed under "other", or left out.',
    "Raise metrics.max_groups if Prometheus can bear the series; alerts and tables name them all the same.",
)
INCIDENTS = Gauge(
    "balancewatch_incidents",
    "incidents",
    ("cluster", "kind", "severity", "state", "is_inhibited"),
    "Open incidents: PENDING, FIRING, RECOVERING or UNKNOWN. A inhibited one has a cause that pages in its place.",
    "`balancewatch alerts --current --state FIRING` lists them, each with the one line that fixes it.",
)
CANARY_SECONDS = Histogram(
    "balancewatch_canary_latency_seconds",
    "seconds",
    (),
    "From the injection of a modelled twin into Kafka to its delivery by the relay: the way a real page goes.",
    "Pages are late by as much: compare the batches' seconds and the lag, then the relay's due notices.",
    LONG,
)
CANARY_AGE = Gauge(
    "balancewatch_canary_age_seconds",
    "seconds",
    (),
    "Since the newest canary arrived, or since the start where none has yet; NaN where another tells people.",
    "Above two intervals and a minute nothing may arrive at all: see /readyz, then `balancewatch canary`.",
)
CANARY_INTERVAL = Gauge(
    "balancewatch_canary_interval_seconds",
    "seconds",
    (),
    "canary.interval_seconds: how often one is due; 0 when none is.",
    "Nothing: it is a setting, for the rule on the canary's age.",
)
DELIVERY_ATTEMPTS = Counter(
    "balancewatch_delivery_attempts_total",
    "calls",
    ("receiver", "outcome"),
    "Calls of a receiver and what came of them: DELIVERED, RETRY, REFUSED or BAD_KEY. Renewals and watchdogs count.",
    "Other than DELIVERED: the receiver or the way to it; alert_deliveries has its answers word by word.",
)
DELIVERY_DECISIONS = Counter(
    "balancewatch_delivery_decisions_total",
    "decisions",
    ("outcome",),
    "Rows of the delivery log: PENDING, DELIVERED, RETRYING, REFUSED, SILENCED, INHIBITED, LIMITED or NO_ROUTE.",
    "LIMITED: oncall.max_firing_per_kind was reached. NO_ROUTE: no route takes it. "
    "SILENCED: see `balancewatch silence list`.",
)
DELIVERY_SECONDS = Histogram(
    "balancewatch_delivery_seconds",
    "seconds",
    ("receiver",),
    "From an alert's step, in event time, to the receiver's yes.",
    "People hear late: a receiver that fails, a digest that waits, or batches that lag behind.",
    LONG,
)
ATTEMPT_SECONDS = Histogram(
    "balancewatch_delivery_attempt_seconds",
    "seconds",
    ("receiver",),
    "One call of a receiver, until its answer or its time-out.",
    "The receiver or the network is slow; beyond oncall.timeout_seconds a call counts as failed.",
    SHORT,
)
DUE_NOTICES = Gauge(
    "balancewatch_notifications_pending",
    "notices",
    ("receiver",),
    "Notices that a receiver is owed and does not have yet.",
    "It does not take them: look at its attempts and at the log. They stay due until it has them.",
)
RELAY_RESTARTS = Counter(
    "balancewatch_relay_restarts_total",
    "times",
    (),
    "The relay failed and began anew from the tables.",
    'The log line "the relay failed and starts again" has the reason.',
)
