"""The modelled cluster run: a scenario, a seed and a start give one sequence of events, the same each time."""

from collections.abc import Callable, Iterator
from functools import partial

from schemas.events import CLOCKS
from streaming.ingest.simulator.broker import Broker, Routes
from streaming.ingest.simulator.consumer import Consumer
from streaming.ingest.simulator.producer import Producer
from streaming.ingest.simulator.scenario import Happening, Scenario
from streaming.ingest.simulator.truth import Truth, find_starved
from streaming.ingest.simulator.world import Event, Process, World
from udfs.model import MessageQueue

START_WITHIN_MS = 3_000
"""Processes that run from the start come up within this time."""


class Simulation:
    """One run. `events` moves it on; `truth` says what is so up to where it was moved."""

    def __init__(self, scenario: Scenario, seed: int, start_ms: int) -> None:
        self.truth = Truth()
        self._scenario = scenario
        self._start_ms = start_ms
        self._world = World(scenario.cluster, seed, start_ms)
        self._consumers: dict[str, Consumer] = {}
        self._groups = {group.consumer_group: group for group in scenario.groups}
        self._members = {consumer.name: (group, consumer) for group in scenario.groups for consumer in group.consumers}
        self._routes = Routes(self._world, scenario.brokers, scenario.topics)
        self._brokers = {name: Broker(self._world, name, self._judge) for name in scenario.brokers}
        for group in scenario.groups:
            self._judge(group.consumer_group)
            for consumer in group.consumers:
                if consumer.running:
                    self._start_soon(partial(self._start, consumer.name))
        for producer in scenario.producers:
            self._start_soon(partial(Producer, self._world, self._brokers, self._routes, producer))
        for happening in scenario.happenings:
            self._world.env.process(self._happening(happening))

    @property
    def now_ms(self) -> int:
        """How far the run has come."""
        return self._world.now_ms

    def events(self, duration_ms: int | None = None) -> Iterator[tuple[str, Event]]:
        """(topic, event), by event_time_ms; a clock event after everything of its time and before.

        None plays as long as the scenario says. Nothing is kept: memory does not grow with the events.
        """
        if duration_ms is None and self._scenario.duration_seconds is not None:
            duration_ms = int(self._scenario.duration_seconds * 1000)
        env, world = self._world.env, self._world
        end_ms = None if duration_ms is None else self._start_ms + duration_ms
        clock_ms = self._start_ms + self._scenario.clock_interval_ms
        while True:
            until_ms = clock_ms if end_ms is None else min(clock_ms, end_ms)
            while env.peek() <= until_ms:
                env.step()
                if world.said:
                    said, world.said = world.said, []
                    yield from said
            if until_ms == clock_ms:
                yield CLOCKS, self._clock(clock_ms)
                clock_ms += self._scenario.clock_interval_ms
            if until_ms == end_ms:
                return

    def max_offset(self, topic: str, broker_name: str, queue_id: int) -> int:
        """A queue's end, seen by a consumer or not."""
        return next(
            queue.max_offset
            for mq, queue in self._routes.queues.items()
            if (mq.topic, mq.broker_name, mq.queue_id) == (topic, broker_name, queue_id)
        )

    def _clock(self, now_ms: int) -> Event:
        return {
            "cluster": self._scenario.cluster,
            "source": "simulator",
            "brokers_asked": list(self._brokers),
            "brokers_answered": list(self._brokers),
            "event_time_ms": now_ms,
        }

    def _start_soon(self, start: Callable[[], object]) -> None:
        self._world.later(self._world.random.randrange(START_WITHIN_MS), start)

    def _start(self, name: str) -> None:
        """A process comes up; one that runs already is left alone."""
        if name not in self._consumers or not self._consumers[name].is_running:
            group, member = self._members[name]
            self._consumers[name] = Consumer(self._world, self._brokers, self._routes, group, member, self._judge)
            self._judge(group.consumer_group)

    def _happening(self, happening: Happening) -> Process:
        env = self._world.env
        yield env.timeout(int(happening.at * 1000))
        while True:
            self._do(happening)
            lasts_ms = int((happening.until or happening.at) * 1000) - int(happening.at * 1000)
            if lasts_ms:
                yield env.timeout(lasts_ms)
                self._undo(happening)
            if happening.every is None:
                return
            yield env.timeout(int(happening.every * 1000) - lasts_ms)

    def _do(self, happening: Happening) -> None:
        if happening.broker_name is not None:
            broker = self._brokers[happening.broker_name]
            if happening.action == "fail_broker":
                broker.error = happening.error
            else:
                broker.extra_latency_ms = happening.latency_ms or 0
        elif happening.topic is not None and happening.queue_nums is not None:
            self._routes.scale(happening.topic, happening.queue_nums)
            for consumer_group in self._groups:
                self._judge(consumer_group)
        elif happening.action == "start":
            self._start(str(happening.consumer))
        elif happening.consumer in self._consumers:
            consumer = self._consumers[happening.consumer]
            if consumer.is_running:
                getattr(consumer, happening.action)()  # stop, kill, freeze, thaw, reconnect
                self._judge(consumer.consumer_group)

    def _undo(self, happening: Happening) -> None:
        broker = self._brokers[str(happening.broker_name)]
        if happening.action == "fail_broker":
            broker.error = None
        else:
            broker.extra_latency_ms = 0

    def _judge(self, consumer_group: str) -> None:
        """Something changed in the group: bring the truth up to now. All brokers hear the same heartbeats."""
        group = self._groups[consumer_group]
        consumers = [
            consumer
            for consumer in self._consumers.values()
            if consumer.consumer_group == consumer_group and consumer.is_running
        ]
        channels = next(iter(self._brokers.values())).channels(consumer_group)
        causes: dict[MessageQueue, str] = {}
        for topic in group.subscriptions:
            causes |= find_starved(consumers, channels, self._routes.mq_all[topic])
        self.truth.update(consumer_group, causes, self._world.now_ms)
