"""The life of an alert: a finding becomes an incident, an incident ends, and each step is written once.

Identity is a hash of sorted labels; what changes during an incident (queues, addresses, offsets) never enters it.
A finding is not ready while its hold is running: that opens nothing, and ends nothing either.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

FIRING, RESOLVED = "FIRING", "RESOLVED"


@dataclass(frozen=True)
class Finding:
    """Something is wrong in one consumer group, as seen at one moment.

    `labels` are its identity. `text` is (summary, advice). `is_ready` says that its hold is over. `suppressed_by`
    is the incident id of the cause that explains it.
    """

    kind: str
    cause: str
    severity: str
    since_ms: int
    text: tuple[str, str]
    labels: dict[str, str]
    topic: str | None = None
    client_id: str | None = None
    broker_name: str | None = None
    queues: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    suppressed_by: str | None = None
    is_ready: bool = True


@dataclass
class Incident:
    """A firing alert: what is needed to write its next row."""

    alert_id: str
    incident_id: str
    kind: str
    cause: str
    severity: str
    started_at_ms: int
    labels: dict[str, str]
    topic: str | None
    client_id: str | None
    broker_name: str | None
    queues: tuple[str, ...]
    suppressed_by: str | None
    text: tuple[str, str]
    evidence: dict[str, Any]


@dataclass(frozen=True)
class Transition:
    """One row of the alerts table."""

    incident: Incident
    state: str
    changed_at_ms: int


def alert_id(kind: str, labels: dict[str, str]) -> str:
    """16 hex digits of SHA-256 over the sorted labels."""
    identity = json.dumps({"kind": kind, **labels}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def advance(
    incident: Incident | None, finding: Finding | None, now_ms: int
) -> tuple[Incident | None, Transition | None]:
    """The incident after this moment, and the row to write, if any.

    A firing incident is written again only when its cause, its queues or what suppresses it changed.
    """
    if finding is None:
        if incident is None:
            return None, None
        return None, Transition(_ended(incident, now_ms), RESOLVED, now_ms)
    if not finding.is_ready:
        return incident, None
    if incident is not None and _content(incident) == _content(finding):
        return incident, None
    started_at_ms = incident.started_at_ms if incident else finding.since_ms
    identity = alert_id(finding.kind, finding.labels)
    now_firing = Incident(
        alert_id=identity,
        incident_id=f"{identity}-{started_at_ms}",
        kind=finding.kind,
        cause=finding.cause,
        severity=finding.severity,
        started_at_ms=started_at_ms,
        labels=finding.labels,
        topic=finding.topic,
        client_id=finding.client_id,
        broker_name=finding.broker_name,
        queues=finding.queues,
        suppressed_by=finding.suppressed_by,
        text=finding.text,
        evidence=finding.evidence,
    )
    return now_firing, Transition(now_firing, FIRING, now_ms)


def _content(subject: Incident | Finding) -> tuple[str, tuple[str, ...], str | None]:
    return subject.cause, subject.queues, subject.suppressed_by


def _ended(incident: Incident, now_ms: int) -> Incident:
    """The incident as its last row tells it: over, after how long."""
    summary, _ = incident.text
    seconds = max(0, now_ms - incident.started_at_ms) // 1000
    lasted = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
    text = (f"Over after {lasted}. It was: {summary}", "Nothing to do.")
    return Incident(**{**incident.__dict__, "text": text})
