"""Claims against facts, strictly: what was detected and resolved in time, and which claims were right.

A fact is detected when a claim with its labels and its cause begins between its onset and `Fact.detect_by_ms`, and ends
by `Fact.resolve_by_ms`. A claim is right when it begins during such a fact and ends by then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.lab.score.claims import PER_QUEUE, Claim
from tests.lab.score.fact import Fact
from tests.lab.score.truths import FLAPPING_COMINGS, FLAPPING_MS


class Verdict(StrEnum):
    """What a claim is."""

    RIGHT = "right"
    WRONG = "wrong"  # no fact has its labels and its cause, or it begins after that fact
    EARLY = "too early"  # it begins before its fact
    LATE = "late to resolve"  # it ends too long after its fact
    ENDLESS = "never ended"  # its fact has ended, and it was open when the play ended


UNFOUNDED = (Verdict.WRONG, Verdict.EARLY)
"""Verdicts on a claim that no fact of its time explains."""


@dataclass
class Tally:
    """One kind and cause.

    required     facts that had to be detected
    in_time      of them, those whose alert fired in time
    ended        of the latter, those whose end the play shows long enough
    resolved     of them, those whose alert resolved in time
    reported     facts that were detected: in time, and not resolved late
    delays_ms    onset to the first claim of each fact in time, beside its bound
    recovery_ms  a fact's end to the end of its last claim, never before
    """

    required: int = 0
    in_time: int = 0
    ended: int = 0
    resolved: int = 0
    reported: int = 0
    claims: int = 0
    right: int = 0
    early: int = 0
    late: int = 0
    endless: int = 0
    delays_ms: list[tuple[int, int]] = field(default_factory=list)
    recovery_ms: list[int] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


Key = tuple[str, str | None]


@dataclass(frozen=True)
class Judged:
    """A claim's verdict, and the facts that it detects: those that it begins in, and those that carry it on."""

    verdict: Verdict
    facts: tuple[Fact, ...] = ()


def compare(claims: Sequence[Claim], facts: Sequence[Fact], run: str, start_ms: int) -> dict[Key, Tally]:
    """Return a tally for each (kind, cause) of one play that began at `start_ms`.

    `run` names the play in what is listed as missed or wrong.
    """
    tallies: dict[Key, Tally] = {}
    judged = {claim: _judge(claim, facts) for claim in claims}
    for claim, one in judged.items():
        tally = tallies.setdefault(_key(claim), Tally())
        tally.claims += 1
        tally.right += one.verdict is Verdict.RIGHT
        tally.early += one.verdict is Verdict.EARLY
        tally.late += one.verdict is Verdict.LATE
        tally.endless += one.verdict is Verdict.ENDLESS
        if one.verdict is not Verdict.RIGHT:
            tally.wrong.append(f"{run}: {_describe(claim, start_ms)}, {one.verdict}")
    for fact in facts:
        if fact.required:
            _count(fact, judged, tallies.setdefault(_key(fact), Tally()), f"{run}: {_describe(fact, start_ms)}")
    return tallies


def verdicts_of(claims: Sequence[Claim], facts: Sequence[Fact]) -> dict[Claim, Verdict]:
    """Return what each claim is."""
    return {claim: _judge(claim, facts).verdict for claim in claims}


def _count(fact: Fact, judged: Mapping[Claim, Judged], tally: Tally, name: str) -> None:
    """Count one required fact. Where several claims follow each other, the first is timed, and the last one's end."""
    tally.required += 1
    own = sorted(
        (claim for claim, one in judged.items() if claim.kind == fact.kind and fact in one.facts),
        key=lambda claim: claim.start_ms,
    )
    if not own or own[0].start_ms > fact.detect_by_ms:
        why = f", {(own[0].start_ms - fact.detect_by_ms) / 1000:.0f} s late" if own else ""
        tally.missed.append(f"{name}{why}")
        return
    tally.in_time += 1
    tally.delays_ms.append((max(0, own[0].start_ms - fact.onset_ms), fact.bound_ms))
    is_late = any(judged[claim].verdict is not Verdict.RIGHT for claim in own)
    if fact.end_ms is not None and fact.resolve_by_ms <= fact.known_ms:
        tally.ended += 1
        tally.resolved += not is_late
        if not is_late:
            ends_ms = [claim.end_ms for claim in own if claim.end_ms is not None]
            tally.recovery_ms.append(max(0, max(ends_ms, default=fact.end_ms) - fact.end_ms))
    tally.reported += not is_late
    if is_late:
        tally.missed.append(f"{name}, not resolved in time")


def _judge(claim: Claim, facts: Sequence[Fact]) -> Judged:
    fitting = sorted((fact for fact in facts if _fits(claim, fact)), key=lambda fact: fact.start_ms)
    begun = [fact for fact in fitting if fact.start_ms <= claim.start_ms <= fact.begin_by_ms]
    if not begun:
        return Judged(Verdict.EARLY if any(_overlaps(claim, fact) for fact in fitting) else Verdict.WRONG)
    carried, until_ms = _carry(claim, begun, fitting, facts)
    is_late = until_ms < (max(fact.known_ms for fact in begun) if claim.end_ms is None else claim.end_ms)
    late = Verdict.ENDLESS if claim.end_ms is None else Verdict.LATE
    return Judged(late if is_late else Verdict.RIGHT, tuple(carried))


def _carry(
    claim: Claim, begun: Sequence[Fact], fitting: Sequence[Fact], facts: Sequence[Fact]
) -> tuple[list[Fact], int]:
    """Return the facts that keep a claim right that began during `begun`, and the moment by which it must have ended.

    A fact of the same subject that begins before that moment carries the claim on.
    """
    carried, until_ms = list(begun), _may_last_until_ms(claim, begun, fitting, facts)
    for fact in fitting:
        if fact not in carried and begun[0].start_ms <= fact.start_ms <= until_ms:
            carried.append(fact)
            until_ms = _may_last_until_ms(claim, carried, fitting, facts)
    return carried, until_ms


def _may_last_until_ms(claim: Claim, carried: Sequence[Fact], fitting: Sequence[Fact], facts: Sequence[Fact]) -> int:
    """The moment by which the alert of these facts must have ended.

    The alert of a fact that came often, before this claim too, is held open, because it flaps. A queue that starves on
    for another cause keeps the old one until the new one can be known.
    """
    until_ms = max(fact.resolve_by_ms for fact in carried)
    known = [fact for fact in fitting if fact.start_ms <= carried[-1].start_ms]
    comings_ms = sorted(coming for fact in known for coming in fact.comings_ms or (fact.start_ms,))
    flaps = zip(comings_ms, comings_ms[FLAPPING_COMINGS - 1 :], strict=False)
    if any(last_ms - first_ms <= FLAPPING_MS and last_ms >= carried[0].start_ms for first_ms, last_ms in flaps):
        until_ms = max(until_ms, comings_ms[-1] + FLAPPING_MS)
    for fact in facts:
        starves_on = carried[0].start_ms <= fact.start_ms <= until_ms
        if starves_on and fact.kind == "starved_queue" == claim.kind and _is_about(claim, fact):
            until_ms = max(until_ms, min(fact.detect_by_ms, fact.resolve_by_ms))
    return until_ms


def _key(one: Claim | Fact) -> Key:
    """Starved queues are counted by cause, other kinds as one; their causes must fit all the same."""
    return (one.kind, one.cause if one.kind == "starved_queue" else None)


def _fits(claim: Claim, fact: Fact) -> bool:
    """Whether the claim is about the fact's subject and names its cause; when does not matter."""
    if claim.kind == "stalled_queue" and fact.kind == "starved_queue":
        return claim.cause in fact.early and _is_about(claim, fact)
    is_same = claim.kind == fact.kind and (fact.cause in (None, claim.cause) or claim.cause in fact.also)
    return is_same and _is_about(claim, fact)


def _is_about(claim: Claim, fact: Fact) -> bool:
    if fact.clients and claim.client_id is not None and claim.client_id not in fact.clients:
        return False
    if fact.queue is not None:
        return (claim.consumer_group, claim.topic, claim.queue) == (fact.consumer_group, fact.topic, fact.queue)
    asked = (
        (fact.consumer_group, [claim.consumer_group]),
        (fact.topic, [claim.topic]),
        (fact.broker_name, (claim.broker_name or "").split(",")),
        (fact.client_id, [claim.client_id]),
    )
    is_machine = fact.machine is None or _is_machine(claim.machine or "", fact.machine)
    return is_machine and all(label is None or label in reported for label, reported in asked)


def _is_machine(claimed: str, machine: str) -> bool:
    """Whether the role and the name agree; an empty one of the fact's is any."""
    pairs = zip(claimed.partition(":")[::2], machine.partition(":")[::2], strict=True)
    return all(own in ("", said) for said, own in pairs)


def _overlaps(claim: Claim, fact: Fact) -> bool:
    return claim.start_ms <= fact.begin_by_ms and (claim.end_ms is None or claim.end_ms >= fact.start_ms)


def _describe(one: Claim | Fact, start_ms: int) -> str:
    names = (
        one.consumer_group,
        one.topic if one.kind in PER_QUEUE else None,
        one.queue or one.broker_name,
        one.client_id,
        one.machine,
    )
    until = "" if one.end_ms is None else f"{(one.end_ms - start_ms) / 1000:.0f}"
    where = " ".join(name for name in names if name)
    return f"{one.kind} {one.cause or ''} {where} {(one.start_ms - start_ms) / 1000:.0f}-{until} s"
