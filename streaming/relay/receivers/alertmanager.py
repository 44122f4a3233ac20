"""Alertmanager's API v2: one receiver per replica, because replicas share silences and notification logs, not alerts.

A firing alert is a lease: Alertmanager resolves it `lease_seconds` after its last repetition (Prometheus: 4 times the
resend delay), by Alertmanager's own clock. With many open alerts leases are longer: each batch may wait for its answer.

`severity` is a label, because routing trees match on it, and labels identify an alert there. An incident whose severity
changes is therefore a new alert, and the same request resolves the old one; after a restart its lease expires.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice, one_line
from streaming.relay.receivers.posting import Answer, HttpReceiver, Traits, json_bytes
from streaming.text.language import translate
from streaming.text.times import iso, to_ms
from streaming.text.visible_text import visible_name
from udfs.alerts.phrase import phrase

ALERTS_PATH = "/api/v2/alerts"
QUEUES_SHOWN = 20
ANNOTATION_CHARACTERS = 4_000

HOLD_MS = 43_200_000
"""The lease of a relay that ends because `run` failed: 12 hours, enough to start it again."""

SAME_CLOCK_MS = 5_000
"""A Date is cut to seconds and takes time to arrive: a smaller difference is none."""


class Alertmanager(HttpReceiver):
    """One replica. `url` is its root, without /api/v2; it may contain a user and password."""

    traits = Traits(at_most=100, is_leased=True)

    def __init__(self, name: str, url: str, *, lease_seconds: float, **options: Any) -> None:
        """`lease_seconds` is at least four times the interval of repetitions, or one late renewal ends an alert.

        `options` are those of HttpReceiver. Raises AddressError.
        """
        super().__init__(name, url.rstrip("/") + ALERTS_PATH, **options)
        self._lease_ms, self._answer_ms = round(lease_seconds * 1000), round(self._total_seconds * 1000)
        self._zero_ms: int | None = None
        self._is_clock_asked = False
        self._severities: dict[str, str] = {}

    def hold(self) -> None:
        """Make the leases from now on last HOLD_MS, as no renewal follows."""
        self._lease_ms = HOLD_MS

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Post all at once; twice if the answer shows that the receiver's clock differs.

        The first request of all is empty: it asks for the clock. By a wrong one it would resolve what it reports.
        """
        if not self._is_clock_asked:
            answer = self.post(b"[]", now_ms)
            self._note_date(answer.date)
            if answer.verdict in ("RETRY", "BAD_KEY"):
                return answer
            self._is_clock_asked = True
        for _ in range(2):
            there_ms = self._time_there_ms(now_ms)
            payload = alerts(notices, there_ms, self._lease(notices), self._severities, self._links)
            answer = self.post(json_bytes(payload), now_ms)
            self._note_date(answer.date)
            is_delivered = answer.verdict == "DELIVERED"
            if not is_delivered or abs(there_ms - self._time_there_ms(now_ms)) <= SAME_CLOCK_MS:
                break
        for notice in notices if is_delivered else ():
            self._severities.pop(notice.incident_id, None)
            if notice.status == "firing":
                self._severities[notice.incident_id] = notice.severity
        return answer

    def _lease(self, notices: Sequence[Notice]) -> int:
        """Return ms. Each further batch of open alerts adds twice the longest wait for an answer."""
        open_ = self._severities.keys() | {notice.incident_id for notice in notices}
        return self._lease_ms + 2 * self._answer_ms * ((len(open_) - 1) // self.traits.at_most)

    def _note_date(self, date: str | None) -> None:
        """Note Alertmanager's clock by the Date header of an answer."""
        try:
            date_ms = to_ms(parsedate_to_datetime(date)) if date else None
        except (ValueError, TypeError, OverflowError):
            return
        if date_ms is not None:
            self._zero_ms = date_ms - time.monotonic_ns() // 1_000_000

    def _time_there_ms(self, now_ms: int) -> int:
        """Return Alertmanager's time; this machine's until the first answer, or if they agree.

        If this machine's clock were an hour behind, each alert would be over for Alertmanager before it arrives.
        """
        if self._zero_ms is None:
            return now_ms
        there_ms = self._zero_ms + time.monotonic_ns() // 1_000_000
        return now_ms if abs(now_ms - there_ms) <= SAME_CLOCK_MS else there_ms


def alerts(
    notices: Sequence[Notice],
    now_ms: int,
    lease_ms: int,
    severities: Mapping[str, str] | None = None,
    links: Links = NO_LINKS,
) -> list[dict[str, Any]]:
    """Return the request's body. `severities` are the notified ones: an alert with another severity is resolved."""
    alerts = []
    for notice in notices:
        before = (severities or {}).get(notice.incident_id, notice.severity)
        if before != notice.severity:
            alerts.append(dataclasses.replace(notice, severity=before, status="resolved", changed_at_ms=now_ms))
        alerts.append(notice)
    return [alert_of(notice, now_ms, iso(now_ms + lease_ms), links) for notice in alerts]


def alert_of(notice: Notice, latest_ms: int, ends_at: str, links: Links) -> dict[str, Any]:
    """Return one alert. `ends_at` is the end of a firing one; times after `latest_ms` are cut to it.

    The labels are kind, severity, static labels and the identity labels that are not empty. What may change during an
    incident is an annotation, because it must not identify the alert.
    """
    # Event time may be ahead of this clock; Alertmanager refuses or ignores an end before the start or in the future.
    starts_ms = min(notice.started_at_ms, latest_ms)
    queues = ", ".join(notice.queues[:QUEUES_SHOWN])
    if (more := len(notice.queues) - QUEUES_SHOWN) > 0:
        queues = f"{queues} {translate(phrase('and {number} more', number=more), links.language)}"
    labels = {**notice.all_labels(), "alertname": notice.kind, "severity": notice.severity}
    annotations = {
        "summary": one_line(notice.summary, ANNOTATION_CHARACTERS),
        "advice": one_line(notice.advice, ANNOTATION_CHARACTERS),
        "cause": visible_name(notice.cause or ""),
        "reason": visible_name(notice.reason or ""),
        "queues": visible_name(queues),
        "incident_id": notice.incident_id,
        "started": iso(notice.started_at_ms),
        "runbook_url": links.runbook(notice) or "",
    }
    alert = {
        "labels": {name: visible_name(value) for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": iso(starts_ms),
        "endsAt": ends_at if notice.status == "firing" else iso(max(starts_ms, min(notice.changed_at_ms, latest_ms))),
    }
    link = links.incident(notice)
    return alert | ({"generatorURL": link} if link else {})
