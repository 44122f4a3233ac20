"""Messages as rows that expectations can be asked of: whatever stands in them, well-formed or not.

Each row has `partition` and `offset` and the columns of its suite (schemas/suites.py). A field that is not what its
contract says is null in its own column; `found_<field>` has the word for what is there instead: absent, string,
boolean, integer, too_wide, number (a fraction), empty (a name), too_long, list, too_many, list_of_others or object. A
message that is no JSON object has only its `contract` column.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import types as T

from schemas.contract import MAX_BYTES, parse_object
from schemas.decode import decode
from schemas.events import EVENTS, HEARTBEATS, PULLS, SEND_LATENCIES
from schemas.fields import NAME_CHARACTERS
from schemas.suites import ABSENT, KEPT, suites_of, word_of
from streaming.quality.event_reference import Routes, UsualRates
from streaming.quality.sample import Message, Sample

Row = dict[str, Any]
Readings = dict[str, list[Row]]
"""Suite name to its rows."""

Good = list[tuple[Row, Any, bytes]]
"""The rows of messages that keep their contract, with the event and its bytes."""

ENOUGH_EVENTS, ENOUGH_MS = 20, 1_000
"""A rate is told from so many events on, over so long a time."""

MOST = 2**63 - 1


def read(sample: Sample, routes: Routes, rates: UsualRates) -> Readings:
    """The rows of every suite of the sample's topic. The rates that it shows are learnt."""
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
    """The JSON object, or None."""
    if message.value is None or message.size > MAX_BYTES:
        return None
    try:
        return parse_object(message.value)
    except ValueError:
        return None


def _fields(content: Any, schema: T.StructType) -> Row:
    """Of each field the word for what stands there, and its value where that is right. Of several, the worst."""
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
    """The objects at the end of a way through lists; what else stands on it is passed over."""
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
    """Between 0 and the most that an Int64 holds: an event may name any time."""
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
    """Events a second of each source, over its own first to last; of those only that show enough."""
    times: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for source, time_ms in events:
        times[source].append(time_ms)
    spans = {source: max(of_source) - min(of_source) for source, of_source in times.items()}
    return {
        source: 1000 * len(of_source) / spans[source]
        for source, of_source in times.items()
        if len(of_source) >= ENOUGH_EVENTS and spans[source] >= ENOUGH_MS
    }
