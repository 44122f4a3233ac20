"""One run of the score: a scenario played through the rules, and what they got right of it."""

from dataclasses import dataclass
from typing import Any

from streaming.ingest.simulator import Simulation, load_scenario, scenario_names
from tests.ingest.modelled import START
from tests.replay import Stream
from tests.score.claims import claims_of, pages_of
from tests.score.match import Key, Tally, compare
from tests.score.truths import facts_of

SLICE_EVENTS = 20_000
DAY_MS = 86_400_000
CHURN = "churn"
"""The scenario of healthy days."""


@dataclass(frozen=True)
class Run:
    """A scenario with a seed, for so long; None plays as long as the scenario says."""

    name: str
    seed: int
    duration_ms: int | None


@dataclass(frozen=True)
class Score:
    """What became of a run.

    tallies      (kind, cause) to what was told, missed and wrong
    pages        how many incidents paged
    false_pages  "kind cause" of each of them, where the scenario is healthy
    healthy_ms   how long a healthy scenario was played; 0 for the others
    """

    tallies: dict[Key, Tally]
    pages: int
    false_pages: list[str]
    healthy_ms: int


def score(run: Run) -> Score:
    """Play the run to its end and hold the alerts against what was true."""
    simulation, alerts = _play(run)
    paged = pages_of(alerts)
    tallies = compare(claims_of(alerts), list(facts_of(simulation)), f"{run.name} {run.seed}", START)
    if not load_scenario(run.name).healthy:
        return Score(tallies, len(paged), [], 0)
    false_pages = [f"{row['kind']} {row['cause']}" for row in paged.values()]
    return Score(tallies, len(paged), false_pages, simulation.now_ms - START)


def _play(run: Run) -> tuple[Simulation, list[dict[str, Any]]]:
    """Every alert row; the events are not kept, for days of them would not fit."""
    simulation = Simulation(load_scenario(run.name), run.seed, START)
    stream, alerts, batch = Stream(), [], []
    for event in simulation.events(run.duration_ms):
        batch.append(event)
        if len(batch) == SLICE_EVENTS:
            alerts += stream.feed(batch).get("alerts", [])
            batch = []
    alerts += stream.feed(batch).get("alerts", [])
    return simulation, alerts


def runs(names: list[str] | None, seeds: range, days: float) -> list[Run]:
    """The healthy days, which take longest, then each scenario with each seed; without `names` all that end."""
    healthy_ms = int(days / len(seeds) * DAY_MS)
    chosen = names or [name for name in scenario_names() if load_scenario(name).duration_seconds is not None]
    of_scenarios = [Run(name, seed, None) for name in chosen for seed in seeds]
    return [Run(CHURN, seed, healthy_ms) for seed in seeds if days] + of_scenarios
