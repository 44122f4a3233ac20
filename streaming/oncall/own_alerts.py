"""Alerts about the relay itself: a receiver that fails, alerts held back by the limit, and the watchdog.

The first two are written to the alerts table like any other and so survive a restart; the watchdog is only sent.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from streaming.oncall.notice import Notice
from udfs import rulebook
from udfs.alert import alert_id
from udfs.page_limit import MORE_ALERTS, describe_more
from udfs.routing import WATCHDOG

OWN_CLUSTER = "balancewatch"
DELIVERY_FAILED = "delivery_failed"
CANARY_CLUSTER = rulebook.CANARY_CLUSTER
CANARY = "canary"
"""The receiver of the modelled twins, its route, and their group, topic and broker."""

CANARY_LOST = "canary_lost"
OWN_KINDS = frozenset({DELIVERY_FAILED, MORE_ALERTS, CANARY_LOST})

_TROUBLES = {
    "bad_key": (
        "refuses our key; alerts for it wait",
        "Mend the key in its environment variable and start the relay again; whatever waits is delivered then",
    ),
    "unreachable": (
        "cannot be delivered to; alerts for it wait",
        "Look at the receiver and at the way to it; whatever waits is delivered then",
    ),
    "refuses": (
        "refuses what it is sent; those alerts are given up",
        "Look at its address, and in alert_deliveries at what it answered; what it refused is not sent again",
    ),
}


@dataclass(frozen=True)
class OwnAlert:
    """What is wrong, without when."""

    kind: str
    severity: str
    cause: str
    labels: dict[str, str]
    summary: str
    advice: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def alert_id(self) -> str:
        return alert_id(self.kind, self.labels)

    def row(self, state: str, started_at_ms: int, now_ms: int) -> dict[str, Any]:
        """A row of the alerts table, times in epoch ms."""
        is_over = state == "RESOLVED"
        return {
            "alert_id": self.alert_id,
            "incident_id": f"{self.alert_id}-{started_at_ms}",
            "kind": self.kind,
            "severity": self.severity,
            "state": state,
            "reason": "recovered" if is_over else "hold_over" if now_ms == started_at_ms else "figures_changed",
            "cause": self.cause,
            "cluster": self.labels["cluster"],
            "queues": [],
            "summary": f"Over. It was: {self.summary}" if is_over else self.summary,
            "advice": "Nothing to do." if is_over else self.advice,
            "evidence": json.dumps(self.evidence, sort_keys=True),
            "labels": json.dumps(self.labels, sort_keys=True),
            "completeness": 1.0,
            "flaps": 0,
            "is_flapping": False,
            "started_at": started_at_ms,
            "fired_at": started_at_ms,
            "changed_at": now_ms,
        }


def delivery_failed(receiver: str, trouble: str, owed: int) -> OwnAlert:
    """For all other receivers. `trouble` is bad_key, unreachable or refuses."""
    what, advice = _TROUBLES[trouble]
    return OwnAlert(
        DELIVERY_FAILED,
        "critical",
        trouble,
        {"cluster": OWN_CLUSTER, "receiver": receiver},
        f"Receiver {receiver} {what}.",
        f"{advice}.",
        {"owed": owed},
    )


def more_alerts(cluster: str, kind: str, held_back: int, limit: int, severity: str) -> OwnAlert:
    """For whoever would have got those held back; as severe as the worst of them."""
    summary, advice = describe_more(kind, cluster, held_back, limit)
    labels = {"cluster": cluster, "limited_kind": kind}
    return OwnAlert(MORE_ALERTS, severity, "limit", labels, summary, advice, {"held_back": held_back, "limit": limit})


def canary_lost() -> OwnAlert:
    """The modelled twins do not arrive: what is real may not either."""
    return OwnAlert(
        CANARY_LOST,
        "critical",
        CANARY_LOST,
        {"cluster": OWN_CLUSTER},
        "The canary does not arrive: alerts of real trouble may be late, or lost on the way from Kafka to here.",
        "Look at `balancewatch run` (log, progress) and at Kafka; `balancewatch canary` shows the last that came.",
    )


def watchdog(started_at_ms: int, now_ms: int, attests: str) -> Notice:
    """Fires always: a receiver that no longer gets it knows that something on the way is dead."""
    labels = {"cluster": OWN_CLUSTER}
    identity = alert_id(WATCHDOG, labels)
    return Notice(
        alert_id=identity,
        incident_id=f"{identity}-{started_at_ms}",
        kind=WATCHDOG,
        severity="info",
        status="firing",
        cause=WATCHDOG,
        reason=None,
        labels=labels,
        cluster=OWN_CLUSTER,
        consumer_group=None,
        topic=None,
        broker_name=None,
        client_id=None,
        queues=(),
        summary=f"This alert fires always: {attests}.",
        advice="Let a dead-man's switch page when it stops coming.",
        started_at_ms=started_at_ms,
        changed_at_ms=now_ms,
    )
