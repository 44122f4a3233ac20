"""The scenario's client processes: which run now, and how each comes up."""

from collections.abc import Iterator

from streaming.simulator import parts
from streaming.simulator.client import Client
from streaming.simulator.cluster import Cluster
from streaming.simulator.consumer import Consumer
from streaming.simulator.producer import Producer
from streaming.simulator.scenario import Scenario


class Processes:
    """Consumer processes by name. A process has a client for each ClientId of its consumers."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._members: dict[str, list[tuple[parts.Group, parts.Consumer]]] = {}
        self._process_of: dict[str, str] = {}
        self._clients: dict[str, list[Client]] = {}
        for group in scenario.groups:
            for consumer in group.consumers:
                process = consumer.process or consumer.name
                self._process_of[consumer.name] = process
                self._members.setdefault(process, []).append((group, consumer))
        self.started: set[str] = set()

    def find(self, name: str) -> list[Client]:
        """Return the clients of a consumer's process; none when the process does not run."""
        return [client for client in self._clients.get(self._process_of[name], ()) if client.is_running]

    def start(self, name: str) -> None:
        """Start the process of a consumer, unless it runs."""
        if self.find(name):
            return
        process = self._process_of[name]
        clients: dict[str, Client] = {}
        for group, of in self._members[process]:
            client = clients.get(of.client_id) or clients.setdefault(of.client_id, Client(self._cluster, of))
            Consumer(client, group, of)
        self._clients[process] = list(clients.values())
        for client in clients.values():
            client.start()
            for consumer in client.consumers:
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
        for clients in self._clients.values():
            for client in clients:
                for consumer in client.consumers:
                    if client.is_running and consumer.consumer_group == consumer_group:
                        yield consumer
