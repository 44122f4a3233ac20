"""Facts of a run: what is true, from when until when, and how soon the protocol lets a watcher know it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from streaming.queries.rulebook import default_rules
from streaming.simulator import Simulation
from streaming.simulator.expectation import Expected
from streaming.simulator.truth import Doubled, Starved
from udfs.rocketmq.model import MessageQueue

NEVER_MS = 1 << 62

GAP_MS = 60_000
"""Queues that change hands at every rebalance starve by turns. Stretches up to this far apart are one fact."""

SLACK_MS = 15_000
"""An alert may fire this much after its bound and two poll rounds: three clock events of 5 s."""

STEADY_MS = 20_000
"""An open alert lists another queue once its list has stayed the same for a rebalance (`udfs/alerts/life.py`)."""

FLAPPING_COMINGS, FLAPPING_MS = 3, 21 * 60_000
"""An alert that fires this often within this time is held open for as long (`udfs/alerts/flapping.py`)."""

BOUNDS_MS = {
    "duplicate_client_id": 75_000,
    "consume_disabled": 45_000,
    "frozen_client": 70_000,
    "pull_stopped": 120_000,
    "write_only_queue": 80_000,
    "group_offline": 80_000,
    "member_not_subscribed": 110_000,
    "mixed_strategy": 80_000,
    "strategy_gap": 80_000,
    "split_view": 70_000,
    "stale_route": 80_000,
    "order_lock": 80_000,
    "consume_stopped": 240_000,
}
"""Cause of a starved queue to the time from its onset before which no watcher can be sure of it, in ms.

A twin: a heartbeat each (30 s) and 45 s without a pull, three long polls. Frozen: 70 s without a heartbeat, two and a
bit; a client cut off from one broker likewise. Stopped: 120 s, after which the client itself would drop the queue
(pull-expired). What changes with members and routes: 80 s, until each client has polled the route (30 s), sent a
heartbeat (30 s) and rebalanced (20 s). Not subscribed: a heartbeat more, for the members' heartbeats give and take the
topic by turns. Consumption stopped: 180 s without a commit, for one slow message is no fault, and 60 s to be certain.
"""

BOUNDS_OF_KIND_MS = {
    "duplicate_client_id": 30_000,
    "double_consumed_queue": 80_000,
    "stalled_queue": 80_000,
    "split_view": 70_000,
    "inconsistent_subscription": 80_000,
    "group_offline": 80_000,
    "client_id_at_risk": 80_000,
    "order_at_risk": 30_000,
    "slave_read": 60_000,
    "offset_regression": 15_000,
    "broker_isolated": 30_000,
    "broker_evicted": 60_000,
    "no_available_broker": 30_000,
    "cluster_no_data": 120_000,
    "broker_no_data": 120_000,
    "broker_without_master": 60_000,
    "clock_skew": 120_000,
    "slow_collector": 300_000,
    "name_server_unreachable": 20_000,
}
"""The same by kind, for findings that are not starved queues.

A slave is read after the route poll (30 s) and a pull at the dead master that times out (30 s). Producers must avoid
their brokers for `broker_isolated_hold_ms`.
"""

RECOVERY_MS = {
    "starved_queue": 35_000,
    "stalled_queue": 35_000,
    "double_consumed_queue": 35_000,
    "duplicate_client_id": 30_000,
    "split_view": 30_000,
    "inconsistent_subscription": 30_000,
    "group_offline": 30_000,
    "client_id_at_risk": 30_000,
    "order_at_risk": 30_000,
    "slave_read": 15_000,
    "offset_regression": 15_000,
    "broker_isolated": 60_000,
    "broker_evicted": 60_000,
    "no_available_broker": 60_000,
    "cluster_no_data": 0,
    "broker_no_data": 0,
    "broker_without_master": 30_000,
    "clock_skew": 120_000,
    "slow_collector": 300_000,
    "name_server_unreachable": 0,
}
"""Kind to the time from a fault's end until the protocol lets a watcher know it, in ms.

Queues: the next pull (long poll, 15 s), and a rebalance (20 s) until the topic's other queues have moved as well.
Members: the next heartbeat (30 s); routes: the next poll (30 s). Reads from a slave and offsets: the next pull.
Producers: `broker_isolated_clear_ms`, for 5.1.4 and later try a slow broker again every few seconds. Brokers and
NameServers: the round that they answer. Clocks and rounds: as long as they took to be known. On top comes
`KindRules.recovering_ms`, for which a finding must stay away.
"""


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
        if self.end_ms is None:
            return NEVER_MS
        return self.end_ms + (RECOVERY_MS.get(self.kind, 0) + _hold_ms(self.kind)) // self.factor + self.patience_ms


@cache
def _hold_ms(kind: str) -> int:
    """How long a finding of a kind must stay away."""
    return default_rules().of_kind(kind).recovering_ms


ALSO = {"pull_stopped": frozenset({"consume_stopped"}), "consume_stopped": frozenset({"pull_stopped"})}
"""Queues that are not pulled are not consumed; a client with a full cache, or a suspended one, does not pull."""

EARLY = {
    "frozen_client": frozenset({"frozen_client", "pull_stopped", "consume_stopped"}),
    "pull_stopped": frozenset({"pull_stopped", "consume_stopped"}),
    "consume_stopped": frozenset({"consume_stopped", "pull_stopped"}),
    "order_lock": frozenset({"order_lock"}),
}
"""Cause of a starved queue to the causes of the `stalled_queue` that announces it.

An owner that pulls no more is seen before its late heartbeat proves it frozen, or 120 s prove it stopped.
"""

SILENT = frozenset({"pull_stopped", "consume_stopped"})
"""Causes of a `stalled_queue` that a scenario's file allows by expecting one: its owner holds the queue in vain."""

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


def facts_of(simulation: Simulation, slack_ms: int = SLACK_MS) -> Iterator[Fact]:
    """Yield every fact of a run that has ended at `simulation.now_ms`.

    A queue must be detected when it once starved for longer than its bound and `slack_ms` without a break.
    """
    truth, now_ms, expected = simulation.truth, simulation.now_ms, simulation.expected
    starved = _facts_of_queues("starved_queue", truth.spells(GAP_MS), list(truth), now_ms, slack_ms)
    doubled = _facts_of_queues(
        "double_consumed_queue", truth.doubled_spells(GAP_MS), list(truth.doubled), now_ms, slack_ms
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


def absent(simulation: Simulation, facts: Sequence[Fact]) -> Iterator[str]:
    """Yield what the file requires of queues and did not happen to any queue."""
    for one in simulation.expected:
        happened = any(
            fact.kind == one.kind and one.cause in (None, fact.cause) and _is_within(fact, one) for fact in facts
        )
        if one.required and one.kind in OF_QUEUES and not happened:
            yield f"{one.kind} {one.cause or ''}".rstrip()


def _facts_of_queues(
    kind: str, spells: Sequence[Starved | Doubled], spans: Sequence[Starved | Doubled], now_ms: int, slack_ms: int
) -> Iterator[Fact]:
    """Yield a fact for each spell that is a fault."""
    stretches: dict[tuple[str, MessageQueue, str], list[Starved | Doubled]] = {}
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
            early=EARLY.get(spell.cause, frozenset()) if kind == "starved_queue" else frozenset(),
            comings_ms=tuple(start_ms for start_ms, _ in own),
        )
        long = [start_ms for start_ms, lasted_ms in own if lasted_ms > fact.bound_ms + slack_ms]
        yield replace(fact, required=bool(long), due_ms=long[0] if long else None)


def _with_expected(fact: Fact, expected: Sequence[Expected]) -> Fact:
    """The fact with the causes that the scenario's file gives it, and the early signs of those."""
    ours = [one for one in expected if _is_within(fact, one)]
    causes = frozenset(one.cause for one in ours if one.kind == fact.kind and one.cause)
    early = fact.early
    if fact.kind == "starved_queue":
        early = early.union(*(EARLY.get(cause, frozenset()) for cause in causes))
        early |= SILENT if any(one.kind == "stalled_queue" for one in ours) else frozenset()
    return replace(fact, also=(fact.also | causes) - {fact.cause}, early=early)


def _is_within(fact: Fact, one: Expected) -> bool:
    """Whether the fact is about what a file expects, and overlaps its time."""
    labels = ((one.consumer_group, fact.consumer_group), (one.topic, fact.topic), (one.broker_name, fact.broker_name))
    is_same = all(label in (None, own) for label, own in labels)
    begins_before_end = one.end_ms is None or fact.start_ms < one.end_ms
    return is_same and begins_before_end and (fact.end_ms is None or fact.end_ms > one.start_ms)
