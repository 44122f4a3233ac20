"""Messages as rows for expectations, well-formed or not; with the newest routes and usual rates as their reference.

Each row has `partition` and `offset` and the columns of its suite (schemas/suites.py). A field of another type than its
contract's is null in its own column; `found_<field>` has the word for the value instead: absent, string,
boolean, integer, too_wide, number (a fraction), empty (a name), too_long, list, too_many, list_of_others or object. A
message that is no JSON object has only its `contract` column.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from pyspark.sql import types as T

from schemas.contract import MAX_BYTES, parse_object
from schemas.decode import decode
from schemas.events import EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.fields import NAME_CHARACTERS
from schemas.suites import ABSENT, KEPT, KNOWN, suites_of, word_of
from streaming.quality.sample import Message, Sample

Row = dict[str, Any]
Readings = dict[str, list[Row]]
"""Suite name to its rows."""

Good = list[tuple[Row, Any, bytes]]
"""The rows of messages that keep their contract, with the event and its bytes."""

ENOUGH_EVENTS, ENOUGH_MS = 20, 1_000
"""Least number of events, and duration, for a rate."""

MOST = 2**63 - 1

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
            words.add(_queue_word(kind, route.queues.get(event.broker_name), event.queue_id))
            until_ms = route.from_ms
        return next((word for word in (KNOWN, "unknown_queue", "unknown_broker") if word in words), None)


def _queue_word(kind: str, queues: Queues | None, queue_id: int) -> str:
    if queues is None:
        return "unknown_broker"
    return KNOWN if queue_id < (queues.read if kind == PULLS else queues.write) else "unknown_queue"


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
    events, *elements = suites_of(sample.topic)
    readings: Readings = {suite.name: [] for suite in (events, *elements)}
    good: Good = []
    for message in sample.messages:
        place = {"partition": message.partition, "offset": message.offset}
        kept, reasons = (None, ["too_large"]) if message.size > MAX_BYTES else _decode(message)
        row: Row = place | {"contract": reasons[0].partition(":")[0] if reasons else KEPT}
        readings[events.name].append(row)
        content = _parse(message)
        if content is not None:
            row |= _fields(content, EVENTS[sample.topic])
            row |= _times(row["event_time_ms"], message.ingest_time_ms)
            for suite in elements:
                readings[suite.name] += (place | _fields(one, suite.schema) for one in _elements(content, suite.lists))
        if kept is not None and message.value is not None:
            good.append((row, kept, message.value))
    _add_rules(sample.topic, good, routes, rates)
    return readings


def _decode(message: Message) -> tuple[Any, list[str]]:
    return decode(message.topic, message.value, message.ingest_time_ms)


def _parse(message: Message) -> Any:
    """Return the JSON object, or None."""
    if message.value is None or message.size > MAX_BYTES:
        return None
    try:
        return parse_object(message.value)
    except ValueError:
        return None


def _fields(content: Any, schema: T.StructType) -> Row:
    """Return each field's word, and its value if the type is right. Of a repeated field, the worst value counts."""
    row: Row = {}
    for field in schema.fields:
        right = {word_of(field.dataType)} | ({ABSENT} if field.nullable else set())
        word, value = ABSENT, None
        for value in content.values_of(field.name):
            word = _word(value, field.dataType, field.metadata)
            if word not in right or (word == "integer" and not _is_within(value, field.metadata)):
                break
        row[f"found_{field.name}"] = word
        if not isinstance(field.dataType, T.ArrayType):
            row[field.name] = value if word == word_of(field.dataType) else None
    return row


def _is_within(value: int, bounds: Mapping[str, Any]) -> bool:
    return bool(bounds.get("minimum", value) <= value <= bounds.get("maximum", value))


def _word(value: Any, type_: T.DataType, bounds: Mapping[str, Any]) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        bits = 31 if isinstance(type_, T.IntegerType) else 63
        return "integer" if -(1 << bits) <= value < 1 << bits else "too_wide"
    if isinstance(value, list):
        return _word_of_list(value, type_, bounds)
    if isinstance(value, str) and isinstance(type_, T.StringType):
        is_long = len(value) > bounds.get("max_length", NAME_CHARACTERS)
        return "too_long" if is_long else "empty" if not value and bounds.get("is_name") else "string"
    return "string" if isinstance(value, str) else "number" if isinstance(value, float) else "object"


def _word_of_list(value: list[Any], type_: T.DataType, bounds: Mapping[str, Any]) -> str:
    if isinstance(type_, T.ArrayType) and len(value) > bounds.get("max_items", len(value)):
        return "too_many"
    return "list" if isinstance(type_, T.ArrayType) and _has_type(value, type_) else "list_of_others"


def _has_type(elements: Sequence[Any], type_: T.ArrayType) -> bool:
    if isinstance(type_.elementType, T.StructType):
        return all(hasattr(element, "values_of") for element in elements)
    return all(_word(element, type_.elementType, {}) == word_of(type_.elementType) for element in elements)


def _elements(content: Any, lists: Sequence[str]) -> Iterator[Any]:
    """Yield the objects at the end of a path through lists; other values on it are skipped."""
    if not lists:
        yield content
        return
    for value in content.values_of(lists[0]):
        for element in value if isinstance(value, list) else ():
            if hasattr(element, "values_of"):
                yield from _elements(element, lists[1:])


def _times(event_time_ms: int | None, ingest_time_ms: int) -> Row:
    if event_time_ms is None:
        return {}
    ahead_ms = event_time_ms - ingest_time_ms
    return {"ahead_ms": _whole(ahead_ms), "behind_ms": _whole(-ahead_ms)}


def _whole(number: int) -> int:
    """Return the number within 0 and the maximum of Int64: an event may have any time."""
    return max(0, min(number, MOST))


def _add_rules(topic: str, good: Good, routes: Routes, rates: UsualRates) -> None:
    copies: Counter[bytes] = Counter()
    last_ms: dict[tuple[str, ...], int] = {}
    for row, event, value in good:
        row["copies"] = copies[value]
        copies[value] += 1
        if topic in (PULLS, SEND_LATENCIES):
            row["queue"] = routes.word_for(topic, event)
        if topic == HEARTBEATS:
            channel = (event.cluster, event.broker_name, event.client_id, event.client_addr)
            before_ms = last_ms.get(channel)
            if before_ms is not None and event.event_time_ms >= before_ms:
                row["since_last_ms"] = _whole(event.event_time_ms - before_ms)
            last_ms[channel] = max(event.event_time_ms, before_ms or 0)
    if topic in (HEARTBEATS, PULLS, SEND_LATENCIES):
        by_cluster = _per_second([((event.cluster,), event.event_time_ms) for _, event, _ in good])
        for row, event, _ in good:
            rate, usual = by_cluster.get((event.cluster,)), rates.usual(topic, event.cluster)
            row["rate_percent"] = None if rate is None or not usual else _whole(round(100 * rate / usual))
        rates.learn(topic, {cluster: rate for (cluster,), rate in by_cluster.items()})
    if topic == SEND_LATENCIES:
        by_client = _per_second([((event.cluster, event.client_id), event.event_time_ms) for _, event, _ in good])
        for row, event, _ in good:
            rate = by_client.get((event.cluster, event.client_id))
            row["source_per_second"] = None if rate is None else round(rate)


def _per_second(events: Sequence[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], float]:
    """Return the events per second of each source from its first to its last event, if these are enough."""
    times: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for source, time_ms in events:
        times[source].append(time_ms)
    spans = {source: max(of_source) - min(of_source) for source, of_source in times.items()}
    return {
        source: 1000 * len(of_source) / spans[source]
        for source, of_source in times.items()
        if len(of_source) >= ENOUGH_EVENTS and spans[source] >= ENOUGH_MS
    }
