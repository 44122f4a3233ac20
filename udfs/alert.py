"""What is found wrong, the incident it becomes, and the rows the incident leaves; udfs.life moves one to the other.

Identity is a hash of sorted labels; what changes during an incident (queues, addresses, offsets) never enters it.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

MOST_TOLD = 100
"""Entries of one list of the evidence: a row is for people, and is kept in the state."""


@dataclass(frozen=True)
class Finding:
    """Something is wrong, as seen at one look.

    `labels` are its identity. `text` is (summary, advice). `is_ready` says that the rule's own hold is over.
    `suppressed_by` is the incident id of the cause that explains it. `is_missing` says that it tells of data that is
    missing, not of what the data show. `figures` are what may be told again while nothing else changes. `under` are the
    brokers it stands under where neither its queues nor its own broker tell.
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
    is_missing: bool = False
    figures: str = ""
    under: tuple[str, ...] = ()


@dataclass
class Incident:
    """One finding from its first sign to its end: what is needed to write its next row, and to know when.

    `state` is never RESOLVED: what is over is not kept. `looks` and `held_ms` count how often, and for how long, the
    finding was seen to hold before it fired; `calm_ms` for how long it has stayed away since it last held. Time in
    which nobody looked counts for neither. `flaps` is how often it came back. `written_ms` is its newest row.
    `alone_ms` is since when nothing explains it that was explained, while it is neither sure nor gone. `next_queues`
    are others than those told, found since `next_ms`, others at all since `differs_ms`; None while they are the same.
    `evidence` is bounded.
    """

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
    state: str = "FIRING"
    figures: str = ""
    looks: int = 1
    held_ms: int = 0
    calm_ms: int = 0
    seen_ms: int = 0
    written_ms: int = 0
    fired_at_ms: int | None = None
    flaps: int = 0
    is_flapping: bool = False
    alone_ms: int | None = None
    next_queues: tuple[str, ...] | None = None
    next_ms: int = 0
    differs_ms: int = 0

    @property
    def has_fired(self) -> bool:
        return self.fired_at_ms is not None


def brokers_of(subject: Finding | Incident) -> set[str]:
    """The brokers it is about: those of its queues, else those it names; none for what concerns a whole group."""
    if subject.queues:
        return {name.rpartition(":")[0] for name in subject.queues}
    return set(subject.broker_name.split(",")) if subject.broker_name else set()


@dataclass(frozen=True)
class Transition:
    """One row of the alerts table. `state` is the incident's state after it; RESOLVED for its last."""

    incident: Incident
    state: str
    reason: str
    changed_at_ms: int
    completeness: float = 1.0


def with_words(transition: Transition, words: str) -> Transition:
    """The same row, with what a person said of it at the end of its summary."""
    if not words:
        return transition
    summary, advice = transition.incident.text
    return replace(transition, incident=replace(transition.incident, text=(f"{summary} {words}", advice)))


def alert_id(kind: str, labels: dict[str, str]) -> str:
    """16 hex digits of SHA-256 over the sorted labels."""
    identity = json.dumps({"kind": kind, **labels}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def opened(finding: Finding, state: str, now_ms: int) -> Incident:
    """The incident that a finding begins. Its id names the look that opened it: one before may have the same start."""
    identity = alert_id(finding.kind, finding.labels)
    return Incident(
        alert_id=identity,
        incident_id=f"{identity}-{now_ms}",
        kind=finding.kind,
        cause=finding.cause,
        severity=finding.severity,
        started_at_ms=finding.since_ms,
        labels=finding.labels,
        topic=finding.topic,
        client_id=finding.client_id,
        broker_name=finding.broker_name,
        queues=finding.queues,
        suppressed_by=finding.suppressed_by,
        text=finding.text,
        evidence=bound(finding.evidence),
        state=state,
        figures=finding.figures,
        seen_ms=now_ms,
    )


def told(incident: Incident, finding: Finding) -> Incident:
    """The same incident with the newest facts: its identity, start and clocks stay."""
    return replace(
        incident,
        cause=finding.cause,
        severity=finding.severity,
        topic=finding.topic,
        client_id=finding.client_id,
        broker_name=finding.broker_name,
        queues=finding.queues,
        suppressed_by=finding.suppressed_by,
        text=finding.text,
        evidence=bound(finding.evidence),
        figures=finding.figures,
        next_queues=None,
    )


def bound(evidence: dict[str, Any]) -> dict[str, Any]:
    """The first MOST_TOLD entries of each list and mapping in it, and beside one that is cut its `NAME_count`."""
    told: dict[str, Any] = {}
    for name, value in evidence.items():
        if isinstance(value, dict | list | tuple) and len(value) > MOST_TOLD:
            told[f"{name}_count"] = len(value)
        if isinstance(value, dict):
            told[name] = bound(dict(list(value.items())[:MOST_TOLD]))
        else:
            told[name] = value[:MOST_TOLD] if isinstance(value, list | tuple) else value
    return told
