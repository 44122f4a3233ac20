"""Messages as rows for expectations, well-formed or not; with the newest routes and usual rates as their reference.

Each row has `partition` and `offset` and the columns of its suite (schemas/suites.py). A message that is no JSON object
has only its `contract` column.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

from schemas.contract import MAX_BYTES, has_many_nodes, parse_object
from schemas.decode import decode
from schemas.events import HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.expectations import Suite
from schemas.suites import ENUMERATIONS, KEPT, KNOWN, suites_of
from streaming.quality.sample import Message, Sample

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


class Queues(NamedTuple):
    """Numbers of queues of a broker that consumers read and producers write."""

    read: int
    write: int


class Route(NamedTuple):
    """A topic's queues by broker from `from_ms` on, event time."""

    from_ms: int
    queues: Mapping[str, Queues]


class Routes:
    """The newest routes of each topic. Messages that break their contract are skipped."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], list[Route]] = {}

    def learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            event, reasons = decode(ROUTES, message.value, message.ingest_time_ms)
            key = None if reasons else (event.cluster, event.topic)
            if key is None or (key not in self._routes and len(self._routes) >= MOST_ROUTES):
                continue
            queues = {one.broker_name: Queues(one.read_queue_nums, one.write_queue_nums) for one in event.queues}
            known = self._routes.setdefault(key, [])
            if not known or (known[-1].queues != queues and event.event_time_ms >= known[-1].from_ms):
                known.append(Route(event.event_time_ms, queues))
                del known[:-KEPT_ROUTES]

    def word_for(self, kind: str, event: Any) -> str | None:
        """Return known, unknown_queue or unknown_broker, for an event of the Kafka topic `kind`; None without a route.

        Clients follow a route late: any route that was in force within FOLLOW_MS before the event is accepted.
        """
        words = set()
        until_ms: float = math.inf
        for route in reversed(self._routes.get((event.cluster, event.topic), [])):
            if until_ms <= event.event_time_ms - FOLLOW_MS:
                break
            queues = route.queues.get(event.broker_name)
            if queues is None:
                words.add("unknown_broker")
            else:
                number = queues.read if kind == PULLS else queues.write
                words.add(KNOWN if event.queue_id < number else "unknown_queue")
            until_ms = route.from_ms
        return next((word for word in (KNOWN, "unknown_queue", "unknown_broker") if word in words), None)


class UsualRates:
    """Events per second of each source in the samples of this process."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], list[float]] = {}

    def usual(self, topic: str, cluster: str) -> float | None:
        """Return the median of the newest rates; None before ENOUGH_LOOKS."""
        rates = self._rates.get((topic, cluster), [])
        return median(rates) if len(rates) >= ENOUGH_LOOKS else None

    def learn(self, topic: str, rates: Mapping[str, float]) -> None:
        for cluster, rate in rates.items():
            if (topic, cluster) in self._rates or len(self._rates) < MOST_SOURCES:
                known = self._rates.setdefault((topic, cluster), [])
                known.append(rate)
                del known[:-KEPT_LOOKS]


def read(sample: Sample, routes: Routes, rates: UsualRates) -> Readings:
    """Return the rows of every suite of the sample's topic, and add its rates to the usual ones."""
    topic = sample.topic
    events, *elements = suites_of(topic)
    readings: Readings = {suite.name: [] for suite in (events, *elements)}
    valid: list[tuple[Row, Any, bytes]] = []
    for message in sample.messages:
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
    for name in suite.schema.names:
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
