"""PagerDuty's Events API v2: one event per request; the incident_id is the dedup_key, so a repetition opens nothing.

PagerDuty ignores a resolve or acknowledge of an incident that is not open. A trigger of an open key is a log entry.
An acknowledged incident stays open, and PagerDuty stops escalating.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice, one_line
from streaming.relay.receivers.posting import Answer, HttpReceiver, Traits, json_bytes
from streaming.text.language import translate
from streaming.text.times import iso
from streaming.text.visible_text import visible_name
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.phrase import phrase

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"

SUMMARY_CHARACTERS = 1_024
DEDUP_KEY_CHARACTERS = 255
BODY_BYTES = 512_000
"""The documented limit is 512 KB, which may mean 512,000 or 524,288."""

ADVICE_CHARACTERS = 4_000
QUEUES_LEFT = 100
THROTTLED_SECONDS = 120.0
"""After a 429: PagerDuty asks for minutes, often without a number."""

ACTIONS = {"firing": "trigger", "acknowledged": "acknowledge", "resolved": "resolve"}

_NAMES_KEY = re.compile(r"routing[ _-]?key", re.IGNORECASE)


class PagerDuty(HttpReceiver):
    """One service of PagerDuty; `secret` is its routing key."""

    traits = Traits(can_acknowledge=True)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Trigger, acknowledge or resolve the incident of one notice."""
        answer = self.post(event(notices[0], self._secret or "", self._links), now_ms)
        if answer.code == 429:
            seconds = max(answer.retry_after_seconds or 0.0, THROTTLED_SECONDS)
            return dataclasses.replace(answer, retry_after_seconds=seconds)
        if answer.code == 400 and _NAMES_KEY.search(answer.body.decode("utf-8", "replace")):
            return dataclasses.replace(answer, verdict="BAD_KEY")
        return answer


def event(notice: Notice, routing_key: str, links: Links = NO_LINKS) -> bytes:
    """Return the body within BODY_BYTES: too large evidence is left out first, then queues, and the body says so."""
    incident, runbook = links.incident(notice), links.runbook(notice)
    named = ((incident, phrase("Incident on the board")), (runbook, phrase("Runbook: {kind}", kind=notice.kind)))
    shown = [{"href": href, "text": translate(text, links.language)} for href, text in named if href]
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": ACTIONS[notice.status],
        "dedup_key": notice.incident_id[:DEDUP_KEY_CHARACTERS],
        "client": "balancewatch",
        **({"client_url": incident} if incident else {}),
        **({"links": shown} if shown else {}),
    }
    if notice.status != "firing":
        return json_bytes(body)
    details: dict[str, Any] = {
        "advice": one_line(notice.advice, ADVICE_CHARACTERS),
        **({"runbook_url": runbook} if runbook else {}),
        "cause": notice.cause,
        "reason": notice.reason,
        "labels": notice.all_labels(),
        "queues": list(notice.queues),
        "incident_id": notice.incident_id,
        "started_at": iso(notice.started_at_ms),
        "evidence": notice.evidence,
    }
    payload = {
        "summary": one_line(notice.summary, SUMMARY_CHARACTERS) or notice.kind,
        "source": visible_name(notice.broker_name or notice.cluster),
        "severity": notice.severity if notice.severity in SEVERITIES else "error",
        "timestamp": iso(notice.changed_at_ms),
        "component": notice.topic or notice.client_id,
        "group": notice.consumer_group or notice.cluster,
        "class": notice.kind,
        "custom_details": details,
    }
    body["payload"] = {name: value for name, value in payload.items() if value is not None}
    encoded = json_bytes(body)
    if len(encoded) > BODY_BYTES:
        omitted = phrase("omitted: the event exceeded 512 KB; see the alerts table")
        details["evidence"] = translate(omitted, links.language)
        encoded = json_bytes(body)
    if len(encoded) > BODY_BYTES and len(notice.queues) > QUEUES_LEFT:
        more = phrase("and {number} more", number=len(notice.queues) - QUEUES_LEFT)
        details["queues"] = [*notice.queues[:QUEUES_LEFT], translate(more, links.language)]
        encoded = json_bytes(body)
    return encoded
