"""A scenario monitored under conditions: the events of one run as they reach Kafka, and its ground truth.

A machine with a wrong clock writes a wrong `event_time_ms`. Kafka's time is always true.
"""

import heapq
from collections.abc import Iterator
from random import Random

from schemas.events import CLOCKS, HEARTBEATS, PULLS, SEND_LATENCIES
from streaming.simulator.beside import with_beside, with_second_group
from streaming.simulator.collector_view import CollectorView
from streaming.simulator.conditions import Conditions, Suspects
from streaming.simulator.scenario import Scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.world import Event, Said


class Watched:
    """One run. `said` advances it; `simulation` has the ground truth."""

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
        self._random = Random(f"conditions {seed}")  # noqa: S311  # reproducible
        self.suspects = Suspects(scenario, self.conditions, self._random)

    def said(self, duration_ms: int | None = None) -> Iterator[Said]:
        """Yield the events in the order in which they reach Kafka."""
        events = self.simulation.events(duration_ms)
        match self.conditions.view:
            case "collector":
                return CollectorView(self.simulation, self.conditions, self.suspects, self._random).watch(events)
            case "agents":
                return self._late(self._stamped(events))
            case _:
                return self._stamped(events)

    def _stamped(self, events: Iterator[tuple[str, Event]]) -> Iterator[Said]:
        """Stamp each event by its source's clock: the broker's for heartbeats and pulls, the client's for sends."""
        for topic, event in events:
            time_ms = event["event_time_ms"]
            ahead_ms = 0
            if topic in (HEARTBEATS, PULLS):
                ahead_ms = self.suspects.broker_ahead_ms(event["broker_name"])
            elif topic == SEND_LATENCIES:
                ahead_ms = self.suspects.client_ahead_ms(event["client_id"])
            yield topic, {**event, "event_time_ms": time_ms + ahead_ms} if ahead_ms else event, time_ms

    def _late(self, said: Iterator[Said]) -> Iterator[Said]:
        """Drop clock events, and delay the events of each broker by about `lag_ms`."""
        waiting: list[tuple[int, int, str, Event]] = []
        lags_ms: dict[str | None, int] = {}
        for number, (topic, event, time_ms) in enumerate(said):
            while waiting and waiting[0][0] <= time_ms:
                at_ms, _, late_topic, late_event = heapq.heappop(waiting)
                yield late_topic, late_event, at_ms
            if topic == CLOCKS:
                continue
            agent = event.get("broker_name")
            if agent not in lags_ms:
                lags_ms[agent] = round(self.conditions.lag_ms * (0.8 + 0.2 * self._random.random()))
            heapq.heappush(waiting, (time_ms + lags_ms[agent], number, topic, event))
        yield from ((topic, event, at_ms) for at_ms, _, topic, event in sorted(waiting))
