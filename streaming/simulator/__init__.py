"""A modelled RocketMQ cluster: udfs' rules and RocketMQ's clocks in virtual time, seeded, the same each time."""

from collections.abc import Iterator
from typing import Any

from streaming.simulator.conditions import Conditions, ConditionsError, Skew, parse_skew
from streaming.simulator.expectation import Expected
from streaming.simulator.scenario import (
    Scenario,
    ScenarioError,
    load_scenario,
    parse_scenario,
    scenario_names,
)
from streaming.simulator.simulation import Simulation
from streaming.simulator.truth import Doubled, Starved, Truth
from streaming.simulator.watched import Watched

__all__ = [
    "Conditions",
    "ConditionsError",
    "Doubled",
    "Expected",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "Skew",
    "Starved",
    "Truth",
    "Watched",
    "load_scenario",
    "parse_scenario",
    "parse_skew",
    "scenario_names",
    "simulate",
]


def simulate(
    scenario: Scenario, seed: int, start_ms: int, duration_ms: int | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(topic, event) of one run, by event_time_ms, clock events last among equals.

    `duration_ms` None plays as long as the scenario says, which may be for ever. `Simulation` is the same with its
    truth at hand.
    """
    return Simulation(scenario, seed, start_ms).events(duration_ms)
