"""Bounds of published events."""

from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import HEARTBEATS
from streaming.kafka_io import publisher as module
from streaming.kafka_io.publisher import MOST_BYTES, EventTooLargeError, Publisher


class Sent:
    """A KafkaProducer that keeps what it is given."""

    def __init__(self, **_: Any) -> None:
        self.sizes: list[int] = []

    def send(self, topic: str, key: bytes, value: bytes) -> "Sent":
        self.sizes.append(len(value))
        return self

    def add_errback(self, _: Any) -> None:
        """Nothing fails."""

    def close(self, timeout: float) -> None:
        """Nothing is open."""


def test_an_event_over_the_bound_is_refused_by_name_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KafkaProducer", Sent)
    with Publisher(Settings.load(kafka={"bootstrap_servers": "x:1"}).kafka) as publisher:
        event = {"cluster": "c", "client_id": "a@1", "event_time_ms": 1}
        publisher.publish(HEARTBEATS, event)
        with pytest.raises(
            EventTooLargeError, match=r"rocketmq\.heartbeats: the event of .*a@1.* bytes, at most 1,044,480"
        ):
            publisher.publish(HEARTBEATS, event | {"client_version": "x" * MOST_BYTES})
