"""What somebody who watches under conditions sees of a modelled cluster: its events, and when Kafka takes each.

A machine whose clock is wrong writes a wrong `event_time_ms`; Kafka's own time is always true.
"""

import heapq
from collections.abc import Iterator
from random import Random

from schemas.events import CLOCKS, HEARTBEATS, PULLS, SEND_LATENCIES
from streaming.simulator.collector_view import CollectorView
from streaming.simulator.conditions import Conditions
from streaming.simulator.simulation import Simulation
from streaming.simulator.suspects import Suspects
from streaming.simulator.world import Event

Said = tuple[str, Event, int]
"""Topic, event, and its true time at Kafka in epoch ms."""


def observe(
    simulation: Simulation,
    conditions: Conditions,
    suspects: Suspects,
    random: Random,
    duration_ms: int | None = None,
) -> Iterator[Said]:
    """The events of a run as they are seen, in the order in which they reach Kafka.

    The simulation must tick at `conditions.interval_ms`.
    """
    events = simulation.events(duration_ms)
    match conditions.view:
        case "collector":
            return CollectorView(simulation, conditions, suspects, random).watch(events)
        case "agents":
            return _late(_stamped(events, suspects), conditions.lag_ms, random)
        case _:
            return _stamped(events, suspects)


def _stamped(events: Iterator[tuple[str, Event]], suspects: Suspects) -> Iterator[Said]:
    """Each event by the clock of the machine that tells it: heartbeats and pulls by brokers', sends by clients'."""
    for topic, event in events:
        time_ms = event["event_time_ms"]
        ahead_ms = 0
        if topic in (HEARTBEATS, PULLS):
            ahead_ms = suspects.broker_ahead_ms(event["broker_name"])
        elif topic == SEND_LATENCIES:
            ahead_ms = suspects.client_ahead_ms(event["client_id"])
        yield topic, {**event, "event_time_ms": time_ms + ahead_ms} if ahead_ms else event, time_ms


def _late(said: Iterator[Said], lag_ms: int, random: Random) -> Iterator[Said]:
    """Without clock events; each broker's events reach Kafka later, by nearly the same time each."""
    waiting: list[tuple[int, int, str, Event]] = []
    lags_ms: dict[str | None, int] = {}
    for number, (topic, event, time_ms) in enumerate(said):
        while waiting and waiting[0][0] <= time_ms:
            yield _arrived(heapq.heappop(waiting))
        if topic == CLOCKS:
            continue
        agent = event.get("broker_name")
        if agent not in lags_ms:
            lags_ms[agent] = round(lag_ms * (0.8 + 0.2 * random.random()))
        heapq.heappush(waiting, (time_ms + lags_ms[agent], number, topic, event))
    while waiting:
        yield _arrived(heapq.heappop(waiting))


def _arrived(entry: tuple[int, int, str, Event]) -> Said:
    time_ms, _, topic, event = entry
    return topic, event, time_ms
