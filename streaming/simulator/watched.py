"""A scenario as it is watched under conditions, with what goes on beside it: one run to play, and its truth."""

from collections.abc import Iterator
from random import Random

from streaming.simulator.beside import with_beside
from streaming.simulator.conditions import Conditions
from streaming.simulator.observer import Said, observe
from streaming.simulator.scenario import Scenario
from streaming.simulator.second_group import with_second_group
from streaming.simulator.simulation import Simulation
from streaming.simulator.suspects import Suspects


class Watched:
    """One run. `said` moves it on; `simulation` knows what is true, `suspects` whom the conditions hit, by the seed."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        start_ms: int,
        conditions: Conditions | None = None,
        beside: str = "",
        *,
        second_group: bool = False,
    ) -> None:
        self.conditions = Conditions(scenario.view) if conditions in (None, Conditions()) else conditions
        if second_group:
            scenario = with_second_group(scenario)
        if beside:
            scenario = with_beside(scenario, beside)
        if self.conditions.interval_ms is not None:
            scenario = scenario.model_copy(update={"clock_interval_ms": self.conditions.interval_ms})
        self.start_ms = start_ms
        self.simulation = Simulation(scenario, seed, start_ms)
        self._random = Random(f"conditions {seed}")  # noqa: S311  # the same each time
        self.suspects = Suspects(scenario, self.conditions, self._random)

    def said(self, duration_ms: int | None = None) -> Iterator[Said]:
        """(topic, event, true time at Kafka in epoch ms), in the order in which they reach Kafka."""
        return observe(self.simulation, self.conditions, self.suspects, self._random, duration_ms)
