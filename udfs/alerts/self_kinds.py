"""What each kind of alert about ourselves says of when it fires and ends: of our health, the events, what Kafka lost.

No rule decides these; beside KIND_FACTS they are for people who ask what an alert would do. The spans and numbers are
those that the code which writes them goes by.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from udfs.alerts.firing_limit import ALERTS_LIMITED, SEVERITIES
from udfs.alerts.routing import WATCHDOG

OWN_CLUSTER = "balancewatch"
"""The cluster of what is about ourselves."""

DATA_QUALITY, DATA_LOSS = "data_quality", "data_loss"
DELIVERY_FAILED, CANARY_LOST = "delivery_failed", "canary_lost"

RELAY_KINDS = frozenset({DELIVERY_FAILED, ALERTS_LIMITED, CANARY_LOST})
"""Those the relay writes to the alerts table."""

KEY = re.compile(r"\{([a-z_]+\.[a-z_.]+)\}")
"""A setting in a sentence."""


@dataclass(frozen=True)
class Limits:
    """What no setting changes.

    topic_quiet_ms     a topic without a message for so long has nothing that is wrong any more
    loss_settled_ms    so long a query must have gone on without a further loss
    limited_linger_ms  so long nothing must wait: one alert that flaps would end `alerts_limited` again and again
    canary_way_ms      what a canary may take beyond the intervals
    most_refusals      so many notices refused one after the other are not the notices' fault
    """

    topic_quiet_ms: int = 3_600_000
    loss_settled_ms: int = 3_600_000
    limited_linger_ms: int = 60_000
    canary_way_ms: int = 60_000
    canary_intervals: int = 2
    most_refusals: int = 3


LIMITS = Limits()


@dataclass(frozen=True)
class SelfFacts:
    """Sentences; in them `{section.key}` stands for a setting that decides, told with its value, and `{name}` for one
    of LIMITS.

    cause          the one it has, where it is always the same
    causes         those it may have, where it is not
    never          a key and the value with which it never fires, and the sentence that says so
    reaches        whom it reaches, where that is not for the routes alone to say
    is_of_cluster  it carries the cluster that it is about; the others carry our own name
    is_of_topic    it carries the topic that it is about
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
        """Settings that decide, in the order they are reported."""
        of_never = (self.never[0],) if self.never else ()
        return tuple(dict.fromkeys([*of_never, *KEY.findall(f"{self.fires} {self.ends}")]))


SELF_FACTS: Mapping[str, SelfFacts] = {
    DATA_QUALITY: SelfFacts(
        "The events of a Kafka topic are not what they should be, and verdicts that rest on them may be wrong. One "
        "alert a topic, whatever fails.",
        "At once, when at {quality.alert_validations} looks in a row more than {quality.alert_share} of a sample's "
        "events broke a critical expectation, or more than that share of the messages read since the look before was "
        "quarantined. A query's topics are looked at every {quality.every_batches} of its batches, and "
        "{quality.pause_seconds} apart at least.",
        "RESOLVED when at {quality.alert_validations} looks in a row neither was above half of {quality.alert_share}, "
        "or when the topic has had no message for {topic_quiet_ms}.",
        ("error",),
        cause=DATA_QUALITY,
        never=("quality.every_batches", 0, "no events are validated, and `run` ends what it finds open"),
        is_of_topic=True,
    ),
    DATA_LOSS: SelfFacts(
        "A streaming query has gone on without messages that Kafka no longer has: alerts of the gap may be missing or "
        "late. One alert a query.",
        "At once, when a query is started and Kafka lacks what it wants next, as {queries.fail_on_data_loss} lets it "
        "go on.",
        "RESOLVED once the query has gone on for {loss_settled_ms} without a further loss, in this `run` or a later "
        "one.",
        ("error",),
        cause=DATA_LOSS,
        never=("queries.fail_on_data_loss", True, "a query that has lost messages does not start, and says so instead"),
    ),
    DELIVERY_FAILED: SelfFacts(
        "A receiver does not take what it is sent: alerts for it wait, or are given up. One alert a receiver.",
        "At once, when the receiver refuses our key, is not at its address, or refuses {most_refusals} alerts one "
        "after the other; when it has failed in any other way for {oncall.delivery_failed_after_seconds}. With a "
        "refused key it is tried again every {oncall.auth_retry_seconds}.",
        "RESOLVED when none of that is so any more; after a restart, once the receiver has taken something.",
        ("critical",),
        causes=("bad_key", "unreachable", "refuses"),
        reaches="every receiver but the one that fails, whatever the routes say",
    ),
    ALERTS_LIMITED: SelfFacts(
        "More alerts of one kind fire in a cluster than are sent one by one; this one stands for the rest, and says "
        "how many wait.",
        "At once, when more than {oncall.max_firing_per_kind} of one kind and cluster fire: those beyond wait.",
        "RESOLVED when none has had to wait for {limited_linger_ms}.",
        SEVERITIES,
        cause="limit",
        reaches="whoever those that wait would reach, by their own routes; as severe as the worst of them",
        is_of_cluster=True,
    ),
    CANARY_LOST: SelfFacts(
        "The modelled twins that `run` injects do not arrive where alerts are sent: alerts of real trouble may be "
        "late, or lost on the way.",
        "At once, when none has arrived for {canary_intervals} times {canary.interval_seconds} and {canary_way_ms}.",
        "RESOLVED when one arrives.",
        ("critical",),
        cause=CANARY_LOST,
        never=("canary.interval_seconds", 0, "none is injected, so none is missed"),
    ),
    WATCHDOG: SelfFacts(
        "All is well: it is there to be missed. Let a dead-man's switch page when it stops coming. It is in no table.",
        "Always, every {oncall.resend_seconds}, while the newest micro-batch is not older than "
        "{oncall.watchdog_seconds}; that of `balancewatch relay` while the relay works.",
        "Never RESOLVED: it falls silent.",
        ("info",),
        cause=WATCHDOG,
        reaches="only receivers of routes that name its kind; no silence keeps it",
    ),
}
