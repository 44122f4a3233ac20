"""A watched run that keeps what the judge asks of it: the rounds that a broker missed, and the holders of queues."""

from collections.abc import Iterator
from itertools import chain

from schemas.events import CLOCKS
from streaming.simulator.world import Said
from tests.lab.score.truth import TrueWatch
from udfs.rocketmq.model import MessageQueue

SAMPLE_MS = 5_000
SELDOM_MS, LEAST_ROUNDS = 300_000, 6
SELDOM_SHARE, MOSTLY_SHARE = 0.4, 0.75
"""Of the rounds of `SELDOM_MS`: from the first on a broker may be reported without data, from the second it must."""


class Recorded(TrueWatch):
    """`rounds` has (time, brokers that missed it); `holders` has (group, queue) → ClientIds while it was at fault.

    A holder of a starved queue has it in its table; the holders of a doubled one pull it. `readers` has (group, broker)
    → ClientIds that a slave of the broker served; `masterless_ms` has broker → the times at which its master was down.
    """

    rounds: list[tuple[int, frozenset[str]]]
    holders: dict[tuple[str, MessageQueue], set[str]]
    readers: dict[tuple[str, str], set[str]]
    masterless_ms: dict[str, list[int]]

    def said(self, duration_ms: int | None = None) -> Iterator[Said]:
        self.rounds, self.holders, self.readers, self.masterless_ms = [], {}, {}, {}
        next_ms = 0
        for said in super().said(duration_ms):
            topic, event, time_ms = said
            if topic == CLOCKS:
                missed = frozenset(event["brokers_asked"]) - frozenset(event["brokers_answered"])
                self.rounds.append((time_ms, missed))
            if time_ms >= next_ms and not self.simulation.scenario.healthy:
                self._note_holders()
                self._note_slaves()
                next_ms = time_ms + SAMPLE_MS
            yield said

    @property
    def window_ms(self) -> int:
        """The time whose rounds say how often a broker misses."""
        return max(SELDOM_MS, LEAST_ROUNDS * self.simulation.scenario.clock_interval_ms)

    def seldom(self, broker_name: str) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, ms in which it missed most) of each time in which the broker missed many rounds."""
        interval_ms = self.simulation.scenario.clock_interval_ms
        window = self.window_ms // interval_ms
        shares: list[tuple[int, float]] = []
        misses = [broker_name in missed for _, missed in self.rounds]
        for number, (time_ms, _) in enumerate(self.rounds):
            newest = misses[max(0, number - window + 1) : number + 1]
            shares.append((time_ms, sum(newest) / len(newest)))
        start_ms, most_ms = None, 0
        for time_ms, share in [*shares, (self.simulation.now_ms, 0.0)]:
            if share >= SELDOM_SHARE:
                start_ms = time_ms if start_ms is None else start_ms
                most_ms += interval_ms if share >= MOSTLY_SHARE else 0
            elif start_ms is not None:
                yield start_ms, time_ms, most_ms
                start_ms, most_ms = None, 0

    def _note_holders(self) -> None:
        truth, now_ms = self.simulation.truth, self.simulation.now_ms
        for span in chain(truth.at(now_ms), truth.doubled.at(now_ms)):
            if span.is_harmless:
                continue
            holders = self.holders.setdefault((span.consumer_group, span.mq), set())
            for consumer in self.simulation.consumers():
                if consumer.consumer_group == span.consumer_group and span.mq in consumer.table:
                    holders.add(consumer.client.client_id)

    def _note_slaves(self) -> None:
        for name, broker in self.simulation.brokers.items():
            if not broker.nodes[0].is_up:
                self.masterless_ms.setdefault(name, []).append(self.simulation.now_ms)
        for consumer in self.simulation.consumers():
            for broker_name in {mq.broker_name for mq in consumer.table}:
                node = consumer.client.find_node(broker_name)
                if node is not None and (node.broker_id or node.broker.suggested_broker_id):
                    readers = self.readers.setdefault((consumer.consumer_group, broker_name), set())
                    readers.add(consumer.client.client_id)
