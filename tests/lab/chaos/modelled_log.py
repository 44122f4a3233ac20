"""The log that all runs read: several modelled clusters side by side, and messages that break their contract."""

import contextlib
import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from conf.settings import Settings
from schemas.events import PULLS, SEND_LATENCIES
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.simulator.play import play
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation

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


class Source:
    """Publishes a log, with a bad message now and then. `held` keeps it back for as long as Kafka is away."""

    def __init__(self, settings: Settings) -> None:
        """Create the topics."""
        create_topics(settings.kafka)
        self.stop = threading.Event()
        self._gate = threading.Lock()
        self._publisher = Publisher(settings.kafka)
        self._count = 0

    def publish(self, topic: str, event: dict[str, Any]) -> None:
        with self._gate:
            self._publisher.publish(topic, event)
            self._count += 1
            if self._count % BAD_EVERY == 0:
                bad = {"cluster": event["cluster"], "number": self._count} | dict.fromkeys(_KEYS, "bad")
                self._publisher.publish((PULLS, SEND_LATENCIES)[self._count % 2], bad)

    def flush(self) -> None:
        with self._gate:
            self._publisher.flush()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """All that was published is in Kafka, and nothing more will be until this is left."""
        with self._gate:
            self._publisher.flush()
            yield

    def play(self, log: Iterable[Event], speed: float | None) -> None:
        play(log, self, speed=speed, stop=self.stop)

    def close(self) -> None:
        self._publisher.close()

    @contextlib.contextmanager
    def playing(self, log: Iterable[Event], speed: float) -> Iterator[None]:
        """Play the log beside the block, whose end ends it."""
        player = threading.Thread(target=self.play, args=(log, speed), daemon=True)
        player.start()
        try:
            yield
        finally:
            self.stop.set()
            player.join()
            self.close()
