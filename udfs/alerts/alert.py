"""What is found wrong, the incident it becomes, and the rows the incident leaves; life.py moves one to the other.

Identity is a hash of sorted labels; what changes during an incident (queues, addresses, offsets) never enters it.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from udfs.alerts.phrase import Fact, Phrase, Words, join_sentences

MOST_ENTRIES = 100
"""Entries of one list of the evidence: a row is for people, and is kept in the state."""


class Text(NamedTuple):
    """What people read: what is wrong, where, since when and why; and the one line that fixes it."""

    summary: Words
    advice: Words


class Wording(NamedTuple):
    """A summary, or a reason that a summary gives, and its advice, without their facts."""

    summary: Phrase
    advice: Phrase

    def given(self, **facts: Fact) -> Text:
        """Return the text; summary and advice keep the facts that they name."""
        texts = (part.given(**{name: facts[name] for name in facts if f"{{{name}" in part.template}) for part in self)
        return Text(*texts)


def wording(summary: str | Phrase, advice: str | Phrase) -> Wording:
    return Wording(*(Phrase(part, {}) if isinstance(part, str) else part for part in (summary, advice)))


@dataclass(frozen=True)
class Finding:
    """Something is wrong, as seen at one evaluation.

    labels        the finding's identity
    is_ready      the rule's own hold is over
    inhibited_by  the incident id of the cause that explains the finding
    is_missing    data is missing; False where data shows a problem
    figures       what may be reported again while nothing else changes
    under         the brokers that the finding depends on, where neither its queues nor its own broker say so
    """

    kind: str
    cause: str
    severity: str
    since_ms: int
    text: Text
    labels: dict[str, str]
    topic: str | None = None
    client_id: str | None = None
    broker_name: str | None = None
    queues: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    inhibited_by: str | None = None
    is_ready: bool = True
    is_missing: bool = False
    figures: str = ""
    under: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`KIND SUBJECT`, under which a state keeps its incident: the labels below the cluster and the group."""
        subject = (value for name, value in self.labels.items() if name not in ("cluster", "consumer_group"))
        return " ".join((self.kind, *subject))


@dataclass
class Incident:
    """One finding from its first sign to its end: what is needed to write its next row, and to know when.

    state        PENDING, UNKNOWN, FIRING or RECOVERING; an incident that is RESOLVED is not kept
    evaluations  how many evaluations found that the finding holds, before the incident fired
    held_ms      for how long it was; time without an evaluation does not count
    calm_ms      for how long the finding has stayed away since it last held; likewise
    seen_ms      the last evaluation
    written_ms   the time of the newest row
    flaps        how often the incident came back from RECOVERING
    alone_ms     since when its inhibitor is over, while the finding is neither ready nor gone
    next_queues  the queues of the newest findings, where they differ from those in the last row; else None
    next_ms      since when they are `next_queues`
    differs_ms   since when they differ from those in the last row
    evidence     at most MOST_ENTRIES of each list
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
    inhibited_by: str | None
    text: Text
    evidence: dict[str, Any]
    state: str = "FIRING"
    figures: str = ""
    evaluations: int = 1
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
    """The brokers it is about: those of its queues, else those it names; none if it concerns an entire group."""
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


def with_words(transition: Transition, words: Words) -> Transition:
    """The same row, with what a person said of it at the end of its summary."""
    if not words:
        return transition
    text = transition.incident.text
    text = text._replace(summary=join_sentences(text.summary, words))
    return replace(transition, incident=replace(transition.incident, text=text))


def alert_id(kind: str, labels: dict[str, str]) -> str:
    """16 hex digits of SHA-256 over the sorted labels."""
    identity = json.dumps({"kind": kind, **labels}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def opened(finding: Finding, state: str, now_ms: int) -> Incident:
    """The incident that a finding begins. Its id names the evaluation that opened it: one before may have the same
    start.
    """
    identity = alert_id(finding.kind, finding.labels)
    return Incident(
        alert_id=identity,
        incident_id=f"{identity}-{now_ms}",
        kind=finding.kind,
        started_at_ms=finding.since_ms,
        labels=finding.labels,
        state=state,
        seen_ms=now_ms,
        **_facts_of(finding),
    )


def with_finding(incident: Incident, finding: Finding) -> Incident:
    """The same incident with the newest facts: its identity, start and clocks stay."""
    return replace(incident, **_facts_of(finding), next_queues=None)


def _facts_of(finding: Finding) -> dict[str, Any]:
    """The fields of an incident that follow its newest finding."""
    names = ("cause", "severity", "topic", "client_id", "broker_name", "queues", "inhibited_by", "text", "figures")
    return {**{name: getattr(finding, name) for name in names}, "evidence": bound(finding.evidence)}


def bound(evidence: dict[str, Any]) -> dict[str, Any]:
    """The first MOST_ENTRIES entries of each list and mapping in it, and beside one that is cut its `NAME_count`."""
    reported: dict[str, Any] = {}
    for name, value in evidence.items():
        if isinstance(value, dict | list | tuple) and len(value) > MOST_ENTRIES:
            reported[f"{name}_count"] = len(value)
        if isinstance(value, dict):
            reported[name] = bound(dict(list(value.items())[:MOST_ENTRIES]))
        else:
            reported[name] = value[:MOST_ENTRIES] if isinstance(value, list | tuple) else value
    return reported
