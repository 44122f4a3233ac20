"""What is true in a run, as facts to hold the claims against, and how soon the protocol lets anybody know."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from streaming.simulator import Simulation
from streaming.simulator.truth import Doubled, Starved
from udfs.rocketmq.model import MessageQueue

GAP_MS = 60_000
"""Queues that change hands at every rebalance starve by turns: that is one spell."""

SLACK_MS = 15_000
"""Three clock events beyond the bound: what ends sooner need not be told."""

BOUNDS_MS = {
    "duplicate_client_id": 75_000,
    "consume_disabled": 45_000,
    "frozen_client": 70_000,
    "pull_stopped": 120_000,
    "write_only_queue": 80_000,
    "group_offline": 80_000,
    "member_not_subscribed": 80_000,
    "mixed_strategy": 80_000,
    "strategy_gap": 80_000,
    "split_view": 70_000,
    "stale_route": 80_000,
    "order_lock": 80_000,
    "consume_stopped": 240_000,
}
"""Cause to the time, from its onset, before which nobody who only watches can be sure of it, in ms.

A twin: a heartbeat each (30 s) and 45 s without a pull, three long polls. Frozen: 70 s without a heartbeat, two and a
bit; a client cut off from one broker likewise. Stopped: 120 s, after which the client itself would drop the queue
(pull-expired). What changes with members and routes: 80 s, until each client has polled the route (30 s), sent a
heartbeat (30 s) and rebalanced (20 s). Consumption stopped: 180 s without a commit, for one slow message is no fault,
and 60 s to be certain.
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
    "slave_read": 30_000,
    "offset_regression": 15_000,
    "broker_isolated": 30_000,
    "broker_evicted": 60_000,
    "no_available_broker": 0,
    "cluster_no_data": 120_000,
    "broker_no_data": 120_000,
    "broker_without_master": 60_000,
    "clock_skew": 120_000,
    "slow_collector": 300_000,
}
"""The same by kind, for findings that are not starved queues."""


@dataclass(frozen=True)
class Fact:
    """One thing that is so. None in a label asks nothing; `required` facts must be told, others may be."""

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
    """Causes that are as true of it."""

    @property
    def bound_ms(self) -> int:
        """From onset to when it can be known."""
        return BOUNDS_MS[self.cause or ""] if self.kind == "starved_queue" else BOUNDS_OF_KIND_MS[self.kind]


ALSO = {"pull_stopped": frozenset({"consume_stopped"}), "consume_stopped": frozenset({"pull_stopped"})}
"""What is not pulled is not consumed, and whose cache is full or who is suspended does not pull."""


def facts_of(simulation: Simulation, slack_ms: int = SLACK_MS) -> Iterator[Fact]:
    """Everything that is so in a run that has ended at `simulation.now_ms`."""
    truth, now_ms = simulation.truth, simulation.now_ms
    yield from _facts_of_queues("starved_queue", truth.spells(GAP_MS), list(truth), now_ms, slack_ms)
    yield from _facts_of_queues(
        "double_consumed_queue", truth.doubled_spells(GAP_MS), list(truth.doubled), now_ms, slack_ms
    )
    for one in simulation.expected:
        yield Fact(
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
        )


def _facts_of_queues(
    kind: str, spells: Sequence[Starved | Doubled], spans: Sequence[Starved | Doubled], now_ms: int, slack_ms: int
) -> Iterator[Fact]:
    """A fact a spell. It must be told when it once lasted longer than the bound without a break."""
    stretches: dict[tuple[str, MessageQueue, str], list[Starved | Doubled]] = {}
    for span in spans:
        stretches.setdefault((span.consumer_group, span.mq, span.cause), []).append(span)
    for spell in spells:
        if spell.is_harmless:
            continue
        end_ms = now_ms if spell.end_ms is None else spell.end_ms
        longest_ms = max(
            (now_ms if span.end_ms is None else span.end_ms) - span.start_ms
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
        )
        yield replace(fact, required=longest_ms > fact.bound_ms + slack_ms)
