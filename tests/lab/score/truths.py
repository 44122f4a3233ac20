"""Facts of a run: what is true, from when until when, and how soon the protocol lets a watcher know it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from streaming.queries.rulebook import default_rules
from tests.lab.score.bounds import BOUNDS_MS, BOUNDS_OF_KIND_MS, RECOVERY_MS
from tests.lab.score.expectations import Expected
from tests.lab.score.truth import Span, TrueSimulation
from udfs.rocketmq.model import MessageQueue

NEVER_MS = 1 << 62

GAP_MS = 60_000
"""Queues that change hands at every rebalance starve by turns. Stretches up to this far apart are one fact."""

SLACK_MS = 15_000
"""An alert may fire this much after its bound and two poll rounds: three clock events of 5 s."""

STEADY_MS = 20_000
"""An open alert lists another queue once its list has stayed the same for a rebalance (`udfs/alerts/life.py`)."""

FLAPPING_COMINGS, FLAPPING_MS = 3, 21 * 60_000
"""An alert that fires this often within this time is held open for as long (`udfs/alerts/life.py`)."""


@dataclass(frozen=True)
class Fact:
    """One thing that is true from `start_ms` up to `end_ms` (None: to the end of the play).

    A label of None matches any claim. `required` facts must be detected, others may be.

    also         other causes that are as true of it
    early        causes of a `stalled_queue` that may announce it
    clients      ClientIds that may be blamed; empty: any
    machine      of a clock: "role:name", of which either may be empty
    comings_ms   when it came: more than one where its stretches were joined
    due_ms       the start of its first stretch that is long enough to be known; None: `start_ms`
    patience_ms  two poll rounds, and what is lost on the way
    later_ms     how much later it can be known, as other evidence must show it
    factor       how much faster than production's the clocks of the clients ran
    known_ms     the end of the play: what must happen after it cannot be judged
    blind_ms     until when a broker gave no data after its end, which holds the alert open; NEVER_MS: to the play's end
    """

    kind: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queue: str | None
    start_ms: int
    end_ms: int | None
    required: bool
    also: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    machine: str | None = None
    comings_ms: tuple[int, ...] = ()
    due_ms: int | None = None
    patience_ms: int = 0
    later_ms: int = 0
    factor: int = 1
    known_ms: int = NEVER_MS
    blind_ms: int = 0

    @property
    def onset_ms(self) -> int:
        """From when its detection is timed."""
        return self.start_ms if self.due_ms is None else self.due_ms

    @property
    def bound_ms(self) -> int:
        """From onset until it can be known."""
        of_cause = BOUNDS_MS.get(self.cause or "") if self.kind == "starved_queue" else None
        bound_ms = BOUNDS_OF_KIND_MS.get(self.kind, 0) if of_cause is None else of_cause
        return bound_ms // self.factor

    @property
    def detect_by_ms(self) -> int:
        """The latest moment for its alert to fire."""
        return self.onset_ms + self.bound_ms + self.later_ms + self.patience_ms + SLACK_MS // self.factor

    @property
    def begin_by_ms(self) -> int:
        """The latest moment for a claim of it to begin: a poll that was made before its end may be read after it."""
        return NEVER_MS if self.end_ms is None else self.end_ms + self.patience_ms

    @property
    def resolve_by_ms(self) -> int:
        """The latest moment for its alert to resolve; NEVER_MS while it lasts."""
        if self.end_ms is None or self.blind_ms == NEVER_MS:
            return NEVER_MS
        end_ms = max(self.end_ms, self.blind_ms)
        return end_ms + (RECOVERY_MS.get(self.kind, 0) + _hold_ms(self.kind)) // self.factor + self.patience_ms


@cache
def _hold_ms(kind: str) -> int:
    """How long a finding of a kind must stay away."""
    return default_rules().of_kind(kind).recovering_ms


ALSO = {"pull_stopped": frozenset({"consume_stopped"}), "consume_stopped": frozenset({"pull_stopped"})}
"""Queues that are not pulled are not consumed; a client with a full cache, or a suspended one, does not pull."""

SILENT = frozenset({"pull_stopped", "consume_stopped"})
"""Causes of a `stalled_queue` whose owner holds the queue in vain."""

FALLS_SILENT = frozenset({"frozen_client", *SILENT})
"""Causes of a starved queue that a stalled one announces by those: an owner that pulls no more is seen before its late
heartbeat proves it frozen, or 120 s prove it stopped."""


def early_signs(causes: Iterable[str], *, expects_stalled: bool) -> frozenset[str]:
    """The causes of a `stalled_queue` that may announce a starved queue of these causes.

    A scenario's file that expects a stalled queue allows those of a silent owner as well.
    """
    known = frozenset(causes)
    return known | SILENT if expects_stalled or known & FALLS_SILENT else known


OF_QUEUES = ("starved_queue", "double_consumed_queue")
"""Kinds whose facts are single queues, from the simulation's own truth. What a file expects of them adds causes."""


def joins(fact: Fact, facts: Iterable[Fact]) -> bool:
    """Whether the alert of its group and topic may be open already when the fact can be known."""
    labels, known_ms = (fact.consumer_group, fact.topic), fact.onset_ms + fact.bound_ms
    return any(
        other.onset_ms + other.bound_ms < known_ms and fact.onset_ms <= other.resolve_by_ms
        for other in facts
        if (other.consumer_group, other.topic) == labels
    )


DOWN = ("broker_no_data", "broker_without_master")
"""Kinds of a broker under which the simulation judges no queue."""


def facts_of(simulation: TrueSimulation, slack_ms: int = SLACK_MS) -> Iterator[Fact]:
    """Yield every fact of a run that has ended at `simulation.now_ms`.

    A queue must be detected when it once starved for longer than its bound and `slack_ms` without a break.
    """
    truth, now_ms, expected = simulation.truth, simulation.now_ms, simulation.expected
    starved = _facts_of_queues("starved_queue", truth.spells(GAP_MS), list(truth), now_ms, slack_ms)
    doubled = _facts_of_queues(
        "double_consumed_queue", truth.doubled.spells(GAP_MS), list(truth.doubled), now_ms, slack_ms
    )
    for facts in (list(starved), list(doubled)):
        for fact in facts:
            later_ms = max(STEADY_MS, simulation.scenario.clock_interval_ms) if joins(fact, facts) else 0
            yield _with_expected(replace(fact, known_ms=now_ms, later_ms=later_ms), expected)
    for one in expected:
        fact = Fact(
            one.kind,
            one.cause,
            one.consumer_group,
            one.topic,
            one.broker_name,
            one.client_id,
            None,
            one.start_ms,
            one.end_ms,
            one.required,
            ALSO.get(one.cause or "", frozenset()),
            known_ms=now_ms,
        )
        if one.kind not in (*OF_QUEUES, "stalled_queue"):
            yield fact
        elif not one.required:
            yield from (under_broker(fact, other) for other in expected if other.kind in DOWN and other.broker_name)


def under_broker(fact: Fact, down: Expected | Fact) -> Fact:
    """The fact for the queues of one broker, while it is down."""
    ends_ms = [end_ms for end_ms in (fact.end_ms, down.end_ms) if end_ms is not None]
    return replace(
        fact,
        broker_name=down.broker_name,
        start_ms=max(fact.start_ms, down.start_ms),
        end_ms=min(ends_ms, default=None),
        required=False,
    )


def _facts_of_queues(
    kind: str, spells: Sequence[Span], spans: Sequence[Span], now_ms: int, slack_ms: int
) -> Iterator[Fact]:
    """Yield a fact for each spell that is a fault."""
    stretches: dict[tuple[str, MessageQueue, str], list[Span]] = {}
    for span in spans:
        stretches.setdefault((span.consumer_group, span.mq, span.cause), []).append(span)
    for spell in spells:
        if spell.is_harmless:
            continue
        end_ms = now_ms if spell.end_ms is None else spell.end_ms
        own = sorted(
            (span.start_ms, (now_ms if span.end_ms is None else span.end_ms) - span.start_ms)
            for span in stretches[spell.consumer_group, spell.mq, spell.cause]
            if spell.start_ms <= span.start_ms < end_ms
        )
        fact = Fact(
            kind,
            spell.cause,
            spell.consumer_group,
            spell.mq.topic,
            spell.mq.broker_name,
            None,
            f"{spell.mq.broker_name}:{spell.mq.queue_id}",
            spell.start_ms,
            spell.end_ms,
            required=False,
            also=ALSO.get(spell.cause, frozenset()),
            comings_ms=tuple(start_ms for start_ms, _ in own),
        )
        long = [start_ms for start_ms, lasted_ms in own if lasted_ms > fact.bound_ms + slack_ms]
        yield replace(fact, required=bool(long), due_ms=long[0] if long else None)


def _with_expected(fact: Fact, expected: Sequence[Expected]) -> Fact:
    """The fact with the causes that the scenario's file gives it, and the early signs of those."""
    ours = [one for one in expected if _is_within(fact, one)]
    causes = {one.cause for one in ours if one.kind == fact.kind and one.cause}
    early = frozenset[str]()
    if fact.kind == "starved_queue":
        is_stalled = any(one.kind == "stalled_queue" for one in ours)
        early = early_signs({*causes, fact.cause or ""}, expects_stalled=is_stalled)
    return replace(fact, also=(fact.also | causes) - {fact.cause}, early=early)


def _is_within(fact: Fact, one: Expected) -> bool:
    """Whether the fact is about what a file expects, and overlaps its time."""
    labels = ((one.consumer_group, fact.consumer_group), (one.topic, fact.topic), (one.broker_name, fact.broker_name))
    is_same = all(label in (None, own) for label, own in labels)
    begins_before_end = one.end_ms is None or fact.start_ms < one.end_ms
    return is_same and begins_before_end and (fact.end_ms is None or fact.end_ms > one.start_ms)
