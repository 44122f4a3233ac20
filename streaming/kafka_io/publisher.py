"""Publishes events to Kafka by kafka-python: keyed, in order by key, with a bounded number unconfirmed."""

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError

from conf.settings import Kafka
from schemas.contract import MAX_BYTES
from schemas.events import key_of
from streaming.kafka_io.topics import client_options
from streaming.system.known_error import BalancewatchError

_encode = msgspec.json.Encoder().encode


class PublishError(BalancewatchError):
    """Kafka did not accept an event. Events after the last successful `flush` may be missing."""


MOST_BYTES = MAX_BYTES - (4 << 10)
"""Of an event: within the contract, and with its key within a broker's default message.max.bytes."""


class EventTooLargeError(PublishError):
    """An event has more than MOST_BYTES and was not sent. The message names its topic and key."""


class Publisher:
    """Publishes events, and waits every `max_unconfirmed` events, as kafka-python buffers without bound."""

    def __init__(self, kafka: Kafka, *, max_unconfirmed: int = 10_000, delivery_seconds: float = 30.0) -> None:
        """Raises PublishError if no broker answers."""
        self._max_unconfirmed = max_unconfirmed
        self._unconfirmed = 0
        self._failure: BaseException | None = None
        self._delivery_seconds = delivery_seconds
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=kafka.bootstrap_servers.split(","),
                linger_ms=2,
                batch_size=256 << 10,
                max_request_size=16 << 20,
                delivery_timeout_ms=int(delivery_seconds * 1000),
                request_timeout_ms=int(delivery_seconds * 500),
                **client_options(kafka.options),
            )
        except KafkaError as error:
            raise PublishError(
                f"kafka.bootstrap_servers = {kafka.bootstrap_servers!r}: {type(error).__name__}"
            ) from None

    def publish(self, topic: str, event: Mapping[str, Any]) -> Any:
        """Publish an event of `topic`; return a future of the record's metadata, done after `flush`.

        Raises EventTooLargeError, or PublishError if Kafka has refused an earlier event.
        """
        key, value = key_of(topic, event), _encode(event)
        if len(value) > MOST_BYTES:
            name = (key or b"").decode(errors="replace")[:200]
            raise EventTooLargeError(f"{topic}: the event of {name} has {len(value):,} bytes, at most {MOST_BYTES:,}")
        return self.publish_raw(topic, key, value)

    def publish_raw(self, topic: str, key: bytes | None, value: bytes | None) -> Any:
        try:
            future = self._producer.send(topic, key=key, value=value)
        except KafkaError as error:
            raise PublishError(f"{topic}: {type(error).__name__}: {error}") from None
        future.add_errback(self._keep_failure)
        self._unconfirmed += 1
        if self._unconfirmed >= self._max_unconfirmed:
            self.flush()
        return future

    def flush(self) -> None:
        """Wait until every published event is in Kafka. Raises PublishError if one is not."""
        try:
            self._producer.flush(timeout=self._delivery_seconds + 5)
        except KafkaError as error:
            self._failure = self._failure or error
        self._unconfirmed = 0
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise PublishError(f"Kafka did not take an event: {type(failure).__name__}: {failure}")

    def close(self) -> None:
        """Close the connection; events that are not flushed may be lost."""
        with contextlib.suppress(KafkaError):  # a Kafka that is down cannot say goodbye
            self._producer.close(timeout=2)

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep_failure(self, error: BaseException) -> None:
        self._failure = self._failure or error
