"""Whether it is this collector's turn: of those with the same cluster, NameServers, groups and topics one leads.

The others wait. One of them goes on when the leader ends, dies, cannot do a round, or hears no broker.
"""

import hashlib
import time

import structlog

from conf.settings import Collector, Kafka
from streaming.collector.collector_name import CollectorName
from streaming.collector.kafka_lease import KafkaLease
from streaming.collector.known_brokers import CollectorError

BLIND_SECONDS = 600.0
"""A leader that hears no broker lets another try this often: in an outage none of them hears one."""

log = structlog.get_logger()


class LeaseLostError(Exception):
    """Another collector may lead by now: what was read is not published."""


class Turn:
    """`take` before each round, `check` before anything is published."""

    def __init__(self, kafka: Kafka, collector: Collector, name: CollectorName) -> None:
        self._kafka, self._settings, self._name = kafka, collector, name
        self._lease: KafkaLease | None = None
        self._term: int | None = None
        self._led: int | None = None
        self._leader: str | None = None
        self._blind_at = -BLIND_SECONDS

    @property
    def is_ours(self) -> bool:
        return self._settings.lease_seconds == 0 or self._term is not None

    def take(self) -> bool:
        """Whether another has led since our last turn, or this is our first: what we remember may be of the past.
        `is_ours` says whether there is a turn at all. Raises CollectorError when there can be none.
        """
        if self._settings.lease_seconds == 0:
            return False
        if self._lease is None:
            part = find_part(self._settings)
            self._lease = KafkaLease(
                self._kafka, part, self._name.holder, self._name.text, self._settings.lease_seconds
            )
        self._term = self._lease.read_term()
        if self._lease.refusal:
            raise CollectorError(self._lease.refusal)
        self._report_leader(self._lease)
        if self._term is None:
            return False
        is_new, self._led = self._led != self._term, self._term
        return is_new

    def check(self) -> None:
        """Raises LeaseLostError when this is not the turn any more that was taken."""
        if self._lease is not None and self._lease.read_term() != self._term:
            self._term = None
            raise LeaseLostError

    def offer(self) -> None:
        """This collector cannot do a round: let another try."""
        if self._lease is not None and self._lease.offer():
            log.warning("leadership offered to a standby", reason="this collector cannot complete a round")

    def note_brokers(self, answered: int) -> None:
        """How many brokers a round heard."""
        now = time.monotonic()
        if answered == 0 and self._lease is not None and now - self._blind_at >= BLIND_SECONDS:
            self._blind_at = now
            self.offer()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()

    def _report_leader(self, lease: KafkaLease) -> None:
        """One line at each change."""
        leader = self._name.text if self._term is not None else lease.read_leader()
        if leader == self._leader or not leader:
            return
        self._leader = leader
        if self._term is not None:
            log.info("leadership acquired", collector=leader)
        else:
            log.info("standby entered", leader=leader)


def find_part(collector: Collector) -> str:
    """What is watched: collectors of which this is equal do one work."""
    servers = sorted(each.strip() for each in collector.name_server.split(";") if each.strip())
    text = repr((collector.cluster, servers, sorted(collector.groups), sorted(collector.topics)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
