"""A bounded sample of a topic, read from Kafka beside the query: its newest messages up to given offsets."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from schemas.contract import MAX_BYTES
from streaming.kafka_io.consumer import Span, read_spans
from streaming.text.times import wall_ms

WINDOW_MS = 120_000
"""Maximum length of a sample, back from its newest message by Kafka's time, which is often the publisher's clock.

A message ahead of the local clock is in the sample and displaces no other.
"""

READ_SECONDS = 10.0

PATIENCE_SECONDS = 60.0
"""Limit on the newest messages of a partition, without which there is no sample."""

FIRST_BLOCK = 16


class Message(NamedTuple):
    """One message. `size` is its value's length; a value over the contract's MAX_BYTES is not kept, None is null."""

    topic: str
    partition: int
    offset: int
    ingest_time_ms: int
    value: bytes | None
    size: int


@dataclass(frozen=True)
class Bounds:
    """The most messages and bytes of a topic that a sample may hold."""

    messages: int
    bytes: int


@dataclass(frozen=True)
class Sample:
    """Messages of one topic, in the order of their offsets a partition."""

    topic: str
    messages: tuple[Message, ...]

    @property
    def spans(self) -> dict[str, list[int]]:
        """Partition to its first and last offset."""
        spans: dict[str, list[int]] = {}
        for message in self.messages:
            spans.setdefault(str(message.partition), [message.offset, message.offset])[1] = message.offset
        return spans


def read_sample(
    consumer: KafkaConsumer,
    topic: str,
    ends: Mapping[int, int] | None,
    bounds: Bounds,
    *,
    window_ms: float = WINDOW_MS,
) -> Sample:
    """Return the topic's newest messages before `ends` (partition to the offset after the last); None is the end.

    Older messages that take over READ_SECONDS are left out. Raises KafkaError, also when the newest take too long.
    """
    spans = read_spans(consumer, [topic])
    share = max(1, bounds.messages // max(1, len(spans)))
    wanted = {}
    for (_, partition), span in spans.items():
        end = span.end if ends is None else min(span.end, ends.get(partition, span.beginning))
        beginning = max(span.beginning, end - share)
        if beginning < end:
            wanted[partition] = Span(beginning, end)
    deadline = time.monotonic() + READ_SECONDS
    messages: list[Message] = []
    for partition, span in sorted(wanted.items()):
        place = TopicPartition(topic, partition)
        messages += _read_backwards(consumer, place, span, bounds.bytes // len(wanted), window_ms, deadline)
    first_ms = _first_ms(messages, window_ms)
    return Sample(topic, tuple(message for message in messages if message.ingest_time_ms >= first_ms))


def _first_ms(messages: Iterable[Message], window_ms: float) -> float:
    """Return the start of the window; -inf if every message is ahead of the local clock."""
    now_ms = wall_ms()
    reached = (message.ingest_time_ms for message in messages if message.ingest_time_ms <= now_ms)
    return max(reached, default=-math.inf) - window_ms


def _read_backwards(
    consumer: KafkaConsumer, place: TopicPartition, span: Span, room: int, window_ms: float, deadline: float
) -> list[Message]:
    """Return blocks from the newest message backwards, each twice as long as the one after it.

    The first block is read in full. Reading stops at a block that is too old, or when room or time runs out.
    """
    found: list[Message] = []
    end, length = span.end, FIRST_BLOCK
    while end > span.beginning:
        begin = max(span.beginning, end - length)
        limits = (room, deadline) if found else (math.inf, time.monotonic() + PATIENCE_SECONDS)
        block = _read_block(consumer, place, Span(begin, end), *limits)
        if block is None:
            if not found:
                raise KafkaTimeoutError(f"{place.topic}-{place.partition}: no message within {PATIENCE_SECONDS:g} s")
            break
        found = block + found
        room -= sum(message.size for message in block)
        end, length = begin, 2 * length
        first_ms = _first_ms(found, window_ms)
        if room <= 0 or (block and all(message.ingest_time_ms < first_ms for message in block)):
            break
    return found


def _read_block(
    consumer: KafkaConsumer, place: TopicPartition, span: Span, room: float, deadline: float
) -> list[Message] | None:
    """Return the span's messages; None if there is not enough room or time."""
    consumer.assign([place])
    consumer.seek(place, span.beginning)
    messages: list[Message] = []
    while consumer.position(place) < span.end:
        if time.monotonic() > deadline or room < 0:
            return None
        for records in consumer.poll(timeout_ms=200, max_records=1_000).values():
            for record in records:
                if record.offset < span.end:
                    size = len(record.value or b"")
                    value = record.value if size <= MAX_BYTES else b""
                    ingest_time_ms = record.timestamp
                    messages.append(Message(place.topic, place.partition, record.offset, ingest_time_ms, value, size))
                    room -= size
    return messages if room >= 0 else None
