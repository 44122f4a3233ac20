"""Facts of a run: what is true, from when until when, and how soon the protocol lets a watcher know it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tests.lab.score.fact import ALSO, SLACK_MS, Fact
from tests.lab.score.truth import Span, TrueSimulation
from udfs.rocketmq.model import MessageQueue

GAP_MS = 60_000
"""Queues that change hands at every rebalance starve by turns. Stretches up to this far apart are one fact."""

STEADY_MS = 20_000
"""An open alert lists another queue once its list has stayed the same for a rebalance (`udfs/alerts/life.py`)."""

FLAPPING_COMINGS, FLAPPING_MS = 3, 21 * 60_000
"""An alert that fires this often within this time is held open for as long (`udfs/alerts/life.py`)."""


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
        fact = replace(one, known_ms=now_ms)
        if one.kind not in (*OF_QUEUES, "stalled_queue"):
            yield fact
        elif not one.required:
            yield from (under_broker(fact, other) for other in expected if other.kind in DOWN and other.broker_name)


def under_broker(fact: Fact, down: Fact) -> Fact:
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


def _with_expected(fact: Fact, expected: Sequence[Fact]) -> Fact:
    """The fact with the causes that the scenario's file gives it, and the early signs of those."""
    ours = [one for one in expected if _is_within(fact, one)]
    causes = {one.cause for one in ours if one.kind == fact.kind and one.cause}
    early = frozenset[str]()
    if fact.kind == "starved_queue":
        is_stalled = any(one.kind == "stalled_queue" for one in ours)
        early = early_signs({*causes, fact.cause or ""}, expects_stalled=is_stalled)
    return replace(fact, also=(fact.also | causes) - {fact.cause}, early=early)


def _is_within(fact: Fact, one: Fact) -> bool:
    """Whether the fact is about what a file expects, and overlaps its time."""
    labels = ((one.consumer_group, fact.consumer_group), (one.topic, fact.topic), (one.broker_name, fact.broker_name))
    is_same = all(label in (None, own) for label, own in labels)
    begins_before_end = one.end_ms is None or fact.start_ms < one.end_ms
    return is_same and begins_before_end and (fact.end_ms is None or fact.end_ms > one.start_ms)
