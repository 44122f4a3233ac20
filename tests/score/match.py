"""Claims against facts: what was told, what was missed, what was wrong, and how long it took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.score.claims import PER_QUEUE, Claim
from tests.score.truths import Fact

LATE_MS = 60_000
"""A claim may begin so long after its fact has ended: the end of a spell is told one rebalance and pull later."""


@dataclass
class Tally:
    """One kind and cause. `delays_ms` are onset to first claim, each beside its bound."""

    required: int = 0
    reported: int = 0
    claims: int = 0
    right: int = 0
    delays_ms: list[tuple[int, int]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.required += other.required
        self.reported += other.reported
        self.claims += other.claims
        self.right += other.right
        self.delays_ms += other.delays_ms
        self.missed += other.missed
        self.wrong += other.wrong


Key = tuple[str, str | None]


def compare(claims: Sequence[Claim], facts: Sequence[Fact], run: str, start_ms: int) -> dict[Key, Tally]:
    """A tally a (kind, cause) of one run. `run` names it in what is listed as missed or wrong.

    A starved queue must be told with its cause. A silent queue is an early sign: right while the queue starves.
    """
    tallies: dict[Key, Tally] = {}
    for fact in facts:
        tally = tallies.setdefault(_key(fact), Tally())
        fitting = [claim for claim in claims if _fits(claim, fact)]
        if fact.required:
            tally.required += 1
            if fitting:
                tally.reported += 1
                first_ms = min(claim.start_ms for claim in fitting)
                tally.delays_ms.append((max(0, first_ms - fact.start_ms), fact.bound_ms))
            else:
                tally.missed.append(f"{run}: {_describe(fact, start_ms)}")
    for claim in claims:
        tally = tallies.setdefault(_key(claim), Tally())
        tally.claims += 1
        if any(_fits(claim, fact) for fact in facts) or (claim.kind == "stalled_queue" and _starves(claim, facts)):
            tally.right += 1
        else:
            tally.wrong.append(f"{run}: {_describe(claim, start_ms)}")
    return tallies


def _key(one: Claim | Fact) -> Key:
    """Starved queues are counted by cause, other kinds whole; their causes must fit all the same."""
    return (one.kind, one.cause if one.kind == "starved_queue" else None)


def _fits(claim: Claim, fact: Fact) -> bool:
    is_same = claim.kind == fact.kind and (fact.cause in (None, claim.cause) or claim.cause in fact.also)
    return is_same and _is_about(claim, fact) and _overlaps(claim, fact)


def _is_about(claim: Claim, fact: Fact) -> bool:
    if fact.queue is not None:
        return (claim.consumer_group, claim.topic, claim.queue) == (fact.consumer_group, fact.topic, fact.queue)
    asked = (
        (fact.consumer_group, [claim.consumer_group]),
        (fact.topic, [claim.topic]),
        (fact.broker_name, (claim.broker_name or "").split(",")),
        (fact.client_id, [claim.client_id]),
    )
    return all(label is None or label in reported for label, reported in asked)


def _overlaps(claim: Claim, fact: Fact) -> bool:
    begins_in_time = fact.end_ms is None or claim.start_ms <= fact.end_ms + LATE_MS
    return begins_in_time and (claim.end_ms is None or claim.end_ms >= fact.start_ms)


def _starves(claim: Claim, facts: Iterable[Fact]) -> bool:
    of_queue = (fact for fact in facts if fact.kind == "starved_queue" and fact.queue is not None)
    return any(_is_about(claim, fact) and _overlaps(claim, fact) for fact in of_queue)


def _describe(one: Claim | Fact, start_ms: int) -> str:
    names = (
        one.consumer_group,
        one.topic if one.kind in PER_QUEUE else None,
        one.queue or one.broker_name,
        one.client_id,
    )
    until = "" if one.end_ms is None else f"{(one.end_ms - start_ms) / 1000:.0f}"
    where = " ".join(name for name in names if name)
    return f"{one.kind} {one.cause or ''} {where} {(one.start_ms - start_ms) / 1000:.0f}-{until} s"
