"""The scenario's client processes: which run now, and how each comes up."""

from collections.abc import Iterator

from streaming.simulator import parts
from streaming.simulator.client import Client
from streaming.simulator.cluster import Cluster
from streaming.simulator.consumer import Consumer
from streaming.simulator.producer import Producer
from streaming.simulator.scenario import Scenario


class Processes:
    """Consumer processes by name; a name stands for all consumers that share the process."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._members: dict[str, list[tuple[parts.Group, parts.Consumer]]] = {}
        self._process_of: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        for group in scenario.groups:
            for consumer in group.consumers:
                process = consumer.process or consumer.name
                self._process_of[consumer.name] = process
                self._members.setdefault(process, []).append((group, consumer))
        self.started: set[str] = set()

    def find(self, name: str) -> Client | None:
        """The running process of a consumer; None when it does not run."""
        client = self._clients.get(self._process_of[name])
        return client if client is not None and client.is_running else None

    def start(self, name: str) -> None:
        """The process of a consumer comes up; one that runs already is left alone."""
        if self.find(name) is not None:
            return
        process = self._process_of[name]
        members = self._members[process]
        _, first = members[0]
        client = self._clients[process] = Client(self._cluster, first)
        consumers = [Consumer(client, group, of) for group, of in members]
        client.start()
        for consumer in consumers:
            consumer.start()
            self.started.add(consumer.consumer_group)
            self._cluster.on_change(consumer.consumer_group)

    def start_producer(self, of: parts.Producer) -> None:
        """A producer's process comes up."""
        client = Client(self._cluster, of)
        producer = Producer(client, of)
        client.start()
        producer.start()

    def running(self, consumer_group: str) -> Iterator[Consumer]:
        """The group's members whose process runs, frozen or not."""
        for client in self._clients.values():
            if client.is_running:
                for consumer in client.consumers:
                    if consumer.consumer_group == consumer_group:
                        yield consumer
