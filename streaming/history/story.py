"""The history of an incident as values: `explain` prints it, and the board's incident page shows it.

Times are epoch ms. Lists are oldest first and have at most MOST_SHOWN items: of longer ones the first half and the
last. `IncidentStory.left_out` counts the omitted items by list name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 200

REASONS: Mapping[str, str] = {
    "first_sign": "first seen; waiting to confirm",
    "data_missing": "data is missing",
    "hold_over": "confirmed",
    "came_back": "came back before it was resolved",
    "cause_changed": "cause changed",
    "queues_changed": "affected queues changed",
    "severity_changed": "severity changed",
    "inhibited": "inhibited by another open incident, does not page",
    "cause_ended": "no longer inhibited: the other incident is resolved, this one is not",
    "figures_changed": "figures changed",
    "condition_gone": "condition no longer holds; waiting to confirm",
    "recovered": "recovery confirmed",
    "not_confirmed": "condition ended before the alert fired",
    "data_returned": "data is back",
    "group_deleted": "group deleted",
    "topic_deleted": "topic deleted",
    "forgotten": "forgotten by an operator",
    "given_up": "its members, queues or brokers no longer exist",
}
"""Sentences for udfs.alerts.life.Reason."""


def ends(number: int, most: int, always: Collection[int] = ()) -> list[int]:
    """Return the indices to show: all, or `most` of them, half from each end, and `always`."""
    if number <= most:
        return list(range(number))
    head = most // 2
    return sorted({*range(head), *range(number - (most - head), number), *always})


@dataclass(frozen=True)
class Step:
    """One row of the alerts table. `why` is the sentence for `reason`."""

    at_ms: int
    state: str
    reason: str | None
    why: str
    severity: str
    cause: str | None
    queues: tuple[str, ...]
    inhibited_by: str | None
    summary: str


def turning_points(steps: Sequence[Step]) -> set[int]:
    """Return the steps that are always shown: the first FIRING and the last RESOLVED."""
    firing = [number for number, step in enumerate(steps) if step.state == "FIRING"][:1]
    ending = [number for number, step in enumerate(steps) if step.state == "RESOLVED"][-1:]
    return {*firing, *ending}


@dataclass(frozen=True)
class MemberChange:
    """JOINED, CHANGED, LEFT or EXPIRED, as several brokers report it within a minute.

    `channels` are (broker_name, client_addr).
    """

    at_ms: int
    change: str
    client_id: str
    channels: tuple[tuple[str, str], ...]
    strategy: str | None
    client_version: str | None


@dataclass(frozen=True)
class QueueChange:
    """A queue whose planned owner, observed owners or verdict changed. `*_before` is None in the first row."""

    at_ms: int
    topic: str
    queue: str
    verdict_before: str | None
    verdict: str
    planned_before: str | None
    planned_owner: str | None
    observed_before: tuple[str, ...] | None
    observed_owners: tuple[str, ...]


@dataclass(frozen=True)
class Related:
    """Another incident, by its newest row."""

    incident_id: str
    kind: str
    state: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    summary: str
    started_ms: int


@dataclass(frozen=True)
class Inhibited(Related):
    """An incident that this one inhibits, or did. `inhibited_until_ms` is None while it does.

    `paged_ms` is its first FIRING row without inhibition, which pages unless it is `info`; None without one.
    """

    inhibited_since_ms: int
    inhibited_until_ms: int | None
    paged_ms: int | None


@dataclass(frozen=True)
class HealthChange:
    """`unavailable_producers` of `producers` avoid the broker from `at_ms`, planned until `until_ms`."""

    at_ms: int
    broker_name: str
    unavailable_producers: int
    producers: int
    until_ms: int | None


@dataclass(frozen=True)
class Delivery:
    """One row of the delivery log: `outcome` is PENDING, DELIVERED, RETRYING, REFUSED, or why no receiver got it."""

    at_ms: int
    status: str | None
    receiver: str
    outcome: str | None
    attempt: int
    code: int | None
    latency_ms: int
    reason: str | None
    route: str | None


@dataclass(frozen=True)
class CoveringSilence:
    """A silence that covered the incident at some time."""

    silence_id: str
    created_by: str
    comment: str
    match: str
    starts_ms: int
    ends_ms: int


@dataclass(frozen=True)
class Acknowledged:
    """An acknowledgement."""

    at_ms: int
    acknowledged_by: str
    note: str


@dataclass(frozen=True)
class IncidentStory:
    """One incident. `summary` is the newest, `advice` the newest while it was open.

    started_ms, verdict_since_ms   when its trouble began, and since when the verdict on its queues is certain
    ended_ms                       None while it is open
    from_ms, to_ms                 range of the context: two minutes before the start until the end, None while open
    inhibits_by_kind, paged_by_kind  how many incidents it inhibits, and how many of these paged nevertheless
    inhibitors                     the incident that inhibits this one, then the one that inhibits that one, and so on
    not_notified_reason            why no receiver was notified, or None
    """

    incident_id: str
    alert_id: str
    kind: str
    severity: str
    state: str
    cause: str | None
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queues: tuple[str, ...]
    summary: str
    advice: str
    evidence: Mapping[str, Any]
    completeness: float | None
    flaps: int
    is_flapping: bool
    started_ms: int
    fired_ms: int | None
    changed_ms: int
    ended_ms: int | None
    from_ms: int
    to_ms: int | None
    verdict_since_ms: int | None = None
    steps: tuple[Step, ...] = ()
    members: tuple[MemberChange, ...] = ()
    queue_changes: tuple[QueueChange, ...] = ()
    inhibitors: tuple[Related, ...] = ()
    inhibits: tuple[Inhibited, ...] = ()
    inhibits_by_kind: Mapping[str, int] = field(default_factory=dict)
    paged_by_kind: Mapping[str, int] = field(default_factory=dict)
    health: tuple[HealthChange, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    not_notified_reason: str | None = None
    silences: tuple[CoveringSilence, ...] = ()
    acknowledgements: tuple[Acknowledged, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
