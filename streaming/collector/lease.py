"""Leadership of collectors: of those with the same cluster, NameServers, groups and topics one leads.

The others are standbys. One takes over when the leader ends, dies, hangs, cannot complete a round, or reaches no
broker. The leader is the owner of the one partition of the Kafka topic LEASES in a consumer group. Kafka refuses a
commit once another process owns the partition, so a process that was suspended finds its lease lost before it
publishes. The commit's metadata names the leader. The sticky assignor leaves the partition with its owner when others
join.
"""

import contextlib
import hashlib
import socket
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import structlog
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import MemberToRemove, NewTopic
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.base import MemberState
from kafka.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from conf.settings import Collector, Kafka
from streaming.kafka_io.consumer import open_consumer
from streaming.kafka_io.topics import client_options

LEASES = "balancewatch.collectors"
"""An empty topic of one partition, and the prefix of the consumer groups: one for each part of a cluster."""

JOIN_SECONDS = 60.0
"""Longest wait for the group, which a member joins when the leader's round is over. kafka-python joins anew, and makes
all others join anew, if the answer comes between two polls, so a member polls without a pause until it has joined."""

POLL_MS = 200
HEARTBEAT_MS = 1_000
ANSWER_MS = 5_000
LEAVE_MS = 2_000

HANGING_SECONDS = 300.0
"""A leader whose round takes longer hangs, and leaves the group."""

BLIND_SECONDS = 600.0
"""Period in which a leader without any broker's answer offers the lease; in an outage no collector gets an answer."""

MOST_ON_A_HOST = 100
MAX_LENGTH = 200

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NETWORK = Path("/proc/self/ns/net")

_PLACE = TopicPartition(LEASES, 0)

log = structlog.get_logger()


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


def _digest(text: str, length: int = 16) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


class LeaseLostError(Exception):
    """Another collector may lead by now; the round is discarded."""


class Turn:
    """`take` before each round, `check` before anything is published."""

    def __init__(self, kafka: Kafka, collector: Collector, name: CollectorName) -> None:
        self._kafka, self._settings, self._name = kafka, collector, name
        self._has_lease = collector.lease_seconds > 0
        self._group = f"{LEASES}.{find_part(collector)}"
        self._consumer: KafkaConsumer | None = None
        self._lock = threading.RLock()  # `close` comes from another thread
        self._leader = self._failure = ""
        self._not_before = self._blind_at = float("-inf")
        self.is_ours = not self._has_lease
        self._is_closed = False

    def take(self) -> bool:
        """Set `is_ours`. Return whether another process led meanwhile, so that the memory may be outdated."""
        if not self._has_lease or self._is_closed or time.monotonic() < self._not_before:
            return False
        with self._lock:
            try:
                is_new = self._take()
            except (
                TopicAuthorizationFailedError,
                ClusterAuthorizationFailedError,
                GroupAuthorizationFailedError,
            ) as error:
                log.warning(
                    "lease denied, running without a standby lease",
                    error=type(error).__name__,
                    fix=f"allow read on the Kafka topic {LEASES} and on the consumer groups {LEASES}.*, or run no "
                    "other collector for this part",
                )
                self._leave()
                self._has_lease, self.is_ours = False, True
                return False
            except KafkaError as error:
                if not self._failure:
                    log.warning("lease access failed, retrying", error=str(error) or type(error).__name__)
                self._failure, self.is_ours = type(error).__name__, False
                if not isinstance(error, KafkaTimeoutError):
                    self._leave()
                return False
            self._failure = ""
            return is_new

    def _take(self) -> bool:
        consumer = self._consumer = self._consumer or self._join()
        self.is_ours, deadline = False, time.monotonic() + JOIN_SECONDS
        consumer.poll(timeout_ms=POLL_MS)
        while consumer.group_metadata().state is not MemberState.STABLE:
            if self._is_closed or time.monotonic() > deadline:
                return False
            consumer.poll(timeout_ms=POLL_MS)
        committed = consumer.committed(_PLACE, metadata=True, timeout_ms=ANSWER_MS)
        holder, _, leader = committed.metadata.partition(" ") if committed else ("", "", "")
        self.is_ours = bool(consumer.assignment())
        if self.is_ours:
            try:
                self.check()
            except LeaseLostError:
                return False
            leader = self._name.text
        if leader and leader != self._leader:
            self._leader = leader
            log.info("leadership acquired" if self.is_ours else "standby entered", leader=leader)
        return self.is_ours and holder != self._name.holder

    def check(self) -> None:
        """Raise LeaseLostError unless Kafka confirms that this process still leads."""
        if not self._has_lease:
            return
        leader = OffsetAndMetadata(0, f"{self._name.holder} {self._name.text}", -1)
        with self._lock:
            try:
                if self._consumer is None:
                    raise LeaseLostError
                self._consumer.commit({_PLACE: leader}, timeout_ms=ANSWER_MS)
            except KafkaError as error:
                self.is_ours = False
                raise LeaseLostError from error

    def offer(self) -> None:
        """Leave the group for a lease if a standby waits in it."""
        with self._lock, contextlib.suppress(KafkaError):
            if not self._has_lease or self._consumer is None:
                return
            with contextlib.closing(self._open_admin()) as admin:
                if len(self._find_members(admin)) < 2:
                    return
            self._leave()
            self._not_before = time.monotonic() + self._settings.lease_seconds
            log.warning("leadership offered to a standby", reason="this collector cannot complete a round")

    def note_brokers(self, answered: int) -> None:
        if answered == 0 and time.monotonic() - self._blind_at >= BLIND_SECONDS:
            self._blind_at = time.monotonic()
            self.offer()

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            self._leave()

    def _join(self) -> KafkaConsumer:
        """Join the group. Create the topic if it is missing, and remove a dead predecessor of this process."""
        with contextlib.closing(self._open_admin()) as admin:
            if LEASES not in admin.list_topics():
                with contextlib.suppress(TopicAlreadyExistsError):
                    admin.create_topics([NewTopic(LEASES, 1, self._kafka.replication_factor)])
            try:
                members = self._find_members(admin)
            except CoordinatorNotAvailableError:  # of a Kafka that never had a group
                members = []
            dead = [member["member_id"] for member in members if member["client_id"] == self._name.holder]
            if dead:
                admin.remove_group_members(self._group, [MemberToRemove(member_id=each) for each in dead])
        consumer = open_consumer(
            self._kafka,
            group_id=self._group,
            client_id=self._name.holder,
            partition_assignment_strategy=[StickyPartitionAssignor],
            session_timeout_ms=round(self._settings.lease_seconds * 1000),
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=round((HANGING_SECONDS + self._settings.interval_seconds) * 1000),
        )
        consumer.subscribe([LEASES])
        return consumer

    def _leave(self) -> None:
        self.is_ours = False
        if self._consumer is not None:
            with contextlib.suppress(KafkaError):
                self._consumer.close(timeout_ms=LEAVE_MS)
        self._consumer = None

    def _open_admin(self) -> KafkaAdminClient:
        options = client_options(self._kafka.options)
        servers = self._kafka.bootstrap_servers.split(",")
        return KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=10_000, **options)

    def _find_members(self, admin: KafkaAdminClient) -> list[dict[str, Any]]:
        members: list[dict[str, Any]] = admin.describe_groups([self._group])[self._group]["members"]
        return members


def find_part(collector: Collector) -> str:
    """Return the identity of the work: collectors with an equal one are leader and standbys."""
    servers = sorted(each.strip() for each in collector.name_server.split(";") if each.strip())
    return _digest(repr((collector.cluster, servers, sorted(collector.groups), sorted(collector.topics))), 32)
