"""The relay's alerts about itself: their conditions and texts.

The watchdog is only sent. The others are written to the alerts table and so survive a restart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from streaming.logs.logs import mask
from streaming.relay.notice import Notice, Now, one_line, read_notice
from streaming.relay.outbox import Outbox
from streaming.self_monitoring.self_alerts import SelfAlert, SelfAlerts
from udfs.alerts.alert import Text, wording
from udfs.alerts.firing_limit import ALERTS_LIMITED, describe_more
from udfs.alerts.phrase import Words
from udfs.alerts.routing import WATCHDOG
from udfs.alerts.self_kinds import CANARY_LOST, DELIVERY_FAILED, LIMITS, OWN_CLUSTER, RELAY_KINDS, RUN_FAILING

_TROUBLES = {
    "bad_key": wording(
        "Receiver {receiver} rejects its key; its alerts are waiting.",
        "Correct the key in its environment variable and restart the relay; it then delivers the waiting alerts.",
    ),
    "unreachable": wording(
        "Receiver {receiver} cannot be reached; its alerts are waiting.",
        "Check the receiver and the network path to it; the relay retries and delivers the waiting alerts.",
    ),
    "refuses": wording(
        "Receiver {receiver} rejects alerts; they are not retried.",
        "Check its address, and its answers in the table alert_deliveries; rejected alerts are not sent again.",
    ),
}


Progress = Callable[[], tuple[float, str | None]]
"""What a relay within `run` asks `run`: the seconds since the query last made progress; and why no events are
processed, empty if they are, None if that is not known yet.
"""


class RelayAlerts:
    """The relay's open alerts. `note` receives each of their rows. Waits use the monotonic clock.

    A canary is lost after `lost_after_ms` without arrival. 0 expects no canary; with None this process does not check.
    `failure` is why `run` processes no events: empty if it does, None if unknown. `language` is that of the texts.
    """

    def __init__(self, resend_ms: int, lost_after_ms: int | None = None, language: str = "en") -> None:
        self.failure: str | None = None
        self._resend_ms, self._lost_after_ms = resend_ms, lost_after_ms
        self._alerts = SelfAlerts(language)
        self._wanted_at_ms: dict[str, int] = {}
        self._updated_at_ms: dict[str, int] = {}
        self._canary_at_ms: int | None = None
        self._has_canary = False

    def note_canary(self, pace_ms: int) -> None:
        """Note that a canary arrived."""
        self._canary_at_ms, self._has_canary = pace_ms, True

    def note(self, row: Notice) -> None:
        if row.kind in RELAY_KINDS:
            text = row.summary, row.advice, row.evidence
            alert = SelfAlert(row.kind, row.severity, row.cause or row.kind, row.labels, *text)
            self._alerts.note(alert, row.state, row.started_at_ms, row.changed_at_ms)

    def rows(self, limited: Iterable[SelfAlert], outboxes: Mapping[str, Outbox], now: Now) -> list[dict[str, Any]]:
        """Return the rows to write now. The text of an open alert changes at most once per resend interval."""
        holding = (*limited, *self._conditions(outboxes, now.pace_ms))
        wanted = {alert.alert_id: self._alerts.translated(alert) for alert in holding}
        self._wanted_at_ms |= dict.fromkeys(wanted, now.pace_ms)
        rows = []
        for known in self._alerts:
            if known.alert.alert_id not in wanted and self._is_over(known.alert, now.pace_ms):
                rows.append(self._alerts.resolve(known, now.wall_ms))
                self._updated_at_ms.pop(known.alert.alert_id, None)
                self._wanted_at_ms.pop(known.alert.alert_id, None)
        for key, alert in wanted.items():
            if (found := self._alerts.get(key)) is None:
                rows.append(self._alerts.open(alert, now.wall_ms))
            elif (found.alert.summary, found.alert.severity) != (alert.summary, alert.severity) and (
                now.pace_ms >= self._updated_at_ms.setdefault(key, now.pace_of(found.changed_ms)) + self._resend_ms
            ):
                rows.append(self._alerts.update(found, alert, now.wall_ms))
            else:
                continue
            self._updated_at_ms[key] = now.pace_ms
        return rows

    def _conditions(self, outboxes: Mapping[str, Outbox], now_ms: int) -> Iterator[SelfAlert]:
        """Yield the alerts whose conditions hold. One from before a restart stays open until the opposite is seen."""
        for name, box in outboxes.items():
            trouble, number = box.trouble(now_ms), box.count()
            if trouble is None and not box.has_delivered and (known := self._alerts.find(receiver=name)) is not None:
                trouble, number = known.alert.cause, 0
            if trouble in _TROUBLES:
                yield delivery_failed(name, trouble, number)
        if self._lost_after_ms:
            if self._canary_at_ms is None:
                self._canary_at_ms = now_ms
            was_lost = any(known.alert.kind == CANARY_LOST for known in self._alerts)
            if now_ms >= self._canary_at_ms + self._lost_after_ms or (was_lost and not self._has_canary):
                yield canary_lost()
        if self.failure:
            yield run_failing(self.failure)

    def _is_over(self, alert: SelfAlert, now_ms: int) -> bool:
        """Return whether an alert resolves whose condition does not hold."""
        if alert.kind == ALERTS_LIMITED:
            return now_ms >= self._wanted_at_ms.setdefault(alert.alert_id, now_ms) + LIMITS.limited_linger_ms
        is_known = {CANARY_LOST: self._lost_after_ms is not None, RUN_FAILING: self.failure is not None}
        return is_known.get(alert.kind, True)


def delivery_failed(receiver: str, trouble: str, owed: int) -> SelfAlert:
    """Return the alert for all other receivers. `trouble` is bad_key, unreachable or refuses."""
    alert = _critical(DELIVERY_FAILED, _TROUBLES[trouble].given(receiver=receiver), receiver=receiver)
    return replace(alert, cause=trouble, evidence={"owed": owed})


def alerts_limited(cluster: str, kind: str, number: int, limit: int, severity: str) -> SelfAlert:
    """Return the alert for the receivers of the alerts that the limit holds back, with their worst severity."""
    text = describe_more(kind, cluster, number, limit)
    labels = {"cluster": cluster, "limited_kind": kind}
    return SelfAlert(ALERTS_LIMITED, severity, "limit", labels, *text, {"limited": number, "limit": limit})


def canary_lost() -> SelfAlert:
    """Return the alert for a canary that did not arrive: real alerts may not arrive either."""
    text = wording(
        "The canary alert did not arrive: real alerts may be late, or lost between Kafka and the relay.",
        "Check `balancewatch run` (log, /readyz) and Kafka; `balancewatch canary` shows the latest canaries.",
    ).given()
    return _critical(CANARY_LOST, text)


def run_failing(failure: str) -> SelfAlert:
    """Return the alert for a `run` that processes no events; secrets in the reason are masked."""
    text = wording(
        "`balancewatch run` processes no events: {reason}.",
        "Correct the cause, and restart `run` if it has ended. Until then no new problem is detected, and open alerts "
        "stay open.",
    ).given(reason=one_line(mask(failure), 500).rstrip("."))
    return _critical(RUN_FAILING, text)


def watchdog(started_at_ms: int, attests: Words, language: str = "en") -> Notice:
    """Return the alert that always fires: if a receiver no longer gets it, a part of the delivery path is down."""
    text = wording(
        "This alert always fires: {attests}.", "Configure a dead man's switch that pages when this alert stops."
    ).given(attests=attests)
    row = SelfAlerts(language).open(replace(_critical(WATCHDOG, text), severity="info"), started_at_ms)
    return replace(read_notice(row), reason=None)


def _critical(kind: str, text: Text, **labels: str) -> SelfAlert:
    return SelfAlert(kind, "critical", kind, {"cluster": OWN_CLUSTER, **labels}, *text)
