"""Alertmanager's API v2: one receiver a replica, because replicas share silences and notification logs, not alerts.

A firing alert is a lease: it ends `lease_seconds` after it was told last, so it must be told again before, and a
dead sender leaves nothing open for ever (Prometheus: 4 times its resend delay). It ends by Alertmanager's clock, and
where so many are open that reporting all of them could take longer, later: each batch may wait for its answer.

`severity` is a label, because routing trees match on it, and labels are an alert's identity there. So an incident
whose severity changes becomes a new alert, and the old one is ended by the same request. When this process has
forgotten what it told (a restart), the old one ends with its lease.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from streaming.oncall.links import NO_LINKS, Links
from streaming.oncall.notice import Notice
from streaming.oncall.posting import TIME_OUTS, Poster, TimeOuts, bearer, json_bytes
from streaming.oncall.receiver import Answer, Verdict
from streaming.oncall.text import clean, cut_list, one_line
from streaming.oncall.their_clock import TheirClock, is_same
from streaming.text.times import iso

ALERTS_PATH = "/api/v2/alerts"
QUEUES_SHOWN = 20
ANNOTATION_CHARACTERS = 4_000

REFUSES_A_BATCH = {400, 413, 422}
"""413: a proxy finds a hundred alerts too large, and one perhaps not."""

SEARCH_SECONDS = 30.0
"""For finding what is refused of a batch; what is not found by then is looked for in the next call."""

REMEMBERED = 100_000
"""Incidents whose severity is kept; one that was told longest ago goes first, and its lease is over long since."""


class Alertmanager:
    """One replica. `url` is its root, without /api/v2."""

    at_most = 100
    min_interval_seconds = 0.0
    is_leased = True

    def __init__(
        self,
        name: str,
        url: str,
        *,
        lease_seconds: float,
        token: str | None = None,
        links: Links = NO_LINKS,
        time_outs: TimeOuts = TIME_OUTS,
    ) -> None:
        """`lease_seconds`: at least four times the interval in which open incidents are told again, or one late
        renewal ends them. `token` is sent as a bearer; a user and password may stand in `url`. Raises AddressError.
        """
        self.name = name
        self._lease_ms = round(lease_seconds * 1000)
        self._answer_ms = round(time_outs.total * 1000)
        self._clock = TheirClock()
        self._links = links
        self._poster = Poster(url.rstrip("/") + ALERTS_PATH, headers=bearer(token), time_outs=time_outs)
        self._severities: dict[str, str] = {}

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Tell all at once. A batch that is refused is halved until those are found that it is refused for."""
        first = self._post(notices, now_ms)
        if first.code not in REFUSES_A_BATCH or len(notices) == 1:
            return first
        refused: list[str] = []
        reason, until = first.reason, time.monotonic() + SEARCH_SECONDS
        left = _halves(notices)
        while left:
            if time.monotonic() > until:
                return Answer(
                    "RETRY", first.code, f"{reason}; the rejected alerts are not identified yet", 0.0, tuple(refused)
                )
            some = left.pop()
            answer = self._post(some, now_ms)
            if answer.verdict in {"RETRY", "BAD_KEY"}:
                return dataclasses.replace(answer, refused=tuple(refused))
            if answer.code in REFUSES_A_BATCH and len(some) > 1:
                left += _halves(some)
            elif answer.verdict == "REFUSED":
                refused += [notice.key for notice in some]
                reason = answer.reason
        verdict: Verdict = "REFUSED" if len(refused) == len(notices) else "DELIVERED"
        return Answer(verdict, first.code, reason, refused=tuple(refused))

    def _post(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Once; twice where the answer shows that the times in it were of another clock."""
        for _ in range(2):
            notified_ms = self._clock.now_ms(now_ms)
            payload = alerts(notices, notified_ms, self._lease(notices), self._severities, self._links)
            reply = self._poster.post(json_bytes(payload), now_ms)
            self._clock.note(reply.date)
            if reply.answer.verdict != "DELIVERED" or is_same(notified_ms, self._clock.now_ms(now_ms)):
                break
        if reply.answer.verdict == "DELIVERED":
            self._remember(notices)
        return reply.answer

    def _lease(self, notices: Sequence[Notice]) -> int:
        """ms. Beyond the first, each batch of what is open there may take as long as an answer may, twice over."""
        open_ = self._severities.keys() | {notice.incident_id for notice in notices}
        return self._lease_ms + 2 * self._answer_ms * ((len(open_) - 1) // self.at_most)

    def _remember(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._severities.pop(notice.incident_id, None)
            if notice.status == "firing":
                self._severities[notice.incident_id] = notice.severity
        while len(self._severities) > REMEMBERED:
            del self._severities[next(iter(self._severities))]

    def close(self) -> None:
        self._poster.close()


def _halves(notices: Sequence[Notice]) -> list[Sequence[Notice]]:
    """The first half last, where it is taken from."""
    middle = len(notices) // 2
    return [notices[middle:], notices[:middle]]


def alerts(
    notices: Sequence[Notice],
    now_ms: int,
    lease_ms: int,
    severities: Mapping[str, str] | None = None,
    links: Links = NO_LINKS,
) -> list[dict[str, Any]]:
    """The request's body. `severities` is what was notified last of each incident: the alert under another is ended."""
    notified: list[dict[str, Any]] = []
    for notice in notices:
        before = (severities or {}).get(notice.incident_id, notice.severity)
        if before != notice.severity:
            ended = dataclasses.replace(notice, severity=before, status="resolved", changed_at_ms=now_ms)
            notified.append(_alert(ended, now_ms, lease_ms, links))
        notified.append(_alert(notice, now_ms, lease_ms, links))
    return notified


def _alert(notice: Notice, now_ms: int, lease_ms: int, links: Links) -> dict[str, Any]:
    # Event time may be ahead of this clock, and an end before the start, or in the future, is refused or no end.
    starts_ms = min(notice.started_at_ms, now_ms)
    is_firing = notice.status == "firing"
    ends_ms = now_ms + lease_ms if is_firing else max(starts_ms, min(notice.changed_at_ms, now_ms))
    alert = {
        "labels": labels(notice),
        "annotations": annotations(notice, links),
        "startsAt": iso(starts_ms),
        "endsAt": iso(ends_ms),
    }
    link = links.incident(notice)
    return alert | ({"generatorURL": link} if link else {})


def labels(notice: Notice) -> dict[str, str]:
    """Kind, severity and the identity labels; the columns where a row has none. Empty ones are no labels there."""
    columns = {
        "cluster": notice.cluster,
        "consumer_group": notice.consumer_group,
        "topic": notice.topic,
        "broker_name": notice.broker_name,
        "client_id": notice.client_id,
    }
    identity = notice.labels or columns
    named = {**identity, "alertname": notice.kind, "severity": notice.severity}
    return {name: clean(value) for name, value in named.items() if value}


def annotations(notice: Notice, links: Links = NO_LINKS) -> dict[str, str]:
    """What changes during an incident: never part of its identity."""
    notified = {
        "summary": one_line(notice.summary, ANNOTATION_CHARACTERS),
        "advice": one_line(notice.advice, ANNOTATION_CHARACTERS),
        "cause": clean(notice.cause or ""),
        "reason": clean(notice.reason or ""),
        "queues": clean(cut_list(notice.queues, QUEUES_SHOWN)),
        "incident_id": notice.incident_id,
        "started": iso(notice.started_at_ms),
        "runbook_url": links.runbook(notice) or "",
    }
    return {name: value for name, value in notified.items() if value}
