"""A topic's starved queues as one finding: one page for all of them, by the gravest of their causes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from udfs.alerts.rules import REBALANCE_MS
from udfs.groups.diagnosis import Starvation, gravity
from udfs.rocketmq.model import queue_order


class Blame(NamedTuple):
    """The cause of a queue's starvation, and the client that it lies with."""

    cause: str
    client_id: str | None


@dataclass(frozen=True)
class StarvedTopic:
    """The queues of one topic that starve, as one finding."""

    cause: str
    client_id: str | None
    since_ms: int
    queues: tuple[str, ...]
    causes: dict[str, Starvation]
    is_ready: bool


def gather(
    starvations: Mapping[str, Starvation],
    coming: frozenset[str],
    still_silent: Mapping[str, Blame],
    known_cause: str | None,
    now_ms: int,
) -> StarvedTopic | None:
    """One finding for a topic's starved queues, or None when none starves. It is not ready before one is certain.

    `coming` are queues about to starve for a reason already known: the page waits for them so that it lists all, but
    for one rebalance at most. `still_silent` are queues of the open incident that nobody pulled since, as they were
    reported; `known_cause` is its cause, None when there is no open incident.
    """
    if known_cause is None and not any(_is_certain(one, now_ms) for one in starvations.values()):
        return _uncertain(starvations)
    certain = {queue: starvation for queue, starvation in starvations.items() if _is_certain(starvation, now_ms)}
    if not certain:
        if not still_silent or known_cause is None:
            return None
        return StarvedTopic(known_cause, None, now_ms, tuple(sorted(still_silent, key=queue_order)), {}, False)
    coming = coming | {queue for queue, s in starvations.items() if s.certain_at_ms is not None} - certain.keys()
    first_ms = min(starvation.certain_at_ms or 0 for starvation in certain.values())
    blames = {**still_silent, **{queue: Blame(s.cause, s.client_id) for queue, s in certain.items()}}.values()
    cause = min((blame.cause for blame in blames), key=gravity)
    blamed = sorted({blame.client_id for blame in blames if blame.cause == cause and blame.client_id})
    return StarvedTopic(
        cause=cause,
        client_id=blamed[0] if blamed else None,
        since_ms=min(starvation.since_ms for starvation in certain.values()),
        queues=tuple(sorted(certain.keys() | still_silent, key=queue_order)),
        causes=certain,
        is_ready=not coming or now_ms >= first_ms + REBALANCE_MS,
    )


def _is_certain(starvation: Starvation, now_ms: int) -> bool:
    return starvation.certain_at_ms is not None and starvation.certain_at_ms <= now_ms


def _uncertain(starvations: Mapping[str, Starvation]) -> StarvedTopic | None:
    """The first sign: queues that nobody pulls, by the likeliest cause."""
    if not starvations:
        return None
    likeliest = min(starvations.values(), key=lambda starvation: gravity(starvation.cause))
    return StarvedTopic(
        likeliest.cause,
        likeliest.client_id,
        min(starvation.since_ms for starvation in starvations.values()),
        tuple(sorted(starvations, key=queue_order)),
        dict(starvations),
        is_ready=False,
    )
