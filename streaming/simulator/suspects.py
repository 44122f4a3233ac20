"""Which machines the conditions of a run hit: one broker, one client, shares of the clients, by the seed."""

from random import Random

from streaming.simulator.conditions import Conditions
from streaming.simulator.scenario import Scenario


class Suspects:
    """`broker_name` misses rounds; the skewed machine is one broker or one client. Shares are of all processes."""

    def __init__(self, scenario: Scenario, conditions: Conditions, random: Random) -> None:
        consumers = sorted({consumer.client_id for group in scenario.groups for consumer in group.consumers})
        producers = sorted(producer.client_id for producer in scenario.producers)
        self.broker_name = random.choice(sorted(broker.broker_name for broker in scenario.brokers))
        self.client_id = random.choice(consumers or producers) if consumers or producers else ""
        self.mute = _share_of(consumers, conditions.mute_clients, random) | {
            consumer.client_id for group in scenario.groups for consumer in group.consumers if consumer.never_answers
        }
        self.listed_only = _share_of([*consumers, *producers], conditions.listed_only, random)
        self._broker_ahead_ms = conditions.ahead_ms("broker")
        self._client_ahead_ms = conditions.ahead_ms("client")

    def broker_ahead_ms(self, broker_name: str) -> int:
        """How far this broker's clock is ahead."""
        return self._broker_ahead_ms if broker_name == self.broker_name else 0

    def client_ahead_ms(self, client_id: str) -> int:
        """How far this client's clock is ahead."""
        return self._client_ahead_ms if _process_of(client_id) == _process_of(self.client_id) else 0


def _share_of(client_ids: list[str], share: float, random: Random) -> frozenset[str]:
    """Return the clients of a share of the processes: of at least one where the share is above 0."""
    processes = list(dict.fromkeys(map(_process_of, client_ids)))
    count = min(len(processes), max(1, round(share * len(processes)))) if share else 0
    chosen = set(random.sample(processes, count))
    return frozenset(client_id for client_id in client_ids if _process_of(client_id) in chosen)


def _process_of(client_id: str) -> str:
    """Return the ClientId without its nanoTime, in which the clients of one process differ."""
    return client_id.partition("#")[0]
