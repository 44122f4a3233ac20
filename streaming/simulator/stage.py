"""Happenings carried out: what each action does to the modelled cluster, and what ends it."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from streaming.simulator.broker import Broker
from streaming.simulator.client import Client
from streaming.simulator.cluster import Cluster
from streaming.simulator.consumer import Consumer
from streaming.simulator.happening import FOR_GOOD, Happening
from streaming.simulator.node import Node
from streaming.simulator.processes import Processes
from streaming.simulator.watchers import Watchers
from udfs.rocketmq.route import QueueData

Undo = Callable[[], object]
Subject = TypeVar("Subject")


class Stage:
    """Where happenings happen. `perform` gives what ends it, None for what has no end."""

    def __init__(self, cluster: Cluster, processes: Processes, watchers: Watchers) -> None:
        self._cluster = cluster
        self._processes = processes
        self._watchers = watchers

    def perform(self, happening: Happening) -> Undo | None:
        """Do it now. What is done to a process that does not run has no effect."""
        if happening.action == "start":
            self._processes.start(str(happening.consumer))
            return None
        if happening.consumer is not None:
            clients = self._processes.find(happening.consumer)
            return self._perform_at_process(clients, happening) if clients else None
        if happening.action in FOR_GOOD:
            self._perform_for_good(happening)
            return None
        if happening.topic is not None:
            return self._configure(happening)
        if happening.consumer_group is not None:
            return self._disable_consume(happening.consumer_group)
        return self._perform_at_broker(self._cluster.brokers[str(happening.broker_name)], happening)

    def _perform_at_process(self, clients: list[Client], happening: Happening) -> Undo | None:
        named = [one for client in clients for one in client.consumers if one.of.name == happening.consumer]
        names = {happening.broker_name} if happening.broker_name else set(self._cluster.brokers)
        match happening.action:
            case "freeze":
                return _each(clients, Client.freeze, Client.thaw)
            case "cut_network":
                return _each(clients, lambda one: one.cut_network(names), lambda one: one.mend_network(names))
            case "keep_route":
                return _each(clients, lambda one: one.keep_route(True), lambda one: one.keep_route(False))
            case "stop_pulling":
                return _each(named, lambda one: one.stop_pulling(happening.queues), Consumer.resume_pulling)
            case "hang_listener" | "suspend" | "slow_listener":
                return _trouble(named, happening)
            case "subscribe":
                _each(named, lambda one: one.subscribe(happening.subscriptions or ()), Consumer.notify)
            case _:
                for client in clients:
                    getattr(client, happening.action)()  # stop, crash, kill, thaw, reconnect
        return None

    def _perform_at_broker(self, broker: Broker, happening: Happening) -> Undo:
        match happening.action:
            case "slow_broker":
                broker.commit_log.extra_latency_ms = happening.latency_ms or 0
                return partial(setattr, broker.commit_log, "extra_latency_ms", 0)
            case "fail_broker":
                broker.error = happening.error
                return partial(setattr, broker, "error", None)
            case "press_memory":
                broker.set_memory_pressed(True)
                return partial(broker.set_memory_pressed, False)
        nodes = [node for broker_id, node in broker.nodes.items() if happening.broker_id in (None, broker_id)]
        fall = {"stop_broker": Node.shut_down, "crash_broker": Node.crash, "lose_broker": Node.lose}[happening.action]
        return _each([node for node in nodes if node.is_up], fall, Node.start)

    def _perform_for_good(self, happening: Happening) -> None:
        match happening.action:
            case "rename_collector":
                self._watchers.collector = happening.collector
            case "remove_agents":
                self._watchers.has_agents = False
            case "recreate_topic":
                self._cluster.recreate_topic(str(happening.topic))
            case "burst":
                self._cluster.burst(str(happening.topic), happening.messages or 0)
            case "drop_topics":
                self._cluster.name_server.drop_topics(str(happening.broker_name))

    def _configure(self, happening: Happening) -> Undo:
        topic, name_server = str(happening.topic), self._cluster.name_server
        before = dict(name_server.table[topic])
        names = [happening.broker_name] if happening.broker_name else list(before)
        name_server.configure(topic, [_changed(before[name], happening) for name in names if name in before])
        return partial(name_server.configure, topic, before.values())

    def _disable_consume(self, consumer_group: str) -> Undo:
        for broker in self._cluster.brokers.values():
            broker.consume_disabled.add(consumer_group)
        return partial(self._enable_consume, consumer_group)

    def _enable_consume(self, consumer_group: str) -> None:
        for broker in self._cluster.brokers.values():
            broker.consume_disabled.discard(consumer_group)


def _each(subjects: Iterable[Subject], do: Callable[[Subject], object], undo: Callable[[Subject], object]) -> Undo:
    chosen = list(subjects)
    for subject in chosen:
        do(subject)
    return lambda: [undo(subject) for subject in chosen]


def _trouble(consumers: Iterable[Consumer], happening: Happening) -> Undo:
    """Their listeners hang, are suspended, or take so long."""
    amount = happening.consume_ms or True
    return _each(
        consumers,
        lambda one: getattr(one, happening.action)(amount),
        lambda one: getattr(one, happening.action)(0),
    )


def _changed(data: QueueData, happening: Happening) -> QueueData:
    read = happening.read_queue_nums if happening.read_queue_nums is not None else happening.queue_nums
    write = happening.write_queue_nums if happening.write_queue_nums is not None else happening.queue_nums
    return QueueData(
        data.broker_name,
        data.read_queue_nums if read is None else read,
        data.write_queue_nums if write is None else write,
        data.perm if happening.perm is None else happening.perm,
    )
