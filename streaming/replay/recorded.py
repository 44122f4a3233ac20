"""Recorded events in the order of arrival, in slices: from Kafka by time, or from a file of JSON lines.

Kafka's partitions are merged by record timestamp, so a clock event never overtakes an earlier event. A slice ends
between two timestamps.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from conf.settings import Kafka
from schemas.events import EVENTS
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.replay.stream import Enveloper, Event, Message
from streaming.system.known_error import BalancewatchError

Item = TypeVar("Item")

AT_MOST = 10_000
"""Messages of a slice, plus those with the timestamp of its last one."""

PATIENCE_SECONDS = 30.0

LONGEST_LINE = 16 << 20


class RecordedError(BalancewatchError):
    """The events cannot be read. The message says where reading failed."""


def read_kafka(kafka: Kafka, from_ms: int, to_ms: int) -> Iterator[list[Message]]:
    """Yield the messages of the five topics with record timestamps in [from, to).

    Raises KafkaUnreachableError, or RecordedError where Kafka stops answering.
    """
    with ExitStack() as consumers:

        def open_one() -> KafkaConsumer:
            return consumers.enter_context(closing(open_consumer(kafka)))

        try:
            partitions = list(_open_partitions(open_one, from_ms, to_ms))
        except KafkaError as error:
            raise KafkaUnreachableError(
                f"kafka.bootstrap_servers = {kafka.bootstrap_servers!r}: no broker answers ({type(error).__name__})"
            ) from None
        try:
            yield from _slices(merge(*partitions, key=itemgetter(0)))
        except KafkaError as error:
            raise RecordedError(f"reading events from Kafka failed: {type(error).__name__}: {error}") from None


def _open_partitions(open_one: Callable[[], KafkaConsumer], from_ms: int, to_ms: int) -> Iterator["_Partition"]:
    asking = open_one()
    spans = read_spans(asking, EVENTS)
    if not spans:
        raise RecordedError("Kafka has none of the topics rocketmq.*; does `collect` run?")
    places = [TopicPartition(*place) for place in spans]
    begins = asking.offsets_for_times(dict.fromkeys(places, from_ms))
    for place in places:
        found, end = begins.get(place), spans[place.topic, place.partition].end
        if found and found.offset < end:
            yield _Partition(open_one(), place, found.offset, end, to_ms)


@dataclass(frozen=True)
class _Partition:
    """One partition with its consumer, so that none is fetched faster than it is merged.

    Timestamps of its messages never decrease.
    """

    consumer: KafkaConsumer
    place: TopicPartition
    begin: int
    end: int
    to_ms: int

    def __iter__(self) -> Iterator[tuple[int, Message]]:
        self.consumer.assign([self.place])
        self.consumer.seek(self.place, self.begin)
        newest_ms, deadline = 0, time.monotonic() + PATIENCE_SECONDS
        while self.consumer.position(self.place) < self.end:
            for record in self.consumer.poll(timeout_ms=500).get(self.place, ()):
                if record.offset >= self.end or record.timestamp >= self.to_ms:
                    return
                newest_ms = max(newest_ms, record.timestamp)
                where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
                yield newest_ms, {**where, "ingest_time_ms": record.timestamp, "value": record.value}
                deadline = time.monotonic() + PATIENCE_SECONDS
            if time.monotonic() > deadline:
                raise RecordedError(
                    f"Kafka returned no message of {self.place.topic}, partition {self.place.partition}, for "
                    f"{PATIENCE_SECONDS:g} s, although it has some up to offset {self.end}"
                )


def _slices(messages: Iterable[tuple[int, Item]]) -> Iterator[list[Item]]:
    part: list[Item] = []
    last_ms = 0
    for time_ms, message in messages:
        if len(part) >= AT_MOST and time_ms > last_ms:
            yield part
            part = []
        part.append(message)
        last_ms = time_ms
    yield part


def read_events(path: Path) -> Iterator[list[Message]]:
    """Yield the events of a file, a line each: `{"topic": ..., "event": {...}}`, in the order of their times.

    Raises RecordedError with the number of the first invalid line.
    """
    enveloper = Enveloper()
    yield from map(
        enveloper.messages, _slices((event["event_time_ms"], (topic, event)) for topic, event in _lines(path))
    )


def last_event_ms(path: Path) -> int:
    """Return the latest event time of a file, 0 without events. Raises RecordedError as `read_events`."""
    return max((event["event_time_ms"] for _, event in _lines(path)), default=0)


def _lines(path: Path) -> Iterator[Event]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
                yield _event_of(path, number, line)
    except OSError as error:
        raise RecordedError(f"--events {path}: {error.strerror}") from None


def _event_of(path: Path, number: int, line: bytes) -> Event:
    try:
        record = json.loads(line)
        topic, event = record["topic"], record["event"]
        if topic in EVENTS and isinstance(event["event_time_ms"], int):
            return topic, event
    except (ValueError, KeyError, TypeError):
        pass
    raise RecordedError(
        f'--events {path}: line {number} is not {{"topic": "rocketmq.pulls", "event": {{"event_time_ms": ...}}}} with '
        f"one of the topics {', '.join(EVENTS)}"
    )
