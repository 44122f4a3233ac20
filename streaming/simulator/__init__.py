"""A simulated RocketMQ cluster: the rules of udfs and RocketMQ's timers in virtual time, reproducible by seed."""

from collections.abc import Iterator
from typing import Any

from streaming.simulator.conditions import Conditions, ConditionsError, Skew, parse_skew
from streaming.simulator.scenario import (
    Scenario,
    ScenarioError,
    load_scenario,
    parse_scenario,
    scenario_names,
)
from streaming.simulator.simulation import Simulation
from streaming.simulator.watched import Watched

__all__ = [
    "Conditions",
    "ConditionsError",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "Skew",
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
    """Yield (topic, event) of one run by event_time_ms; clock events last among equals.

    `duration_ms` None: the scenario's duration, which may be endless.
    """
    return Simulation(scenario, seed, start_ms).events(duration_ms)
