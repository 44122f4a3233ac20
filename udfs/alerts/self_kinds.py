"""Facts about the alerts on balancewatch itself: event quality, data loss, delivery, canary and watchdog.

No rule decides these kinds. Like KIND_FACTS, the facts are for the runbooks and `balancewatch alerts rules`. The code
that writes these alerts uses the same LIMITS.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from udfs.alerts.firing_limit import ALERTS_LIMITED, SEVERITIES
from udfs.alerts.routing import WATCHDOG

OWN_CLUSTER = "balancewatch"
"""The cluster label of alerts about balancewatch itself."""

DATA_QUALITY, DATA_LOSS = "data_quality", "data_loss"
DELIVERY_FAILED, CANARY_LOST, RUN_FAILING = "delivery_failed", "canary_lost", "run_failing"

RELAY_KINDS = frozenset({DELIVERY_FAILED, ALERTS_LIMITED, CANARY_LOST, RUN_FAILING})
"""Kinds that the relay writes to the alerts table."""

KEY = re.compile(r"\{([a-z_]+\.[a-z_.]+)\}")
"""A setting's key within a sentence."""


@dataclass(frozen=True)
class Limits:
    """Limits that no setting changes.

    topic_quiet_ms     time without a message after which a topic's data_quality alert resolves
    loss_settled_ms    time without a further loss after which data_loss resolves
    limited_linger_ms  time without a waiting alert after which alerts_limited resolves; absorbs flapping alerts
    canary_way_ms      delivery time that a canary gets beyond the intervals
    failing_ms         time for which `run` may fail before run_failing fires; a restart of Kafka's broker takes less
    most_refusals      consecutive refusals after which the receiver counts as faulty, not the alerts
    """

    topic_quiet_ms: int = 3_600_000
    loss_settled_ms: int = 3_600_000
    limited_linger_ms: int = 60_000
    canary_way_ms: int = 60_000
    canary_intervals: int = 2
    failing_ms: int = 60_000
    most_refusals: int = 3


LIMITS = Limits()


@dataclass(frozen=True)
class SelfFacts:
    """Sentences in which `{section.key}` is replaced by a setting with its value, and `{name}` by one of LIMITS.

    cause          the cause, if it is always the same
    causes         possible causes otherwise
    never          a key, the value at which the alert never fires, and the sentence that says so
    reaches        the receivers, if routes alone do not decide
    is_of_cluster  the alert carries its subject's cluster label; other kinds carry OWN_CLUSTER
    is_of_topic    the alert carries a topic label
    """

    means: str
    fires: str
    ends: str
    severities: tuple[str, ...]
    cause: str | None = None
    causes: tuple[str, ...] = ()
    never: tuple[str, Any, str] | None = None
    reaches: str | None = None
    is_of_cluster: bool = False
    is_of_topic: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the settings that decide, in the order of the sentences."""
        of_never = (self.never[0],) if self.never else ()
        return tuple(dict.fromkeys([*of_never, *KEY.findall(f"{self.fires} {self.ends}")]))


SELF_FACTS: Mapping[str, SelfFacts] = {
    DATA_QUALITY: SelfFacts(
        "Events of a Kafka topic fail validation, and verdicts based on them may be wrong. There is one alert per "
        "topic.",
        "After {quality.alert_validations} consecutive failed validations. A validation fails if more than "
        "{quality.alert_share} of the sampled events violate a critical expectation, or if more than that share of the "
        "messages since the previous validation was quarantined. Validations run every {quality.every_batches} batches "
        "of a query, and at least {quality.pause_seconds} apart.",
        "After {quality.alert_validations} consecutive validations in which neither share exceeded half of "
        "{quality.alert_share}, or when the topic has had no message for {topic_quiet_ms}.",
        ("error",),
        cause=DATA_QUALITY,
        never=("quality.every_batches", 0, "no events are validated, and `run` resolves open alerts of this kind"),
        is_of_topic=True,
    ),
    DATA_LOSS: SelfFacts(
        "A streaming query continued without messages that Kafka had already deleted, or a power cut damaged commits "
        "of a table. Alerts from that gap may be missing or late. There is one alert per query and per table.",
        "Immediately, when a query starts and a commit of a table is empty or truncated, or Kafka has deleted the next "
        "messages. In the second case {queries.fail_on_data_loss} decides: if it is true, the query does not start.",
        "After {loss_settled_ms} of the query without a further loss; a restart of `run` does not reset this time.",
        ("error",),
        cause=DATA_LOSS,
    ),
    DELIVERY_FAILED: SelfFacts(
        "A receiver does not accept alerts; they wait or are dropped. There is one alert per receiver.",
        "Immediately, when the receiver refuses the configured key, does not exist at its address, or refuses "
        "{most_refusals} consecutive alerts. After {oncall.delivery_failed_after_seconds} of any other failure. With a "
        "refused key the relay retries every {oncall.auth_retry_seconds}.",
        "When the receiver works again; after a restart of the relay, with the first alert that it accepts.",
        ("critical",),
        causes=("bad_key", "unreachable", "refuses"),
        reaches="every receiver except the failing one, regardless of the routes",
    ),
    ALERTS_LIMITED: SelfFacts(
        "More alerts of one kind fire in a cluster than the limit allows to send one by one. This alert represents the "
        "rest and gives their number.",
        "Immediately, when more than {oncall.max_firing_per_kind} alerts of one kind fire in one cluster; the others "
        "wait.",
        "After {limited_linger_ms} without a waiting alert.",
        SEVERITIES,
        cause="limit",
        reaches="the receivers of the waiting alerts, with the highest severity among them",
        is_of_cluster=True,
    ),
    CANARY_LOST: SelfFacts(
        "The alert of the canary, a simulated pair of twins that `run` injects, is not delivered. Real alerts may be "
        "late or lost, too.",
        "When no canary has been delivered for {canary_intervals} times {canary.interval_seconds} plus "
        "{canary_way_ms}.",
        "When a canary is delivered.",
        ("critical",),
        cause=CANARY_LOST,
        never=("canary.interval_seconds", 0, "no canary is injected"),
    ),
    RUN_FAILING: SelfFacts(
        "`run` processes no events: Kafka, the disk, the tables, the checkpoint or a setting stops it. New problems "
        "are not detected; alerts that are open stay open.",
        "When a failure of `run` lasts {failing_ms} or ends it, or when a micro-batch takes more than "
        "{oncall.watchdog_seconds}.",
        "When the next micro-batch is written.",
        ("critical",),
        cause=RUN_FAILING,
    ),
    WATCHDOG: SelfFacts(
        "A heartbeat of balancewatch that fires while everything works. Let a dead man's switch page when it stops. "
        "No table records it.",
        "Every {oncall.resend_seconds} while the newest micro-batch is at most {oncall.watchdog_seconds} old; for "
        "`balancewatch relay`, while the relay works.",
        "Never; it just stops.",
        ("info",),
        cause=WATCHDOG,
        reaches="only receivers of routes that name its kind; silences do not apply",
    ),
}
