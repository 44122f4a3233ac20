"""The lease in Kafka: one topic of claims, read and written by each collector in a thread of its own.

A collector appends its claim LEASE_CLAIMS times in `lease_seconds`, leading or waiting. It leads from the claim that
the log let count, for `lease_seconds` since before that was sent, so never longer than the log says; a process that was
stopped meanwhile finds its lease run out before it publishes anything.
"""

import contextlib
import threading
import time
from typing import Any

import msgspec
import structlog
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from conf.settings import Kafka
from streaming.collector.leadership import Claim, Leadership, parse_claim
from streaming.kafka_io.consumer import open_consumer
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.kafka_io.topics import client_options

LEASES = "balancewatch.collectors"
"""The topic of claims: one partition, keyed by what is watched, kept for an hour."""

LEASE_CLAIMS = 4
POLL_MS = 500
READ_BACK = 2_000
"""Claims read at the start: more than several collectors append in the longest lease."""

DELIVERY_SECONDS = 5.0
RETRY_SECONDS = 1.0
LOG_APPEND_TIME = 1

KEPT_SECONDS = 300.0
"""A leader whose rounds do not come to an end for so long does not claim any more: it hangs."""

NOT_ALLOWED = (TopicAuthorizationFailedError, ClusterAuthorizationFailedError)

log = structlog.get_logger()


class KafkaLease:
    """The lease on `part`, for the process `holder`. `close` gives it back."""

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
        self._is_without = False
        self._is_lost = False
        self.refusal = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector-lease", daemon=True)
        self._thread.start()

    def read_term(self) -> int | None:
        """The term in which this process leads now; None while another does, or none can be had."""
        with self._lock:
            self._used_at = time.monotonic()
            if self._is_without:
                return 0
            return self._lease.term if time.monotonic() < self._valid_until else None

    def read_leader(self) -> str:
        """The name of the collector that leads; empty when nobody is known to."""
        with self._lock:
            return self._lease.collector if self._lease.until_ms else ""

    def offer(self) -> bool:
        """Let another have it, if one waits; this process claims again a lease later."""
        with self._lock:
            if self._is_without or not self._lease.is_wanted_by_others(self._log_ms, self._claim.ttl_ms):
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
                with (
                    contextlib.closing(self._open()) as consumer,
                    Publisher(self._kafka, delivery_seconds=DELIVERY_SECONDS) as publisher,
                ):
                    self._keep(consumer, publisher)
            except NOT_ALLOWED as error:
                with self._lock:
                    self._is_without = True
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
        """Read and claim, until the stop."""
        self._read(consumer, until=consumer.end_offsets([_PLACE])[_PLACE])
        self._is_lost = False
        claimed_at = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            with self._lock:
                is_due = now - claimed_at >= self._seconds / LEASE_CLAIMS or not self._lease.until_ms
                is_offered = now < self._not_before
                is_hanging = now - self._used_at > max(KEPT_SECONDS, self._seconds)
                is_leading = self._lease.holder == self._claim.holder and bool(self._lease.until_ms)
            if is_offered:
                if is_leading:
                    self._append(consumer, publisher, is_released=True)
            elif is_due and not is_hanging:
                claimed_at = now
                self._append(consumer, publisher)
            self._read(consumer)
        self._append(consumer, publisher, is_released=True)

    def _append(self, consumer: KafkaConsumer, publisher: Publisher, *, is_released: bool = False) -> None:
        """Append a claim, and read the log up to it. Who gives the lease back has ceased to lead before others read
        it.
        """
        sent_at = time.monotonic()
        if is_released:
            with self._lock:
                self._valid_until = 0.0
        claim = msgspec.structs.replace(self._claim, is_released=is_released)
        future = publisher.publish_raw(LEASES, self._part, msgspec.json.encode(claim))
        publisher.flush()
        self._read(consumer, until=future.get(timeout=DELIVERY_SECONDS).offset + 1)
        with self._lock:
            is_held = self._lease.holder == self._claim.holder and bool(self._lease.until_ms)
            if is_held and time.monotonic() >= self._not_before:
                self._valid_until = sent_at + self._seconds
            elif not is_held:
                self._valid_until = 0.0

    def _read(self, consumer: KafkaConsumer, *, until: int = 0) -> None:
        """Take in what the log has, at least up to the offset `until`. Raises KafkaError when that does not come."""
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

    def _open(self) -> KafkaConsumer:
        """At the newest READ_BACK claims of the topic, which is made when it is not there."""
        _make_topic(self._kafka)
        consumer = open_consumer(self._kafka)
        try:
            consumer.assign([_PLACE])
            begin, end = consumer.beginning_offsets([_PLACE])[_PLACE], consumer.end_offsets([_PLACE])[_PLACE]
            consumer.seek(_PLACE, max(begin, end - READ_BACK))
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            self._lease = Leadership()
        return consumer


_PLACE = TopicPartition(LEASES, 0)


def _make_topic(kafka: Kafka) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=kafka.bootstrap_servers.split(","), request_timeout_ms=10_000, **client_options(kafka.options)
    )
    try:
        if LEASES not in admin.list_topics():
            configs = {"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000", "segment.ms": "3600000"}
            with contextlib.suppress(TopicAlreadyExistsError):
                admin.create_topics([NewTopic(LEASES, 1, kafka.replication_factor, topic_configs=configs)])
    finally:
        admin.close()
