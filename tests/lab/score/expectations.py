"""What a scenario's file expects to be reported (`expects`), with its causes and kinds."""

from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from streaming.simulator.scenario import Part, Scenario, Seconds
from tests.lab.score.bounds import BOUNDS_MS
from tests.lab.score.fact import ALSO, Fact

CAUSES = tuple(BOUNDS_MS)
"""Why a queue starves, where a page is due."""

Kind = Literal[
    "starved_queue", "stalled_queue", "double_consumed_queue", "duplicate_client_id", "split_view",
    "inconsistent_subscription", "group_offline", "client_id_at_risk", "order_at_risk", "slave_read",
    "offset_regression", "broker_isolated", "no_available_broker", "broker_evicted", "cluster_no_data",
    "broker_no_data", "broker_without_master", "slow_collector", "clock_skew", "rule_failed",
    "name_server_unreachable", "cluster_name_conflict",
]  # fmt: skip
"""Kinds of findings."""


class Expectation(Part):
    """A finding of `kind` with the given labels, due between `from` and `until` (None: the end).

    One that is not `required` may be reported or not.
    """

    model_config = ConfigDict(populate_by_name=True)

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

    def fact(self, start_ms: int, end_ms: int | None) -> Fact:
        """Return what is expected, as a fact of a run in which it holds between these times."""
        labels = (self.consumer_group, self.topic, self.broker_name, self.client_id, None)
        also = ALSO.get(self.cause or "", frozenset())
        return Fact(self.kind, self.cause, *labels, start_ms, end_ms, self.required, also)


def expectations_of(scenario: Scenario) -> tuple[Expectation, ...]:
    """Return the findings that the file expects. Raises ValueError for one that cannot be."""
    found = tuple(Expectation.model_validate(fields) for fields in scenario.expects)
    known = {
        "broker_name": {broker.broker_name for broker in scenario.brokers},
        "topic": {topic.topic for topic in scenario.topics},
        "consumer_group": {group.consumer_group for group in scenario.groups},
    }
    for expected in found:
        if strange := [name for name, names in known.items() if getattr(expected, name) not in (None, *names)]:
            raise ValueError(f"expected {expected.kind!r}: {strange[0]} is not in the scenario")
    if scenario.healthy and any(expected.required for expected in found):
        raise ValueError("healthy = true excludes required findings")
    return found


def causes_of(scenario: Scenario) -> frozenset[str]:
    """Return the causes of the expected starved_queue findings, required or not."""
    expected = expectations_of(scenario)
    return frozenset(one.cause for one in expected if one.kind == "starved_queue" and one.cause)
