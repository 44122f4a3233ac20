"""Leadership of collectors: of those with the same cluster, NameServers, groups and topics one leads.

The others are standbys. One takes over when the leader ends, dies, cannot complete a round, or reaches no broker. The
lease is one topic of claims in Kafka.

Kafka appends claims in one order and dates each by its own clock (LogAppendTime), so every reader finds the same holder
at every offset, whatever the collectors' clocks say. A collector appends its claim LEASE_CLAIMS times per
`lease_seconds`, leading or waiting. It leads from an accepted claim for `lease_seconds`, counted from before the claim
was sent, so never longer than by the log. A process that was suspended finds its lease expired before it publishes.
"""

import contextlib
import hashlib
import socket
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import ClusterAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

from conf.settings import Collector, Kafka
from streaming.collector.known_brokers import CollectorError
from streaming.kafka_io.consumer import open_consumer
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.kafka_io.topics import create_missing

LEASES = "balancewatch.collectors"
"""The topic of claims: one partition, keyed by the part of the cluster, kept for an hour."""

LEASES_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000", "segment.ms": "3600000"}
LEASE_CLAIMS = 4
POLL_MS = 500
READ_BACK = 2_000
"""Claims read at the start: more than several collectors append in the longest lease."""

DELIVERY_SECONDS = 5.0
RETRY_SECONDS = 1.0
LOG_APPEND_TIME = 1

KEPT_SECONDS = 300.0
"""A leader with a longer round hangs: it claims no more."""

log = structlog.get_logger()


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to lead, or to continue to lead, for `ttl_ms`; `is_released` gives the lease back.

    `holder` is the process, `collector` the name in its clock events.
    """

    holder: str
    collector: str
    ttl_ms: int
    is_released: bool = False


@dataclass(frozen=True)
class Leadership:
    """The leader up to `until_ms`, by the log's time; 0: none.

    `term` is the offset of the holder's first claim; `asked_ms` has the claims of others in the last lease.
    """

    holder: str = ""
    collector: str = ""
    until_ms: int = 0
    term: int = -1
    asked_ms: dict[str, int] = field(default_factory=dict)

    def after(self, claim: Claim, at_ms: int, offset: int) -> "Leadership":
        """Return the lease after the log's next claim. A claim counts if its process holds the lease or it is free."""
        is_own, is_free = claim.holder == self.holder, at_ms >= self.until_ms
        waiting = {
            holder: asked_ms
            for holder, asked_ms in self.asked_ms.items()
            if holder != claim.holder and at_ms - asked_ms < claim.ttl_ms
        }
        if claim.is_released:
            return replace(self, until_ms=0 if is_own else self.until_ms, asked_ms=waiting)
        if not is_own and not is_free:
            return replace(self, asked_ms=waiting | {claim.holder: at_ms})
        term = self.term if is_own else offset
        return Leadership(claim.holder, claim.collector, at_ms + claim.ttl_ms, term, waiting)

    def is_held_by(self, holder: str) -> bool:
        return self.holder == holder and self.until_ms > 0


def parse_claim(value: Any) -> Claim | None:
    """Return the claim of a message; None for any other bytes."""
    try:
        return msgspec.json.decode(value or b"", type=Claim)
    except (msgspec.DecodeError, RecursionError, TypeError):
        return None


class KafkaLease:
    """The lease on `part`, for the process `holder`, kept by a thread. `close` gives it back."""

    def __init__(self, kafka: Kafka, part: str, holder: str, collector: str, lease_seconds: float) -> None:
        self._kafka = kafka
        self._part = part.encode()
        self._claim = Claim(holder, collector, round(lease_seconds * 1000))
        self._seconds = lease_seconds
        self._lock = threading.Lock()
        self._lease = Leadership()
        self._log_ms = 0
        self._valid_until = 0.0
        self._used_at = time.monotonic()
        self._not_before = 0.0
        self._is_denied = False
        self._is_lost = False
        self.refusal = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector-lease", daemon=True)
        self._thread.start()

    def read_term(self) -> int | None:
        """Return the term in which this process leads now; None if it does not lead; 0 if Kafka denies all leases."""
        with self._lock:
            self._used_at = time.monotonic()
            if self._is_denied:
                return 0
            return self._lease.term if self._used_at < self._valid_until else None

    def read_leader(self) -> str:
        """Return the name of the leader; empty if none is known."""
        with self._lock:
            return self._lease.collector if self._lease.until_ms else ""

    def offer(self) -> bool:
        """Give the lease to another process if one waits; this process claims again a lease later."""
        with self._lock:
            if self._is_denied or not self._lease.asked_ms:
                return False
            self._valid_until = 0.0
            self._not_before = time.monotonic() + self._seconds
            return True

    def close(self) -> None:
        self._stop.set()
        self._thread.join(DELIVERY_SECONDS * 2)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                topic = NewTopic(LEASES, 1, self._kafka.replication_factor, topic_configs=LEASES_CONFIG)
                create_missing(self._kafka, [topic])
                with (
                    contextlib.closing(open_consumer(self._kafka)) as consumer,
                    Publisher(self._kafka, delivery_seconds=DELIVERY_SECONDS) as publisher,
                ):
                    self._keep(consumer, publisher)
            except (TopicAuthorizationFailedError, ClusterAuthorizationFailedError) as error:
                with self._lock:
                    self._is_denied = True
                log.warning(
                    "lease denied, running without a standby lease",
                    error=type(error).__name__,
                    fix=f"allow read and write on the Kafka topic {LEASES}, or run no other collector for this part",
                )
                return
            except (KafkaError, PublishError) as error:
                if not self._is_lost:
                    log.warning("lease access failed, retrying", error=str(error))
                self._is_lost = True
                self._stop.wait(RETRY_SECONDS)

    def _keep(self, consumer: KafkaConsumer, publisher: Publisher) -> None:
        """Read the newest READ_BACK claims, then append and read claims until the stop."""
        consumer.assign([_PLACE])
        begin, end = consumer.beginning_offsets([_PLACE])[_PLACE], consumer.end_offsets([_PLACE])[_PLACE]
        consumer.seek(_PLACE, max(begin, end - READ_BACK))
        with self._lock:
            self._lease = Leadership()
        self._read(consumer, until=end)
        self._is_lost = False
        claimed_at = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            with self._lock:
                is_due = now - claimed_at >= self._seconds / LEASE_CLAIMS or not self._lease.until_ms
                is_offered = now < self._not_before
                is_hanging = now - self._used_at > max(KEPT_SECONDS, self._seconds)
                is_leading = self._lease.is_held_by(self._claim.holder)
            if is_offered and is_leading:
                self._append(consumer, publisher, is_released=True)
            elif is_due and not is_offered and not is_hanging:
                claimed_at = now
                self._append(consumer, publisher)
            self._read(consumer)
        self._append(consumer, publisher, is_released=True)

    def _append(self, consumer: KafkaConsumer, publisher: Publisher, *, is_released: bool = False) -> None:
        """Append a claim, and read the log up to it. A leader that gives the lease back stops to lead before that."""
        sent_at = time.monotonic()
        if is_released:
            with self._lock:
                self._valid_until = 0.0
        claim = msgspec.structs.replace(self._claim, is_released=is_released)
        future = publisher.publish_raw(LEASES, self._part, msgspec.json.encode(claim))
        publisher.flush()
        self._read(consumer, until=future.get(timeout=DELIVERY_SECONDS).offset + 1)
        with self._lock:
            if not self._lease.is_held_by(self._claim.holder):
                self._valid_until = 0.0
            elif time.monotonic() >= self._not_before:
                self._valid_until = sent_at + self._seconds

    def _read(self, consumer: KafkaConsumer, *, until: int = 0) -> None:
        """Read the log, at least up to the offset `until`. Raises KafkaError if that takes over DELIVERY_SECONDS."""
        deadline = time.monotonic() + DELIVERY_SECONDS
        while True:
            wait_ms = POLL_MS if not until or consumer.position(_PLACE) < until else 0
            for records in consumer.poll(timeout_ms=min(wait_ms, int(self._seconds * 1000 / LEASE_CLAIMS))).values():
                for record in records:
                    self._take(record)
            if consumer.position(_PLACE) >= until:
                return
            if time.monotonic() > deadline:
                raise KafkaError(f"the Kafka topic {LEASES} could not be read up to offset {until}")

    def _take(self, record: Any) -> None:
        if record.timestamp_type != LOG_APPEND_TIME:
            self.refusal = f"the Kafka topic {LEASES} needs message.timestamp.type=LogAppendTime"
            return
        self.refusal = ""
        claim = parse_claim(record.value)
        if record.key != self._part or claim is None:
            return
        with self._lock:
            self._log_ms = max(self._log_ms, record.timestamp)
            self._lease = self._lease.after(claim, self._log_ms, record.offset)


_PLACE = TopicPartition(LEASES, 0)


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
        plain = settings.id or f"{socket.gethostname()}/{settings.name_server}"
        if not settings.id and len(plain) > MAX_LENGTH:
            plain = f"{plain[: MAX_LENGTH - 17]}-{_digest(plain)}"
        number = self._claim(f"{plain} {settings.name_server}" if settings.id else plain)
        self.text = plain if settings.id or number == 1 else f"{plain}#{number}"
        self.holder = uuid.uuid4().hex
        if self._socket:
            with contextlib.suppress(OSError):
                place = f"{BOOT_ID.read_text().strip()} {NETWORK.readlink()} {plain} {number}"
                self.holder = _digest(place)

    def close(self) -> None:
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


BLIND_SECONDS = 600.0
"""Period in which a leader without any broker's answer offers the lease; in an outage no collector gets an answer."""


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
            part, seconds = find_part(self._settings), self._settings.lease_seconds
            self._lease = KafkaLease(self._kafka, part, self._name.holder, self._name.text, seconds)
        self._term = self._lease.read_term()
        if self._lease.refusal:
            raise CollectorError(self._lease.refusal)
        leader = self._name.text if self._term is not None else self._lease.read_leader()
        if leader and leader != self._leader:
            self._leader = leader
            if self._term is not None:
                log.info("leadership acquired", collector=leader)
            else:
                log.info("standby entered", leader=leader)
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
        if self._lease is not None and self._lease.offer():
            log.warning("leadership offered to a standby", reason="this collector cannot complete a round")

    def note_brokers(self, answered: int) -> None:
        if answered == 0 and time.monotonic() - self._blind_at >= BLIND_SECONDS:
            self._blind_at = time.monotonic()
            self.offer()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()


def find_part(collector: Collector) -> str:
    """Return the identity of the work: collectors with an equal one are leader and standbys."""
    servers = sorted(each.strip() for each in collector.name_server.split(";") if each.strip())
    text = repr((collector.cluster, servers, sorted(collector.groups), sorted(collector.topics)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
