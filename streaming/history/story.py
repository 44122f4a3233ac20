"""The story of an incident as values: what `explain` prints and the board's page of an incident shows.

Times are epoch ms. Lists are oldest first and bounded (MOST_SHOWN): of longer ones the first half and the last are
there, and what was left out between them is counted in `IncidentStory.left_out`, by the list's name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 200

REASONS: Mapping[str, str] = {
    "first_sign": "the first sign; its hold is running",
    "data_missing": "what it is about gives no data",
    "hold_over": "seen for long enough, often enough",
    "came_back": "it held again before it was over",
    "cause_changed": "another cause explains it",
    "queues_changed": "other queues are concerned",
    "severity_changed": "its severity changed",
    "inhibited": "another open incident explains it, so it does not page",
    "cause_ended": "what explained it is over, and it is not",
    "figures_changed": "the figures changed",
    "condition_gone": "it does not hold any more",
    "recovered": "it stayed away",
    "not_confirmed": "it went away before it fired",
    "data_returned": "the data are back",
    "group_deleted": "the group was deleted",
    "topic_deleted": "the topic was deleted",
    "forgotten": "a person decided that it is gone",
    "given_up": "nothing of what it was about is left",
}
"""udfs.alerts.life.Reason in words."""


def ends(number: int, most: int, always: Collection[int] = ()) -> list[int]:
    """Which of so many parts are told: all, or half of `most` from the beginning, half from the end, and `always`."""
    if number <= most:
        return list(range(number))
    head = most // 2
    return sorted({*range(head), *range(number - (most - head), number), *always})


@dataclass(frozen=True)
class Step:
    """One row of the alerts table. `why` is `reason` in words."""

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
    """Which steps are told in any case: where it first fired, and where it ended."""
    firing = [number for number, step in enumerate(steps) if step.state == "FIRING"][:1]
    ending = [number for number, step in enumerate(steps) if step.state == "RESOLVED"][-1:]
    return {*firing, *ending}


@dataclass(frozen=True)
class MemberChange:
    """JOINED, CHANGED, LEFT or EXPIRED, in the view of each broker by which it happened within a minute.

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
    """A queue whose planned owner, observed owners or verdict changed. `*_before` is None where no row came before."""

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
    """Another incident, as its newest row tells it."""

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
    """An incident that this one explains, or did. `inhibited_until_ms` is None while it does.

    `paged_ms` is its first FIRING row that nothing explained, which pages unless it is `info`; None without one.
    """

    inhibited_since_ms: int
    inhibited_until_ms: int | None
    paged_ms: int | None


@dataclass(frozen=True)
class HealthChange:
    """k (`unavailable_producers`) of n (`producers`) avoid the broker, from then on; until `until_ms` as then known."""

    at_ms: int
    broker_name: str
    unavailable_producers: int
    producers: int
    until_ms: int | None


@dataclass(frozen=True)
class Delivery:
    """One row of the delivery log: `outcome` is PENDING, DELIVERED, RETRYING, REFUSED, or why nobody was told."""

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
    """A silence that covered it at some time."""

    silence_id: str
    created_by: str
    comment: str
    match: str
    starts_ms: int
    ends_ms: int


@dataclass(frozen=True)
class Acknowledged:
    """Somebody said that they are at it."""

    at_ms: int
    acknowledged_by: str
    note: str


@dataclass(frozen=True)
class IncidentStory:
    """One incident. `summary` is the newest, `advice` the newest while it was open; `ended_ms` is None while it is.

    What happened around it is of [from_ms, to_ms]: from two minutes before its start until its end; None while it is
    open, and all since then belongs to it.
    `inhibits_by_kind` counts all inhibits, `paged_by_kind` those that paged all the same.
    `inhibitors` begins with the incident that explains this one, then the one that explains that one.
    `not_notified_reason` says why nobody was notified, or is None.
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
