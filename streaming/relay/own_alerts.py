"""The relay's alerts about itself: their conditions and texts.

The watchdog is only sent. The others are written to the alerts table and so survive a restart.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from streaming.logs.logs import mask
from streaming.relay.notice import Notice, Now, Transition, one_line
from streaming.relay.outbox import Outbox
from streaming.self_monitoring.self_alerts import OpenAlert, SelfAlert, SelfAlerts
from udfs.alerts.alert import alert_id
from udfs.alerts.firing_limit import ALERTS_LIMITED, describe_more
from udfs.alerts.life import RESOLVED
from udfs.alerts.routing import WATCHDOG
from udfs.alerts.self_kinds import CANARY_LOST, DELIVERY_FAILED, LIMITS, OWN_CLUSTER, RELAY_KINDS, RUN_FAILING

_TROUBLES = {
    "bad_key": (
        "rejects its key; its alerts are waiting",
        "Correct the key in its environment variable and restart the relay; it then delivers the waiting alerts",
    ),
    "unreachable": (
        "cannot be reached; its alerts are waiting",
        "Check the receiver and the network path to it; the relay retries and delivers the waiting alerts",
    ),
    "refuses": (
        "rejects alerts; they are not retried",
        "Check its address, and its answers in the table alert_deliveries; rejected alerts are not sent again",
    ),
}


class Progress(Protocol):
    """What a relay within `run` asks `run`."""

    def age(self) -> float:
        """Return the seconds since the query last made progress."""

    def failure(self) -> str | None:
        """Return why no events are processed; empty if they are, None if that is not known yet."""


@dataclass(frozen=True)
class Ended:
    """The Progress of a `run` that has ended, or that could not start."""

    why: str

    def age(self) -> float:
        return math.inf

    def failure(self) -> str:
        return self.why


class RelayAlerts:
    """The relay's open alerts. `note` receives each of their rows. Waits use the monotonic clock.

    A canary is lost after `lost_after_ms` without arrival. 0 expects no canary; with None this process does not check.
    `failure` is why `run` processes no events: empty if it does, None if that is not known.
    """

    def __init__(self, resend_ms: int, lost_after_ms: int | None = None) -> None:
        self.failure: str | None = None
        self._resend_ms, self._lost_after_ms = resend_ms, lost_after_ms
        self._alerts = SelfAlerts()
        self._unwanted_since_ms: dict[str, int] = {}
        self._updated_at_ms: dict[str, int] = {}
        self._canary_at_ms: int | None = None
        self._has_canary = False

    def note_canary(self, pace_ms: int) -> None:
        """Note that a canary arrived."""
        self._canary_at_ms, self._has_canary = pace_ms, True

    def note(self, transition: Transition) -> None:
        notice = transition.notice
        if notice.kind in RELAY_KINDS:
            if transition.state == RESOLVED:
                self._updated_at_ms.pop(notice.alert_id, None)
            cause, text = notice.cause or notice.kind, (notice.summary, notice.advice)
            alert = SelfAlert(notice.kind, notice.severity, cause, notice.labels, *text, notice.evidence)
            self._alerts.note(alert, transition.state, notice.started_at_ms, transition.at_ms)

    def rows(self, limited: Iterable[SelfAlert], outboxes: Mapping[str, Outbox], now: Now) -> list[dict[str, Any]]:
        """Return the rows to write now. The text of an open alert changes at most once per resend interval."""
        alerts = [*limited]
        alerts += [alert for name, box in outboxes.items() if (alert := self._trouble(name, box, now.pace_ms))]
        if self._is_canary_lost(now.pace_ms):
            alerts.append(canary_lost())
        if self.failure:
            alerts.append(run_failing(self.failure))
        wanted = {alert.alert_id: alert for alert in alerts}
        over = [known for known in self._alerts if self._is_over(known, wanted, now.pace_ms)]
        rows = [self._alerts.resolve(known, now.wall_ms) for known in over]
        for key, alert in wanted.items():
            known = self._alerts.get(key)
            if known is None:
                rows.append(self._alerts.open(alert, now.wall_ms))
            elif (known.alert.summary, known.alert.severity) != (alert.summary, alert.severity) and (
                now.pace_ms >= self._updated_at_ms.setdefault(key, now.pace_of(known.changed_ms)) + self._resend_ms
            ):
                rows.append(self._alerts.update(known, alert, now.wall_ms))
            else:
                continue
            self._updated_at_ms[key] = now.pace_ms
        return rows

    def _is_over(self, known: OpenAlert, wanted: Mapping[str, SelfAlert], now_ms: int) -> bool:
        key = known.alert.alert_id
        if key in wanted:
            self._unwanted_since_ms.pop(key, None)
            return False
        since_ms = self._unwanted_since_ms.setdefault(key, now_ms)
        if known.alert.kind == ALERTS_LIMITED and now_ms < since_ms + LIMITS.limited_linger_ms:
            return False
        self._unwanted_since_ms.pop(key)
        is_known = {CANARY_LOST: self._lost_after_ms is not None, RUN_FAILING: self.failure is not None}
        return is_known.get(known.alert.kind, True)

    def _trouble(self, name: str, box: Outbox, now_ms: int) -> SelfAlert | None:
        """Return the alert of a failing receiver. One from before a restart stays open until a delivery succeeds."""
        trouble = box.backoff.trouble(now_ms)
        if trouble is not None:
            return delivery_failed(name, trouble, box.count())
        known = None if box.has_delivered else self._alerts.find(receiver=name)
        return delivery_failed(name, known.alert.cause, 0) if known and known.alert.cause in _TROUBLES else None

    def _is_canary_lost(self, now_ms: int) -> bool:
        """Return whether the canary is lost. One lost before a restart stays lost until a canary arrives."""
        if not self._lost_after_ms:
            return False
        if self._canary_at_ms is None:
            self._canary_at_ms = now_ms
        was_lost = any(known.alert.kind == CANARY_LOST for known in self._alerts)
        return now_ms >= self._canary_at_ms + self._lost_after_ms or (was_lost and not self._has_canary)


def delivery_failed(receiver: str, trouble: str, owed: int) -> SelfAlert:
    """Return the alert for all other receivers. `trouble` is bad_key, unreachable or refuses."""
    what, advice = _TROUBLES[trouble]
    return SelfAlert(
        DELIVERY_FAILED,
        "critical",
        trouble,
        {"cluster": OWN_CLUSTER, "receiver": receiver},
        f"Receiver {receiver} {what}.",
        f"{advice}.",
        {"owed": owed},
    )


def alerts_limited(cluster: str, kind: str, number: int, limit: int, severity: str) -> SelfAlert:
    """Return the alert for the receivers of the alerts that the limit holds back, with their worst severity."""
    text = describe_more(kind, cluster, number, limit)
    labels = {"cluster": cluster, "limited_kind": kind}
    return SelfAlert(ALERTS_LIMITED, severity, "limit", labels, *text, {"limited": number, "limit": limit})


def canary_lost() -> SelfAlert:
    """Return the alert for a canary that did not arrive: real alerts may not arrive either."""
    return SelfAlert(
        CANARY_LOST,
        "critical",
        CANARY_LOST,
        {"cluster": OWN_CLUSTER},
        "The canary alert did not arrive: real alerts may be late, or lost between Kafka and the relay.",
        "Check `balancewatch run` (log, /readyz) and Kafka; `balancewatch canary` shows the latest canaries.",
    )


def run_failing(failure: str) -> SelfAlert:
    """Return the alert for a `run` that processes no events; secrets in the reason are masked."""
    reason = one_line(mask(failure), 500).rstrip(".")
    return SelfAlert(
        RUN_FAILING,
        "critical",
        RUN_FAILING,
        {"cluster": OWN_CLUSTER},
        f"`balancewatch run` processes no events: {reason}.",
        "Correct the cause, and restart `run` if it has ended. Until then no new problem is detected, and open alerts "
        "stay open.",
    )


def watchdog(started_at_ms: int, now_ms: int, attests: str) -> Notice:
    """Return the alert that always fires: if a receiver no longer gets it, a part of the delivery path is down."""
    labels = {"cluster": OWN_CLUSTER}
    identity = alert_id(WATCHDOG, labels)
    return Notice(
        alert_id=identity,
        incident_id=f"{identity}-{started_at_ms}",
        kind=WATCHDOG,
        severity="info",
        status="firing",
        cause=WATCHDOG,
        labels=labels,
        cluster=OWN_CLUSTER,
        summary=f"This alert always fires: {attests}.",
        advice="Configure a dead man's switch that pages when this alert stops.",
        started_at_ms=started_at_ms,
        changed_at_ms=now_ms,
    )
