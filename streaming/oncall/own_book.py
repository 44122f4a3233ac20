"""Our own alerts, opened, updated and ended by what the relay sees of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.oncall.now import Now
from streaming.oncall.outbox import Outbox
from streaming.oncall.own_alerts import (
    CANARY_LOST,
    DELIVERY_FAILED,
    OWN_KINDS,
    OwnAlert,
    canary_lost,
    delivery_failed,
    more_alerts,
)
from streaming.oncall.transition import Transition
from udfs.page_limit import MORE_ALERTS

LINGER_MS = 60_000
"""So long nothing must be held back before `more_alerts` ends: one alert that flaps would end it again and again."""


@dataclass(frozen=True)
class HeldBack:
    """How many alerts of one cluster and kind the limit holds back now, and the worst severity among them."""

    cluster: str
    kind: str
    number: int
    limit: int
    severity: str


class OwnBook:
    """Those that are open. `note` is told each of their rows, whoever wrote it. Waits are by the pace.

    A canary that has not arrived for `lost_after_ms` is lost; 0 expects none, and with None nobody looks here.
    """

    def __init__(self, resend_ms: int, lost_after_ms: int | None = None) -> None:
        self._resend_ms, self._lost_after_ms = resend_ms, lost_after_ms
        self._open: dict[str, Transition] = {}
        self._unwanted_since_ms: dict[str, int] = {}
        self._updated_at_ms: dict[str, int] = {}
        self._canary_at_ms: int | None = None
        self._has_canary = False

    def hear_canary(self, pace_ms: int) -> None:
        """It arrived."""
        self._canary_at_ms, self._has_canary = pace_ms, True

    def note(self, transition: Transition) -> None:
        if transition.notice.kind in OWN_KINDS:
            if transition.state == "RESOLVED":
                self._open.pop(transition.notice.alert_id, None)
                self._updated_at_ms.pop(transition.notice.alert_id, None)
            else:
                self._open[transition.notice.alert_id] = transition

    def rows(self, held_back: list[HeldBack], outboxes: Mapping[str, Outbox], now: Now) -> list[dict[str, Any]]:
        """The rows that make them what they should be; the figure of an open one changes once a resend at most."""
        wanted = {alert.alert_id: alert for alert in map(_more, held_back)}
        for name, box in outboxes.items():
            if (alert := self._trouble(name, box, now.pace_ms)) is not None:
                wanted[alert.alert_id] = alert
        if self._is_canary_lost(now.pace_ms):
            wanted[canary_lost().alert_id] = canary_lost()
        over = [one for key, one in self._open.items() if self._is_over(key, one, wanted, now.pace_ms)]
        rows = [_ended(one, now.wall_ms) for one in over]
        for key, alert in wanted.items():
            known = self._open.get(key)
            if known is None:
                self._updated_at_ms[key] = now.pace_ms
                rows.append(alert.row("FIRING", now.wall_ms, now.wall_ms))
            elif _says_other(known, alert) and self._may_update(key, known, now):
                self._updated_at_ms[key] = now.pace_ms
                rows.append(alert.row("FIRING", known.notice.started_at_ms, _after(known, now.wall_ms)))
        return rows

    def _may_update(self, key: str, known: Transition, now: Now) -> bool:
        since_ms = self._updated_at_ms.setdefault(key, now.pace_of(known.at_ms))
        return now.pace_ms >= since_ms + self._resend_ms

    def _is_over(self, key: str, known: Transition, wanted: Mapping[str, OwnAlert], now_ms: int) -> bool:
        if key in wanted:
            self._unwanted_since_ms.pop(key, None)
            return False
        since_ms = self._unwanted_since_ms.setdefault(key, now_ms)
        if known.notice.kind == MORE_ALERTS and now_ms < since_ms + LINGER_MS:
            return False
        self._unwanted_since_ms.pop(key)
        return self._may_end(known)

    def _trouble(self, name: str, box: Outbox, now_ms: int) -> OwnAlert | None:
        """What was open before a restart stays so until the receiver takes something again."""
        trouble = box.trouble(now_ms)
        if trouble is not None:
            return delivery_failed(name, trouble, sum(1 for _ in box.owed()))
        if box.has_delivered:
            return None
        open_ = (one.notice for one in self._open.values() if one.notice.kind == DELIVERY_FAILED)
        known = next((notice for notice in open_ if notice.labels.get("receiver") == name), None)
        return delivery_failed(name, known.cause, 0) if known is not None and known.cause else None

    def _may_end(self, one: Transition) -> bool:
        return one.notice.kind != CANARY_LOST or self._lost_after_ms is not None

    def _is_canary_lost(self, now_ms: int) -> bool:
        """What was lost before a restart stays so until one arrives."""
        if not self._lost_after_ms:
            return False
        if self._canary_at_ms is None:
            self._canary_at_ms = now_ms
        was_lost = any(one.notice.kind == CANARY_LOST for one in self._open.values())
        return now_ms >= self._canary_at_ms + self._lost_after_ms or (was_lost and not self._has_canary)


def _after(known: Transition, now_ms: int) -> int:
    """Rows of an incident are in the order of their times, however the clock was set."""
    return max(now_ms, known.at_ms + 1)


def _says_other(known: Transition, alert: OwnAlert) -> bool:
    return (known.notice.summary, known.notice.severity) != (alert.summary, alert.severity)


def _more(held: HeldBack) -> OwnAlert:
    return more_alerts(held.cluster, held.kind, held.number, held.limit, held.severity)


def _ended(known: Transition, now_ms: int) -> dict[str, Any]:
    notice = known.notice
    alert = OwnAlert(
        notice.kind, notice.severity, notice.cause or notice.kind, notice.labels, notice.summary, "", notice.evidence
    )
    return alert.row("RESOLVED", notice.started_at_ms, _after(known, now_ms))
