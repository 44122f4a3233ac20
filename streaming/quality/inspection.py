"""An inspection of a topic: a sample from Kafka, read as rows here, and validated by Great Expectations elsewhere.

A sample is bounded: the newest messages up to given offsets. Each row has `partition` and `offset` and the columns of
its suite (schemas/suites.py). A message that is no JSON object has only its `contract` column.
"""

import json
import math
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from conf.settings import Settings
from schemas.contract import MAX_BYTES, has_many_nodes, parse_object
from schemas.decode import decode
from schemas.events import HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.expectations import Expectation, Suite
from schemas.suites import ENUMERATIONS, KEPT, KNOWN, SUITES, suites_of
from streaming.kafka_io.consumer import Span, open_consumer, read_spans
from streaming.system.known_error import BalancewatchError
from streaming.text.times import wall_ms

WINDOW_MS = 120_000
"""Maximum length of a sample, back from its newest message by Kafka's time, which is often the publisher's clock.

A message ahead of the local clock is in the sample and displaces no other.
"""

READ_SECONDS = 60.0
"""Limit on reading a sample, without which there is none."""

LEAST_MESSAGES = 16
"""Newest messages of a partition that are in the sample whatever their size."""


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


def read_sample(
    consumer: KafkaConsumer,
    topic: str,
    ends: Mapping[int, int] | None,
    bounds: Bounds,
    *,
    window_ms: float = WINDOW_MS,
) -> list[Message]:
    """Return the topic's newest messages before `ends` (partition to the offset after the last); None is the end.

    They are in the order of their offsets a partition. Raises KafkaError, also when they take over READ_SECONDS.
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
        messages += _read(consumer, TopicPartition(topic, partition), span, bounds.bytes // len(wanted), deadline)
    now_ms = wall_ms()
    reached = (message.ingest_time_ms for message in messages if message.ingest_time_ms <= now_ms)
    first_ms = max(reached, default=-math.inf) - window_ms
    return [message for message in messages if message.ingest_time_ms >= first_ms]


def _read(consumer: KafkaConsumer, place: TopicPartition, span: Span, room: int, deadline: float) -> deque[Message]:
    """Return the span's newest messages: as many as have room, and at least LEAST_MESSAGES."""
    consumer.assign([place])
    consumer.seek(place, span.beginning)
    messages: deque[Message] = deque()
    while consumer.position(place) < span.end:
        if time.monotonic() > deadline:
            raise KafkaTimeoutError(f"{place.topic}-{place.partition}: no sample within {READ_SECONDS:g} s")
        for record in consumer.poll(timeout_ms=200, max_records=1_000).get(place, ()):
            if record.offset < span.end:
                size = len(record.value or b"")
                value = record.value if size <= MAX_BYTES else b""
                messages.append(Message(place.topic, place.partition, record.offset, record.timestamp, value, size))
                room -= size
            while room < 0 and len(messages) > LEAST_MESSAGES:
                room += messages.popleft().size
    return messages


Source = TypeVar("Source")

Row = dict[str, Any]
Readings = dict[str, list[Row]]
"""Suite name to its rows."""

ENOUGH_EVENTS, ENOUGH_MS = 20, 1_000
"""Least number of events, and duration, for a rate."""

MOST = 2**63 - 1

_INDEX = re.compile(r"\[\d+\]$")
"""The place of an element that is no object in the path of a reason: its list breaks the contract."""

MOST_ROUTES = 20_000
"""Limit on topics with a route here; queues of other topics are not evaluated."""

KEPT_ROUTES = 8
FOLLOW_MS = 60_000
"""Clients poll routes every 30 s, and their events by the old route arrive a moment later."""

MOST_SOURCES = 10_000
ENOUGH_LOOKS = 5
KEPT_LOOKS = 30
"""Limit on the newest rates of a source, of which `usual` is the median."""


class Routes:
    """The newest routes of each topic: by time, a broker's queues that consumers read and producers write.

    Messages that break their contract are skipped.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], list[tuple[int, dict[str, dict[str, int]]]]] = {}

    def learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            event, reasons = decode(ROUTES, message.value, message.ingest_time_ms)
            key = None if reasons else (event.cluster, event.topic)
            if key is None or (key not in self._routes and len(self._routes) >= MOST_ROUTES):
                continue
            queues = {
                one.broker_name: {PULLS: one.read_queue_nums, SEND_LATENCIES: one.write_queue_nums}
                for one in event.queues
            }
            known = self._routes.setdefault(key, [])
            if not known or (known[-1][1] != queues and event.event_time_ms >= known[-1][0]):
                known.append((event.event_time_ms, queues))
                del known[:-KEPT_ROUTES]

    def word_for(self, kind: str, event: Any) -> str | None:
        """Return known, unknown_queue or unknown_broker, for an event of the Kafka topic `kind`; None without a route.

        Clients follow a route late: any route that was in force within FOLLOW_MS before the event is accepted.
        """
        words = set()
        until_ms: float = math.inf
        for from_ms, brokers in reversed(self._routes.get((event.cluster, event.topic), [])):
            if until_ms <= event.event_time_ms - FOLLOW_MS:
                break
            queues = brokers.get(event.broker_name)
            if queues is None:
                words.add("unknown_broker")
            else:
                words.add(KNOWN if event.queue_id < queues[kind] else "unknown_queue")
            until_ms = from_ms
        return next((word for word in (KNOWN, "unknown_queue", "unknown_broker") if word in words), None)


class UsualRates:
    """Events per second of each source in the samples of this process."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], deque[float]] = {}

    def usual(self, topic: str, cluster: str) -> float | None:
        """Return the median of the newest rates; None before ENOUGH_LOOKS."""
        rates = self._rates.get((topic, cluster), ())
        return median(rates) if len(rates) >= ENOUGH_LOOKS else None

    def learn(self, topic: str, rates: Mapping[str, float]) -> None:
        for cluster, rate in rates.items():
            if (topic, cluster) in self._rates or len(self._rates) < MOST_SOURCES:
                self._rates.setdefault((topic, cluster), deque(maxlen=KEPT_LOOKS)).append(rate)


def read(topic: str, sample: Iterable[Message], routes: Routes, rates: UsualRates) -> Readings:
    """Return the rows of every suite of the topic, and add the sample's rates to the usual ones."""
    events, *elements = suites_of(topic)
    readings: Readings = {suite.name: [] for suite in (events, *elements)}
    valid: list[tuple[Row, Any, bytes]] = []
    for message in sample:
        place = {"partition": message.partition, "offset": message.offset}
        row: Row = {**place, "contract": KEPT}
        readings[topic].append(row)
        if message.size > MAX_BYTES:
            row["contract"] = "too_large"
            continue
        event, reasons = decode(topic, message.value, message.ingest_time_ms)
        if reasons:
            row["contract"] = reasons[0].partition(":")[0]
        if has_many_nodes(message.value or b""):
            continue
        try:
            content = parse_object(message.value or b"")
        except ValueError:
            continue
        time_ms = content.get("event_time_ms")
        if isinstance(time_ms, int) and not isinstance(time_ms, bool):
            row["ahead_ms"] = _bounded(time_ms - message.ingest_time_ms)
            row["behind_ms"] = _bounded(message.ingest_time_ms - time_ms)
        codes = {
            _INDEX.sub("", path): code for code, _, path in (reason.partition(": ") for reason in reversed(reasons))
        }
        row |= _fields(content, events, codes)
        for suite in elements:
            for path, element in _elements(content, suite.lists):
                readings[suite.name].append(place | _fields(element, suite, codes, path))
        if not reasons:
            valid.append((row, event, message.value or b""))
    _add_rules(topic, valid, routes, rates)
    return readings


def _fields(content: Mapping[str, Any], suite: Suite, codes: Mapping[str, str], path: str = "") -> Row:
    """Return whether each field keeps its contract, or the code of the reason, and the words of enumerations."""
    row: Row = {}
    suite_name = suite.name
    for name in suite.schema.by_name:
        kept = row[f"contract_{name}"] = codes.get(path + name, KEPT)
        if (suite_name, name) in ENUMERATIONS:
            row[name] = content.get(name) if kept == KEPT else None
    return row


def _elements(content: Any, lists: Sequence[str], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects at the end of a path through lists, each after its path; other values on it are skipped."""
    if not lists:
        yield path, content
        return
    value = content.get(lists[0])
    for number, element in enumerate(value if isinstance(value, list) else ()):
        if isinstance(element, dict):
            yield from _elements(element, lists[1:], f"{path}{lists[0]}[{number}].")


def _bounded(number: int) -> int:
    """Return the number within 0 and the maximum of Int64: an event may have any time."""
    return max(0, min(number, MOST))


def _add_rules(topic: str, valid: Sequence[tuple[Row, Any, bytes]], routes: Routes, rates: UsualRates) -> None:
    """Add the columns that need other messages to the rows of messages that keep their contract."""
    copies: Counter[bytes] = Counter()
    last_ms: dict[tuple[str, ...], int] = {}
    for row, event, value in valid:
        row["copies"] = copies[value]
        copies[value] += 1
        if topic in (PULLS, SEND_LATENCIES):
            row["queue"] = routes.word_for(topic, event)
        if topic == HEARTBEATS:
            channel = (event.cluster, event.broker_name, event.client_id, event.client_addr)
            before_ms = last_ms.get(channel)
            if before_ms is not None and event.event_time_ms >= before_ms:
                row["since_last_ms"] = _bounded(event.event_time_ms - before_ms)
            last_ms[channel] = max(event.event_time_ms, before_ms or 0)
    if topic in (HEARTBEATS, PULLS, SEND_LATENCIES):
        by_cluster = _per_second((event.cluster, event.event_time_ms) for _, event, _ in valid)
        for row, event, _ in valid:
            rate, usual = by_cluster.get(event.cluster), rates.usual(topic, event.cluster)
            row["rate_percent"] = None if rate is None or not usual else _bounded(round(100 * rate / usual))
        rates.learn(topic, by_cluster)
    if topic == SEND_LATENCIES:
        by_client = _per_second(((event.cluster, event.client_id), event.event_time_ms) for _, event, _ in valid)
        for row, event, _ in valid:
            rate = by_client.get((event.cluster, event.client_id))
            row["source_per_second"] = None if rate is None else round(rate)


def _per_second(events: Iterable[tuple[Source, int]]) -> dict[Source, float]:
    """Return the events per second of each source from its first to its last event, if these are enough."""
    times: dict[Source, list[int]] = defaultdict(list)
    for source, time_ms in events:
        times[source].append(time_ms)
    return {
        source: 1000 * len(of_source) / span_ms
        for source, of_source in times.items()
        if len(of_source) >= ENOUGH_EVENTS and (span_ms := max(of_source) - min(of_source)) >= ENOUGH_MS
    }


ALL_ROUTES = Bounds(MOST_ROUTES, 64 << 20)
NEW_ROUTES = Bounds(2_000, 8 << 20)

VALIDATE_SECONDS = 600.0
"""Limit on one topic's validation, the start of the process included: long enough for an overloaded machine."""

MOST_OFFSETS = 5
"""Examples of unexpected values, and of their offsets, per expectation."""

MOST_CHARACTERS = 100


class QualityError(BalancewatchError):
    """The process that validates failed."""


def outcome_of(
    suite: str,
    expectation: Expectation,
    is_success: bool,
    evaluated: int,
    unexpected: int,
    examples: Mapping[str, Any] | None = None,
) -> Row:
    """Return the row of the table `quality` without offsets, query and time; `examples` are unexpected values by place.

    `evaluated` counts the rows with a value.
    """
    found = examples or {}
    observed = map(str, dict.fromkeys(found.values()))
    return {
        "suite": suite,
        "expectation": expectation.name,
        "topic": SUITES[suite].topic,
        "severity": expectation.severity.value,
        "success": is_success,
        "evaluated": evaluated,
        "unexpected": unexpected,
        "unexpected_share": unexpected / evaluated if evaluated else 0.0,
        "description": str(expectation),
        "observed": [text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…" for text in observed],
        "sample_offsets": list(found),
    }


class Inspection:
    """Validates topics, one after the other, and keeps routes and usual rates. Close it. Not thread-safe but `stop`."""

    def __init__(self, settings: Settings, bounds: Bounds | None = None, past_ms: int = 0) -> None:
        """`past_ms` is the length of a simulated past, by which events may arrive later than usual."""
        quality = settings.quality
        self._past_ms = past_ms
        self._kafka = settings.kafka
        self._bounds = bounds or Bounds(quality.sample_messages, quality.sample_bytes)
        self._consumer: KafkaConsumer | None = None
        self._process: subprocess.Popen[str] | None = None
        self._routes, self._rates = Routes(), UsualRates()
        self._knows_routes = False

    def look(self, topic: str, ends: Mapping[int, int] | None = None) -> list[Row]:
        """Validate the newest messages before `ends` (partition to offset), or all. Raises KafkaError, QualityError.

        Return rows of the table `quality` without query and time.
        """
        consumer = self._consumer = self._consumer or open_consumer(self._kafka)
        if topic in (PULLS, SEND_LATENCIES):
            bounds = NEW_ROUTES if self._knows_routes else ALL_ROUTES
            self._routes.learn(read_sample(consumer, ROUTES, None, bounds, window_ms=math.inf))
            self._knows_routes = True
        sample = read_sample(consumer, topic, ends, self._bounds)
        spans: dict[str, list[int]] = {}
        for message in sample:
            spans.setdefault(str(message.partition), [message.offset, message.offset])[1] = message.offset
        offsets = json.dumps(spans, sort_keys=True)
        found = self.validate(topic, read(topic, sample, self._routes, self._rates))
        return [{**outcome, "offsets": offsets} for outcome in found]

    def validate(self, topic: str, readings: Readings) -> list[Row]:
        """Return the outcome of each expectation, with examples. Raises QualityError."""
        counts = self._ask(json.dumps({"topic": topic, "past_ms": self._past_ms, "readings": readings}))
        return [
            outcome_of(suite.name, expectation, *counted, examples_of(expectation, readings[suite.name], topic))
            for suite in suites_of(topic, self._past_ms)
            for expectation, counted in zip(suite.expectations, counts[suite.name], strict=True)
        ]

    def _ask(self, request: str) -> dict[str, list[tuple[bool, int, int]]]:
        process = self._process = self._process or subprocess.Popen(
            [sys.executable, "-P", "-m", "streaming.quality.validator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="ascii",
            start_new_session=True,  # Ctrl-C is for this process, which ends the other one
        )
        timer = threading.Timer(VALIDATE_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdin is not None  # noqa: S101  # both are pipes
            assert process.stdout is not None  # noqa: S101  # the same
            process.stdin.write(request + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or "{}")
        except (OSError, ValueError):
            answer = {}
        finally:
            timer.cancel()
        if "counts" in answer:
            counts: dict[str, list[tuple[bool, int, int]]] = answer["counts"]
            return counts
        self.end_look()
        reason = answer.get("error", f"the process that validates ended with code {process.returncode}")
        raise QualityError(reason)

    def end_look(self) -> None:
        """End the process that validates; the next look starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def stop(self) -> None:
        """Interrupt a validation, from another thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Disconnect from Kafka and end the process; the next look starts anew."""
        self.end_look()
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None


def examples_of(expectation: Expectation, rows: Iterable[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """Return the first unexpected values by their places, topic-partition@offset."""
    found: dict[str, Any] = {}
    for row in rows:
        value = row.get(expectation.column)
        if value is not None and not expectation.is_expected(value):
            found.setdefault(f"{topic}-{row['partition']}@{row['offset']}", value)
            if len(found) == MOST_OFFSETS:
                break
    return found
