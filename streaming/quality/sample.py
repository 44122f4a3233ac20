"""A bounded sample of a topic, read from Kafka beside the queries: its newest messages up to given offsets."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from schemas.contract import MAX_BYTES
from streaming.ingest.consumer import Span, read_spans

WINDOW_MS = 120_000
"""A sample goes back so far at the most from its newest message, by Kafka's time: a quiet topic's past is over."""

READ_SECONDS = 10.0


class Message(NamedTuple):
    """One message. `size` is its value's length; a value over the contract's MAX_BYTES is not kept, None is null."""

    topic: str
    partition: int
    offset: int
    ingest_time_ms: int
    value: bytes | None
    size: int

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True)
class Bounds:
    """What a sample may hold at the most, a topic."""

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
    seconds: float = READ_SECONDS,
) -> Sample:
    """The topic's newest messages before `ends` (partition to the offset after the last); None is all there is.

    What is not read within `seconds` is left out. Raises KafkaError.
    """
    spans = _wanted(read_spans(consumer, [topic]), ends, bounds.messages)
    places = {partition: TopicPartition(topic, partition) for partition in spans}
    consumer.assign(list(places.values()))
    for partition, span in spans.items():
        consumer.seek(places[partition], span.beginning)
    messages: list[Message] = []
    left, deadline = set(spans), time.monotonic() + seconds
    room = dict.fromkeys(spans, bounds.bytes // max(1, len(spans)))
    while left and time.monotonic() < deadline:
        for place, records in consumer.poll(timeout_ms=200, max_records=1_000).items():
            partition = place.partition
            for record in records:
                if partition in left and record.offset < spans[partition].end:
                    messages.append(_message(record))
                    room[partition] -= messages[-1].size
                    if room[partition] < 0:
                        left.discard(partition)
                        consumer.pause(place)
            if partition in left and consumer.position(place) >= spans[partition].end:
                left.discard(partition)
                consumer.pause(place)
    newest_ms = max((message.ingest_time_ms for message in messages), default=0)
    recent = (message for message in messages if message.ingest_time_ms >= newest_ms - window_ms)
    return Sample(topic, tuple(sorted(recent, key=lambda message: (message.partition, message.offset))))


def _wanted(spans: Mapping[tuple[str, int], Span], ends: Mapping[int, int] | None, messages: int) -> dict[int, Span]:
    """The partitions that have any, each with the end of its own part of the sample."""
    share = max(1, messages // max(1, len(spans)))
    wanted = {}
    for (_, partition), span in spans.items():
        end = span.end if ends is None else min(span.end, ends.get(partition, span.beginning))
        beginning = max(span.beginning, end - share)
        if beginning < end:
            wanted[partition] = Span(beginning, end)
    return wanted


def _message(record: object) -> Message:
    value: bytes | None = record.value  # type: ignore[attr-defined]  # kafka-python ships no types
    size = len(value or b"")
    kept = value if size <= MAX_BYTES else b""
    return Message(record.topic, record.partition, record.offset, record.timestamp, kept, size)  # type: ignore[attr-defined]  # the same
