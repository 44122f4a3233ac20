"""What should be said of a scenario, as data: the findings it must or may raise, and the causes of its starvation."""

from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import Field, model_validator

from streaming.simulator.parts import Part, Seconds

Cause = Literal[
    "duplicate_client_id", "member_not_subscribed", "mixed_strategy", "split_view", "stale_route", "frozen_client",
    "pull_stopped", "order_lock", "write_only_queue", "consume_disabled", "group_offline", "strategy_gap",
    "consume_stopped",
]  # fmt: skip
"""Why a queue starves, where somebody should be paged for it."""

CAUSES: tuple[str, ...] = get_args(Cause)

Kind = Literal[
    "starved_queue", "stalled_queue", "double_consumed_queue", "duplicate_client_id", "split_view",
    "inconsistent_subscription", "group_offline", "client_id_at_risk", "order_at_risk", "slave_read",
    "offset_regression", "broker_isolated", "no_available_broker", "broker_evicted", "cluster_no_data",
    "broker_no_data", "broker_without_master", "slow_collector", "clock_skew", "rule_failed",
    "name_server_unreachable", "cluster_name_conflict",
]  # fmt: skip
"""What is said."""


class Expectation(Part):
    """A finding of `kind`, with the labels given, belongs to the time between `from` and `until` (None: the end).

    One that is not `required` may be said, or not.
    """

    kind: Kind
    cause: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    client_id: str | None = None
    from_: Seconds = Field(default=0, alias="from")
    until: Seconds | None = None
    required: bool = True

    @model_validator(mode="after")
    def _check(self) -> "Expectation":
        if self.kind == "starved_queue" and self.cause not in CAUSES:
            raise ValueError(f"kind 'starved_queue' needs cause: one of {', '.join(CAUSES)}")
        if self.until is not None and self.until <= self.from_:
            raise ValueError(f"until = {self.until:g} is not after from = {self.from_:g}")
        return self


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation of one run: the same, in epoch ms. `end_ms` None: to the end of the run."""

    kind: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    start_ms: int
    end_ms: int | None
    required: bool


def resolve(expectation: Expectation, start_ms: int) -> Expected:
    """The expectation in a run whose second 0, shifts included, was at `start_ms`."""
    until = expectation.until
    return Expected(
        kind=expectation.kind,
        cause=expectation.cause,
        consumer_group=expectation.consumer_group,
        topic=expectation.topic,
        broker_name=expectation.broker_name,
        client_id=expectation.client_id,
        start_ms=start_ms + int(expectation.from_ * 1000),
        end_ms=None if until is None else start_ms + int(until * 1000),
        required=expectation.required,
    )
