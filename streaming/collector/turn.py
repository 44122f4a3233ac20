"""Leadership of collectors: of those with the same cluster, NameServers, groups and topics one leads.

The others are standbys. One takes over when the leader ends, dies, cannot complete a round, or reaches no broker.
"""

import contextlib
import hashlib
import socket
import sys
import time
import uuid
from pathlib import Path

import structlog

from conf.settings import Collector, Kafka
from streaming.collector.kafka_lease import KafkaLease
from streaming.collector.known_brokers import CollectorError

MOST_ON_A_HOST = 100
MAX_LENGTH = 200

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NETWORK = Path("/proc/self/ns/net")


class CollectorName:
    """A collector's name: `collector.id`, or host and NameServer, with "#2", "#3", ... for more of them on the host.

    A socket in Linux' abstract namespace (of the host, or of a container) reserves the name and vanishes with the
    process. So a collector with the same `holder` is the successor of a dead one: `holder` is the name's place on this
    boot of the machine, and random without such a socket.
    """

    def __init__(self, settings: Collector) -> None:
        self._socket: socket.socket | None = None
        plain = settings.id or _shortened(f"{socket.gethostname()}/{settings.name_server}")
        number = self._claim(f"{plain} {settings.name_server}" if settings.id else plain)
        self.text = plain if settings.id or number == 1 else f"{plain}#{number}"
        self.holder = _place(plain, number) if self._socket else uuid.uuid4().hex

    def close(self) -> None:
        """Release the name."""
        if self._socket:
            self._socket.close()

    def _claim(self, plain: str) -> int:
        """Reserve and return the lowest free number of this name on the host, from 1."""
        if sys.platform != "linux":
            return 1
        for number in range(1, MOST_ON_A_HOST + 1):
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                claim.bind(f"\0balancewatch-collector-{_digest(plain)}-{number}")
                self._socket = claim
                return number
            claim.close()
        return 1


def _place(plain: str, number: int) -> str:
    """Return the socket's place, which two live processes never share."""
    try:
        boot, namespace = BOOT_ID.read_text().strip(), NETWORK.readlink()
    except OSError:
        return uuid.uuid4().hex
    return _digest(f"{boot} {namespace} {plain} {number}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 17]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


BLIND_SECONDS = 600.0
"""Period in which a leader without any broker's answer offers the lease; in an outage no collector gets an answer."""

log = structlog.get_logger()


class LeaseLostError(Exception):
    """Another collector may lead by now; the round is discarded."""


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
        """Read the lease into `is_ours`. Return whether this term is new, so that the memory may be outdated.

        Raises CollectorError if the lease cannot work.
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
        """Raise LeaseLostError if the term that was taken has ended."""
        if self._lease is not None and self._lease.read_term() != self._term:
            self._term = None
            raise LeaseLostError

    def offer(self) -> None:
        """Offer the lease, because this collector cannot complete a round."""
        if self._lease is not None and self._lease.offer():
            log.warning("leadership offered to a standby", reason="this collector cannot complete a round")

    def note_brokers(self, answered: int) -> None:
        """Store the number of brokers that answered; offer the lease if there is none."""
        now = time.monotonic()
        if answered == 0 and self._lease is not None and now - self._blind_at >= BLIND_SECONDS:
            self._blind_at = now
            self.offer()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()

    def _report_leader(self, lease: KafkaLease) -> None:
        """Log each change of the leader."""
        leader = self._name.text if self._term is not None else lease.read_leader()
        if leader == self._leader or not leader:
            return
        self._leader = leader
        if self._term is not None:
            log.info("leadership acquired", collector=leader)
        else:
            log.info("standby entered", leader=leader)


def find_part(collector: Collector) -> str:
    """Return the identity of the work: collectors with an equal one are leader and standbys."""
    servers = sorted(each.strip() for each in collector.name_server.split(";") if each.strip())
    text = repr((collector.cluster, servers, sorted(collector.groups), sorted(collector.topics)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
