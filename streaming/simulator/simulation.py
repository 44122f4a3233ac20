"""A simulation run: a scenario, a seed and a start time give one reproducible sequence of events."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from schemas.events import CLOCKS
from streaming.simulator import scenario as parts
from streaming.simulator.broker import Broker, Cluster, Node
from streaming.simulator.client import Client
from streaming.simulator.consumer import Consumer
from streaming.simulator.producer import Producer
from streaming.simulator.scenario import Happening, Scenario
from streaming.simulator.world import Event, Process, World
from udfs.rocketmq.model import MessageQueue

START_WITHIN_MS = 3_000
"""Processes that run from the start come up within this time."""

Undo = Callable[[], object]
Subject = TypeVar("Subject")


class Processes:
    """Consumer processes by name. A process has a client for each ClientId of its consumers."""

    def __init__(self, scenario: Scenario) -> None:
        self._members: dict[str, list[tuple[parts.Group, parts.Consumer]]] = defaultdict(list)
        self._process_of: dict[str, str] = {}
        self._clients: dict[str, list[Client]] = {}
        for group in scenario.groups:
            for consumer in group.consumers:
                process = self._process_of[consumer.name] = consumer.process or consumer.name
                self._members[process].append((group, consumer))

    def find(self, name: str) -> list[Client]:
        """Return the clients of a consumer's process; none when the process does not run."""
        return [client for client in self._clients.get(self._process_of[name], ()) if client.is_running]

    def start(self, cluster: Cluster, name: str) -> None:
        """Start the process of a consumer, unless it runs."""
        if self.find(name):
            return
        process = self._process_of[name]
        clients: dict[str, Client] = {}
        for group, of in self._members[process]:
            client = clients.get(of.client_id) or clients.setdefault(of.client_id, Client(cluster, of))
            Consumer(client, group, of)
        self._clients[process] = list(clients.values())
        for client in clients.values():
            client.start()
            for consumer in client.consumers:
                consumer.start()
                cluster.world.on_change(consumer.consumer_group)

    def running(self, consumer_group: str) -> Iterator[Consumer]:
        """Yield the group's members whose process runs, frozen or not."""
        for client in chain.from_iterable(self._clients.values()):
            if client.is_running:
                yield from (each for each in client.consumers if each.consumer_group == consumer_group)


class Simulation:
    """One run, which `events` advances."""

    def __init__(self, scenario: Scenario, seed: int, start_ms: int) -> None:
        self.scenario = scenario
        self._start_ms = start_ms
        self._world = World(scenario.cluster, seed, start_ms)
        self._shift_ms = int(self._world.random.random() * scenario.jitter * 1000)
        self._processes = Processes(scenario)
        self._cluster = Cluster(self._world, scenario)
        self.has_agents = any(happening.action == "remove_agents" for happening in scenario.happenings)
        self._collector: str | None = None
        for group in scenario.groups:
            for consumer in group.consumers:
                if consumer.running:
                    self._start_soon(partial(self._processes.start, self._cluster, consumer.name))
        for producer in scenario.producers:
            self._start_soon(partial(self._start_producer, producer))
        for happening in scenario.happenings:
            self._world.env.process(self._happening(happening))

    @property
    def now_ms(self) -> int:
        return self._world.now_ms

    @property
    def brokers(self) -> Mapping[str, Broker]:
        return self._cluster.brokers

    def consumers(self) -> Iterator[Consumer]:
        """Yield the members of all groups whose process runs, frozen or not."""
        for group in self.scenario.groups:
            yield from self._processes.running(group.consumer_group)

    def events(self, duration_ms: int | None = None) -> Iterator[tuple[str, Event]]:
        """Yield (topic, event) by event_time_ms. A clock event follows all events up to its time.

        `duration_ms` None: the scenario's duration. Memory does not grow with the events.
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
                if world.emitted:
                    emitted, world.emitted = world.emitted, []
                    yield from emitted
            if until_ms == clock_ms:
                yield CLOCKS, self._clock(clock_ms)
                clock_ms += self.scenario.clock_interval_ms
            if until_ms == end_ms:
                return

    def max_offset(self, topic: str, broker_name: str, queue_id: int) -> int:
        return self._cluster.store.queues[MessageQueue(topic, broker_name, queue_id)].max_offset

    def _clock(self, now_ms: int) -> Event:
        brokers = self._cluster.brokers
        routed = set().union(*self._cluster.name_server.table.values())
        event: Event = {
            "cluster": self.scenario.cluster,
            "source": "simulator",
            "brokers_asked": [name for name, broker in brokers.items() if broker.asked_node.is_up or name in routed],
            "brokers_answered": [name for name, broker in brokers.items() if broker.asked_node.is_up],
            "event_time_ms": now_ms,
        }
        return event | ({"collector": self._collector} if self._collector else {})

    def _start_soon(self, start: Callable[[], object]) -> None:
        self._world.later(self._world.random.randrange(START_WITHIN_MS), start)

    def _start_producer(self, of: parts.Producer) -> None:
        client = Client(self._cluster, of)
        producer = Producer(client, of)
        client.start()
        producer.start()

    def _happening(self, happening: Happening) -> Process:
        env, random = self._world.env, self._world.random
        due_ms = self._start_ms + self._shift_ms + int(happening.at * 1000)
        while True:
            yield env.timeout(due_ms + int(random.random() * happening.jitter * 1000) - env.now)
            undo = self._perform(happening)
            self._world.on_change(None)
            if happening.lasts_ms:
                yield env.timeout(happening.lasts_ms)
                if undo is not None:
                    undo()
                self._world.on_change(None)
            if happening.every is None:
                return
            due_ms += int(happening.every * 1000)

    def _perform(self, happening: Happening) -> Undo | None:
        """Perform it and return what ends it, or None. It has no effect on a process that does not run."""
        cluster, action = self._cluster, happening.action
        broker_name, topic = str(happening.broker_name), str(happening.topic)
        match action:
            case "start":
                self._processes.start(cluster, str(happening.consumer))
            case "rename_collector":
                self._collector = happening.collector
            case "remove_agents":
                self.has_agents = False
            case "recreate_topic":
                cluster.recreate_topic(topic)
            case "burst":
                cluster.burst(topic, happening.messages or 0)
            case "drop_topics":
                cluster.name_server.drop_topics(broker_name)
            case "scale_topic" | "set_perm":
                return self._configure(topic, happening)
            case "disable_consume":
                disabled = [broker.consume_disabled for broker in cluster.brokers.values()]
                name = str(happening.consumer_group)
                return _each(disabled, lambda groups: groups.add(name), lambda groups: groups.discard(name))
            case "slow_broker" | "fail_broker" | "press_memory" | "stop_broker" | "crash_broker" | "lose_broker":
                return self._perform_at_broker(cluster.brokers[broker_name], happening)
            case _:
                return self._perform_at_process(self._processes.find(str(happening.consumer)), happening)
        return None

    def _perform_at_process(self, clients: list[Client], happening: Happening) -> Undo | None:
        named = [each for client in clients for each in client.consumers if each.of.name == happening.consumer]
        names = {happening.broker_name} if happening.broker_name else set(self._cluster.brokers)
        does: tuple[Iterable[Any], Callable[[Any], object], Callable[[Any], object]]
        match happening.action:
            case "freeze":
                does = clients, Client.freeze, Client.thaw
            case "cut_network":
                does = clients, lambda each: each.cut_network(names), lambda each: each.restore_network(names)
            case "keep_route":
                does = clients, partial(_set, "keeps_route", True), partial(_set, "keeps_route", False)
            case "stop_pulling":
                does = named, lambda each: each.stop_pulling(happening.queues), partial(_set, "stopped", set())
            case "hang_listener":
                does = named, lambda each: each.hang_listener(True), lambda each: each.hang_listener(False)
            case "suspend":
                does = named, partial(_set, "is_suspended", True), partial(_set, "is_suspended", False)
            case "slow_listener":
                does = named, partial(_set, "consume_ms", happening.consume_ms), partial(_set, "consume_ms", 0)
            case _:
                for client in clients:
                    getattr(client, happening.action)()  # stop, crash, kill, thaw, reconnect
                return None
        return _each(*does)

    def _perform_at_broker(self, broker: Broker, happening: Happening) -> Undo:
        match happening.action:
            case "slow_broker":
                broker.extra_latency_ms = happening.latency_ms or 0
                return partial(setattr, broker, "extra_latency_ms", 0)
            case "fail_broker":
                broker.error = happening.error
                return partial(setattr, broker, "error", None)
            case "press_memory":
                broker.set_memory_pressed(True)
                return partial(broker.set_memory_pressed, False)
        nodes = [node for broker_id, node in broker.nodes.items() if happening.broker_id in (None, broker_id)]
        fall = {"stop_broker": Node.shut_down, "crash_broker": Node.crash, "lose_broker": Node.lose}[happening.action]
        return _each([node for node in nodes if node.is_up], fall, Node.start)

    def _configure(self, topic: str, happening: Happening) -> Undo:
        name_server = self._cluster.name_server
        before = dict(name_server.table[topic])
        names = [happening.broker_name] if happening.broker_name else list(before)
        both = {"read_queue_nums": happening.queue_nums, "write_queue_nums": happening.queue_nums}
        given: dict[str, Any] = {name: nums for name, nums in both.items() if nums is not None}
        given |= happening.model_dump(include={*both, "perm"}, exclude_none=True)
        name_server.configure(topic, [replace(before[name], **given) for name in names if name in before])
        return partial(name_server.configure, topic, before.values())


def _set(name: str, value: object, subject: object) -> None:
    setattr(subject, name, value)


def _each(subjects: Iterable[Subject], do: Callable[[Subject], object], undo: Callable[[Subject], object]) -> Undo:
    chosen = list(subjects)
    for subject in chosen:
        do(subject)
    return lambda: [undo(subject) for subject in chosen]
