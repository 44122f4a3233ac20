"""PagerDuty's Events API v2: one event per request; the incident_id is the dedup_key, so a repetition opens nothing.

PagerDuty ignores a resolve or acknowledge of an incident that is not open. A trigger of an open key is a log entry.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal

from streaming.relay.notice import NO_LINKS, Links, Notice, clean, one_line
from streaming.relay.receivers.posting import TIME_OUTS, AddressError, Answer, Poster, TimeOuts, json_bytes
from streaming.text.times import iso

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
CLIENT = "balancewatch"

SUMMARY_CHARACTERS = 1_024
DEDUP_KEY_CHARACTERS = 255
BODY_BYTES = 512_000
"""The documented limit is 512 KB, which may mean 512,000 or 524,288."""

ADVICE_CHARACTERS = 4_000
QUEUES_LEFT = 100
THROTTLED_SECONDS = 120.0
"""After a 429: PagerDuty asks for minutes, often without a number."""

SEVERITIES = {"critical": "critical", "error": "error", "warning": "warning", "info": "info"}

Action = Literal["trigger", "acknowledge", "resolve"]

_NAMES_KEY = re.compile(r"routing[ _-]?key", re.IGNORECASE)


class PagerDuty:
    """One service of PagerDuty. The relay reads the routing key from the environment."""

    at_most = 1
    min_interval_seconds = 0.0
    is_leased = False

    def __init__(
        self,
        name: str,
        routing_key: str,
        *,
        url: str = EVENTS_URL,
        links: Links = NO_LINKS,
        time_outs: TimeOuts = TIME_OUTS,
    ) -> None:
        """Raises AddressError."""
        if not routing_key.strip():
            raise AddressError(
                f"the routing key of {name} is empty; use the integration key of an Events API v2 integration"
            )
        self.name = name
        self._routing_key = routing_key.strip()
        self._links = links
        self._poster = Poster(url, secrets=[self._routing_key], time_outs=time_outs)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Trigger or resolve the incident of one notice."""
        (notice,) = notices
        return self._post(notice, "trigger" if notice.status == "firing" else "resolve", now_ms)

    def acknowledge(self, notice: Notice, now_ms: int) -> Answer:
        """Acknowledge the incident: PagerDuty stops escalating, and the incident stays open."""
        return self._post(notice, "acknowledge", now_ms)

    def _post(self, notice: Notice, action: Action, now_ms: int) -> Answer:
        reply = self._poster.post(event(notice, action, self._routing_key, self._links), now_ms)
        answer = reply.answer
        if answer.code == 429:
            return dataclasses.replace(
                answer, retry_after_seconds=max(answer.retry_after_seconds or 0.0, THROTTLED_SECONDS)
            )
        if answer.code == 400 and _NAMES_KEY.search(reply.body.decode("utf-8", "replace")):
            return dataclasses.replace(answer, verdict="BAD_KEY")
        return answer

    def close(self) -> None:
        self._poster.close()


def event(notice: Notice, action: Action, routing_key: str, links: Links = NO_LINKS) -> bytes:
    """Return the body within BODY_BYTES: too large evidence is left out first, then queues, and the body says so."""
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": notice.incident_id[:DEDUP_KEY_CHARACTERS],
        "client": CLIENT,
    }
    incident, runbook = links.incident(notice), links.runbook(notice)
    if incident:
        body["client_url"] = incident
    named = ((incident, "Incident on the board"), (runbook, f"Runbook: {notice.kind}"))
    if shown := [{"href": href, "text": text} for href, text in named if href]:
        body["links"] = shown
    if action != "trigger":
        return json_bytes(body)
    body["payload"] = payload = _payload(notice, runbook)
    details = payload["custom_details"]
    encoded = json_bytes(body)
    if len(encoded) > BODY_BYTES:
        details["evidence"] = "omitted: the event exceeded 512 KB; see the alerts table"
        encoded = json_bytes(body)
    if len(encoded) > BODY_BYTES and len(notice.queues) > QUEUES_LEFT:
        details["queues"] = [*notice.queues[:QUEUES_LEFT], f"and {len(notice.queues) - QUEUES_LEFT} more"]
        encoded = json_bytes(body)
    return encoded


def _payload(notice: Notice, runbook: str | None) -> dict[str, Any]:
    details = {
        "advice": one_line(notice.advice, ADVICE_CHARACTERS),
        **({"runbook_url": runbook} if runbook else {}),
        "cause": notice.cause,
        "reason": notice.reason,
        "labels": notice.labels,
        "queues": list(notice.queues),
        "incident_id": notice.incident_id,
        "started_at": iso(notice.started_at_ms),
        "evidence": notice.evidence,
    }
    payload = {
        "summary": one_line(notice.summary, SUMMARY_CHARACTERS) or notice.kind,
        "source": clean(notice.broker_name or notice.cluster),
        "severity": SEVERITIES.get(notice.severity, "error"),
        "timestamp": iso(notice.changed_at_ms),
        "component": notice.topic or notice.client_id,
        "group": notice.consumer_group or notice.cluster,
        "class": notice.kind,
        "custom_details": details,
    }
    return {name: value for name, value in payload.items() if value is not None}
