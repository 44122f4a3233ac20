"""The log that all runs read: several modelled clusters side by side, and messages that break their contract."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schemas.events import PULLS, SEND_LATENCIES
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.world import Said

START_MS = 1_750_000_000_000
SCENARIOS = ("twins", "lost_host", "frozen_client", "slow_broker", "demo")
BAD_EVERY = 97

_KEYS = ("consumer_group", "broker_name")
"""What the two topics of the bad messages are keyed by."""

Event = tuple[str, dict[str, Any]]


def modelled_log(seconds: int, seed: int, scenarios: Sequence[str] = SCENARIOS) -> Iterator[Event]:
    """Each scenario as a cluster of its own name, by event time; a clock event stays behind what it covers."""
    logs = [_renamed(name, seed + number, seconds) for number, name in enumerate(scenarios)]
    return heapq.merge(*logs, key=lambda event: event[1]["event_time_ms"])


def _renamed(name: str, seed: int, seconds: int) -> Iterator[Event]:
    for topic, event in Simulation(load_scenario(name), seed, START_MS).events(seconds * 1000):
        yield topic, event | {"cluster": name}


def with_bad(log: Iterable[Event]) -> Iterator[Said]:
    """Yield the log with a bad message now and then, and when each is published."""
    for number, (topic, event) in enumerate(log, 1):
        yield topic, event, event["event_time_ms"]
        if number % BAD_EVERY == 0:
            bad = {"cluster": event["cluster"], "number": number} | dict.fromkeys(_KEYS, "bad")
            yield (PULLS, SEND_LATENCIES)[number % 2], bad, event["event_time_ms"]
