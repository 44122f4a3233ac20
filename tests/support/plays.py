"""Plays that many tests look at: each is made once in a process, and so are the alerts that the rules make of it."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from unittest.mock import patch

import pytest

from streaming.queries import shard
from streaming.simulator.scenario import Scenario, load_scenario, scenario_names
from streaming.text.language import translate
from tests.lab.score.expectations import Expectation, expectations_of
from tests.lab.score.truth import TrueSimulation
from tests.simulator.modelled import MINUTE, Events, Run, run
from tests.support.engine import Stream
from udfs.alerts.phrase import Words

SEED = 1
"""The seed of `make test`."""
SECOND_SEEDS = (2, 101)
"""The seeds that `make proof` adds."""


@dataclass(frozen=True)
class Play:
    """A scenario of the package, played to its end with a seed; an endless one for a quarter of an hour.

    A play is made when its first test asks, and kept until the next play is made. The parameters of `each_play` have
    the session's scope and a group of xdist a scenario: so all tests of one play run one after the other in one
    process, from whichever files they come.
    """

    name: str
    seed: int

    @cached_property
    def scenario(self) -> Scenario:
        return load_scenario(self.name)

    @cached_property
    def expects(self) -> tuple[Expectation, ...]:
        return expectations_of(self.scenario)

    @property
    def simulation(self) -> TrueSimulation:
        return _run(self)[0]

    @property
    def events(self) -> Events:
        return _run(self)[1]

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Every alert row that the rules write."""
        return _alerts(self)[0]

    @property
    def texts(self) -> list[Words]:
        """Every summary and advice of them, before its language was chosen."""
        return _alerts(self)[1]


@lru_cache(maxsize=1)
def _run(play: Play) -> Run:
    return run(play.scenario, play.seed, 15 * MINUTE if play.scenario.duration_seconds is None else None)


@lru_cache(maxsize=1)
def _alerts(play: Play) -> tuple[list[dict[str, Any]], list[Words]]:
    texts: list[Words] = []

    def note(words: Words, language: str) -> str:
        texts.append(words)
        return translate(words, language)

    with patch.object(shard, "translate", note):
        return Stream().feed(play.events).get("alerts", []), texts


def plays(daily: Collection[str]) -> pytest.MarkDecorator:
    """Return the parameter `play`: `daily` scenarios once in `make test`, all with two more seeds in `make proof`."""

    def parameter(name: str, seed: int) -> Any:
        marks = [pytest.mark.xdist_group(f"play-{name}")]
        if seed != SEED or name not in daily:
            marks.append(pytest.mark.proof)
        return pytest.param(Play(name, seed), id=f"{name}-{seed}", marks=marks)

    every = [parameter(name, seed) for name in scenario_names() for seed in (SEED, *SECOND_SEEDS)]
    return pytest.mark.parametrize("play", every, scope="session")


each_play = plays(scenario_names())
"""Every scenario, once in `make test` and with two more seeds in `make proof`."""
