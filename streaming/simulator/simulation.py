"""The modelled cluster run: a scenario, a seed and a start give one sequence of events, the same each time."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from schemas.events import CLOCKS
from streaming.simulator.broker import Broker
from streaming.simulator.cluster import Cluster
from streaming.simulator.consumer import Consumer
from streaming.simulator.expectation import Expected, resolve
from streaming.simulator.happening import Happening
from streaming.simulator.judgement import Judgement
from streaming.simulator.processes import Processes
from streaming.simulator.scenario import Scenario
from streaming.simulator.stage import Stage
from streaming.simulator.truth import Truth
from streaming.simulator.watchers import Watchers
from streaming.simulator.world import Event, Process, World
from udfs.rocketmq.model import MessageQueue

START_WITHIN_MS = 3_000
"""Processes that run from the start come up within this time."""
LARGE_GROUP, JUDGE_LARGE_MS = 16, 500
"""Of a group with more members than this the truth is known to half a second."""


class Simulation:
    """One run. `events` moves it on; `truth` says what is so up to where it was moved."""

    def __init__(self, scenario: Scenario, seed: int, start_ms: int) -> None:
        self.truth = Truth()
        self.scenario = scenario
        self._start_ms = start_ms
        self._world = World(scenario.cluster, seed, start_ms)
        self._shift_ms = int(self._world.random.random() * scenario.jitter * 1000)
        self._groups = {group.consumer_group: group for group in scenario.groups}
        self._due: set[str] = set()
        self._processes: Processes | None = None
        self._cluster = Cluster(self._world, scenario, self._judge)
        self._processes = Processes(self._cluster, scenario)
        self.watchers = Watchers(has_agents=any(one.action == "remove_agents" for one in scenario.happenings))
        self._stage = Stage(self._cluster, self._processes, self.watchers)
        for group in scenario.groups:
            for consumer in group.consumers:
                if consumer.running:
                    self._start_soon(partial(self._processes.start, consumer.name))
        for producer in scenario.producers:
            self._start_soon(partial(self._processes.start_producer, producer))
        for happening in scenario.happenings:
            self._world.env.process(self._happening(happening))

    @property
    def now_ms(self) -> int:
        """How far the run has come."""
        return self._world.now_ms

    @property
    def brokers(self) -> Mapping[str, Broker]:
        """The brokers as they are now, by name."""
        return self._cluster.brokers

    def consumers(self) -> Iterator[Consumer]:
        """The members of all groups whose process runs now, frozen or not."""
        if self._processes is not None:
            for name in self._groups:
                yield from self._processes.running(name)

    @property
    def expected(self) -> list[Expected]:
        """What should be said of this run, in its own time."""
        return [resolve(one, self._start_ms + self._shift_ms) for one in self.scenario.expects]

    def events(self, duration_ms: int | None = None) -> Iterator[tuple[str, Event]]:
        """(topic, event), by event_time_ms; a clock event after everything of its time and before.

        None plays as long as the scenario says. Nothing is kept: memory does not grow with the events.
        """
        if duration_ms is None and self.scenario.duration_seconds is not None:
            duration_ms = int(self.scenario.duration_seconds * 1000)
        env, world = self._world.env, self._world
        end_ms = None if duration_ms is None else self._start_ms + duration_ms
        clock_ms = self._start_ms + self.scenario.clock_interval_ms
        while True:
            until_ms = clock_ms if end_ms is None else min(clock_ms, end_ms)
            while env.peek() <= until_ms:
                env.step()
                if world.said:
                    said, world.said = world.said, []
                    yield from said
            self.truth.known_ms = until_ms
            if until_ms == clock_ms:
                yield CLOCKS, self._clock(clock_ms)
                clock_ms += self.scenario.clock_interval_ms
            if until_ms == end_ms:
                return

    def max_offset(self, topic: str, broker_name: str, queue_id: int) -> int:
        """A queue's end, seen by a consumer or not. Raises KeyError for one that never was."""
        return self._cluster.store.max_offset(MessageQueue(topic, broker_name, queue_id))

    def _clock(self, now_ms: int) -> Event:
        brokers = self._cluster.brokers
        routed = set().union(*self._cluster.name_server.table.values())
        event: Event = {
            "cluster": self.scenario.cluster,
            "source": "simulator",
            "brokers_asked": [name for name, broker in brokers.items() if broker.answers or name in routed],
            "brokers_answered": [name for name, broker in brokers.items() if broker.answers],
            "event_time_ms": now_ms,
        }
        return event | ({"collector": self.watchers.collector} if self.watchers.collector else {})

    def _start_soon(self, start: Callable[[], object]) -> None:
        self._world.later(self._world.random.randrange(START_WITHIN_MS), start)

    def _happening(self, happening: Happening) -> Process:
        env, random = self._world.env, self._world.random
        due_ms = self._start_ms + self._shift_ms + int(happening.at * 1000)
        while True:
            yield env.timeout(due_ms + int(random.random() * happening.jitter * 1000) - env.now)
            undo = self._stage.perform(happening)
            self._judge(None)
            if happening.lasts_ms:
                yield env.timeout(happening.lasts_ms)
                if undo is not None:
                    undo()
                self._judge(None)
            if happening.every is None:
                return
            due_ms += int(happening.every * 1000)

    def _judge(self, consumer_group: str | None) -> None:
        """Something changed in the group, or None for any: bring the truth up to now."""
        if self._processes is None:
            return
        for name, group in self._groups.items():
            if consumer_group not in (None, name) or name not in self._processes.started:
                continue
            if len(group.consumers) <= LARGE_GROUP:
                self._judge_now(name)
            elif name not in self._due:
                self._due.add(name)
                self._world.later(JUDGE_LARGE_MS, partial(self._judge_now, name))

    def _judge_now(self, consumer_group: str) -> None:
        if self._processes is not None:
            self._due.discard(consumer_group)
            consumers = list(self._processes.running(consumer_group))
            starved, doubled = Judgement(self._cluster, self._groups[consumer_group], consumers).find()
            self.truth.update(consumer_group, starved, doubled, self._world.now_ms)
