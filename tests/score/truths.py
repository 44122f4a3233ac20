"""What is true in a run, as facts to hold the claims against, and how soon the protocol lets anybody know."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from streaming.ingest.simulator import Simulation
from streaming.ingest.simulator.truth import Doubled, Starved

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
    "split_view": 120_000 + 80_000,
    "stale_route": 80_000,
    "order_lock": 80_000,
}
"""Cause to the time, from its onset, before which nobody who only watches can be sure of it, in ms.

A twin: a heartbeat each (30 s) and 45 s without a pull, three long polls. Frozen: 70 s without a heartbeat, two and a
bit. Stopped: 120 s, after which the client itself would drop the queue (pull-expired). What changes with members and
routes: 80 s, until each client has polled the route (30 s), heartbeat (30 s) and rebalanced (20 s). A split: a
broker forgets a channel after 120 s.
"""

BOUNDS_OF_KIND_MS = {
    "duplicate_client_id": 30_000,
    "doubled_queue": 30_000 + 20_000,
    "silent_queue": 80_000,
    "split_view": 120_000 + 80_000,
    "inconsistent_subscription": 80_000,
    "group_offline": 80_000,
    "client_id_at_risk": 80_000,
    "order_at_risk": 30_000,
    "slave_read": 30_000,
    "offset_regression": 15_000,
    "broker_isolated": 30_000,
    "broker_evicted": 60_000,
    "no_available_broker": 0,
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

    @property
    def bound_ms(self) -> int:
        """From onset to when it can be known."""
        return BOUNDS_MS[self.cause or ""] if self.kind == "starved_queue" else BOUNDS_OF_KIND_MS[self.kind]


def facts_of(simulation: Simulation) -> Iterator[Fact]:
    """Everything that is so in a run that has ended at `simulation.now_ms`."""
    for span in simulation.truth.spells(GAP_MS):
        if not span.is_harmless:
            yield _fact_of_queue("starved_queue", span, simulation.now_ms)
    for doubled in simulation.truth.doubled_spells(GAP_MS):
        if not doubled.is_harmless:
            yield _fact_of_queue("doubled_queue", doubled, simulation.now_ms)
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
        )


def _fact_of_queue(kind: str, span: Starved | Doubled, now_ms: int) -> Fact:
    end_ms = now_ms if span.end_ms is None else span.end_ms
    fact = Fact(
        kind,
        span.cause,
        span.consumer_group,
        span.mq.topic,
        span.mq.broker_name,
        None,
        f"{span.mq.broker_name}:{span.mq.queue_id}",
        span.start_ms,
        span.end_ms,
        required=False,
    )
    return replace(fact, required=end_ms - span.start_ms > fact.bound_ms + SLACK_MS)
