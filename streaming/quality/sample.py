"""A bounded sample of a topic, read from Kafka beside the query: its newest messages up to given offsets."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from schemas.contract import MAX_BYTES
from streaming.kafka_io.consumer import Span, read_spans
from streaming.text.times import wall_ms

WINDOW_MS = 120_000
"""A sample goes back so far at the most from its newest message, by Kafka's time: a quiet topic's past is over.

That time is often the publisher's own. A message that is ahead of our clock is in the sample, and moves no other out.
"""

READ_SECONDS = 10.0

FIRST_BLOCK = 16


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
    deadline = time.monotonic() + seconds
    room = bounds.bytes // max(1, len(spans))
    messages: list[Message] = []
    for partition, span in sorted(spans.items()):
        messages += _read_backwards(consumer, TopicPartition(topic, partition), span, room, window_ms, deadline)
    first_ms = _first_ms(messages, window_ms)
    return Sample(topic, tuple(one for one in messages if one.ingest_time_ms >= first_ms))


def _first_ms(messages: Iterable[Message], window_ms: float) -> float:
    """Where the window begins. Without a message that our clock has reached it has no beginning."""
    now_ms = wall_ms()
    reached = (message.ingest_time_ms for message in messages if message.ingest_time_ms <= now_ms)
    return max(reached, default=-math.inf) - window_ms


def _read_backwards(
    consumer: KafkaConsumer, place: TopicPartition, span: Span, room: int, window_ms: float, deadline: float
) -> list[Message]:
    """Blocks from the newest on, each twice as long as the one after it, until one is all too old or there is no room.

    So the newest are always in it, whatever lies before them. The first block is taken whole.
    """
    found: list[Message] = []
    end, length = span.end, FIRST_BLOCK
    while end > span.beginning:
        begin = max(span.beginning, end - length)
        block = _read_block(consumer, place, Span(begin, end), room if found else math.inf, deadline)
        if block is None:
            break
        found = block + found
        room -= sum(message.size for message in block)
        end, length = begin, 2 * length
        first_ms = _first_ms(found, window_ms)
        if room <= 0 or (block and all(one.ingest_time_ms < first_ms for one in block)):
            break
    return found


def _read_block(
    consumer: KafkaConsumer, place: TopicPartition, span: Span, room: float, deadline: float
) -> list[Message] | None:
    """All of it, or None when it is over the room or the time."""
    consumer.assign([place])
    consumer.seek(place, span.beginning)
    messages: list[Message] = []
    while consumer.position(place) < span.end:
        if time.monotonic() > deadline or room < 0:
            return None
        for records in consumer.poll(timeout_ms=200, max_records=1_000).values():
            for record in records:
                if record.offset < span.end:
                    messages.append(_message(record))
                    room -= messages[-1].size
    return messages if room >= 0 else None


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
