"""The reasons why a message breaks its contract, found by walking its StructType.

The streams decode with msgspec, which is fast and stops at the first error; refused messages come here. A test checks
that both accept the same messages.

Reasons are `code` or `code: field`; the codes are an interface.
"""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from schemas import types as T
from schemas.events import NAME_CHARACTERS

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_REASONS = 20
MAX_NODES = 50_000
"""Braces and brackets in a message."""

CODES = {
    "not_json": "not a UTF-8 JSON object (also NaN, lone surrogates, nesting over 32 levels)",
    "too_large": "over 1 MiB",
    "missing_field": "a required field is absent or null",
    "wrong_type": "a field of another type, or a number outside its type's range",
    "negative_value": "below the field's minimum",
    "over_maximum": "above the field's maximum, or the sum of a list's numbers is too large",
    "empty_name": "an empty name",
    "too_long": "a text with too many characters",
    "too_many": "a list with too many elements; a message with more than 50,000 braces and brackets",
    "unknown_queue": "an impossible queue number: below 0, or at least the most that a topic may have",
    "time_ahead": "event_time_ms more than a day after Kafka's timestamp; for a clock event a minute",
    "time_before": "event_time_ms before 2012: a clock that was never set",
    "more_reasons": "there are more than 20; the number of the others",
}


def find_reasons(value: bytes | None, schema: T.StructType, ingest_time_ms: int) -> list[str]:
    """Return why `value` is no event of `schema`, the first MAX_REASONS and the number of others; empty for a good one.

    `ingest_time_ms` is the Kafka record's timestamp: a replay then judges as the first run did.
    """
    if value is None:
        return ["not_json"]
    if len(value) > MAX_BYTES:
        return ["too_large"]
    if has_many_nodes(value):
        return ["too_many: braces and brackets"]
    try:
        event = parse_object(value)
    except ValueError:
        return ["not_json"]
    reasons = _faults_of_event(event, schema, ingest_time_ms)
    first = list(islice(reasons, MAX_REASONS))
    left_out = sum(1 for _ in reasons)
    return [*first, f"more_reasons: {left_out}"] if left_out else first


def has_many_nodes(value: bytes) -> bool:
    """Return whether there are more braces and brackets than any event has; those in texts count too."""
    return len(value) > MAX_NODES and value.count(b"{") + value.count(b"[") > MAX_NODES


def max_ahead_ms(schema: T.StructType) -> int:
    """Return by how much an event may be later than Kafka's time of it."""
    return int(schema["event_time_ms"].metadata["max_ahead_ms"])


def totals_of(schema: T.StructType) -> list[tuple[str, str, int]]:
    """Return (list of objects, number field of them, the largest sum of it)."""
    return [
        (field.name, name, most) for field in schema.fields for name, most in field.metadata.get("totals", {}).items()
    ]


def parse_object(value: bytes) -> "_Object":
    """Parse one JSON object by RFC 8259, at most MAX_DEPTH deep. Raises ValueError for anything else."""
    try:
        event = json.loads(
            value.decode(), parse_constant=_refuse_constant, parse_int=_read_integer, object_pairs_hook=_Object
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(event, _Object):
        raise ValueError("not an object")
    _check_strings_and_depth(event, MAX_DEPTH)
    return event


class _Object(dict[str, Any]):
    """A JSON object. The last of several equal keys counts, yet msgspec checks them all, so all are kept."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def values_of(self, name: str) -> list[Any]:
        """Every value given under this key; None alone when there is none."""
        return [value for key, value in self.pairs if key == name] or [None]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read_integer(text: str) -> int | float:
    return int(text) if len(text) < 64 else math.inf  # int() refuses over 4,300 digits, and no type is so wide


def _check_strings_and_depth(node: Any, levels: int) -> None:
    if isinstance(node, str):
        node.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    elif isinstance(node, _Object | list):
        if levels == 0:
            raise ValueError("nested too deep")
        children = [part for pair in node.pairs for part in pair] if isinstance(node, _Object) else node
        for child in children:
            _check_strings_and_depth(child, levels - 1)


def _faults_of_event(event: _Object, schema: T.StructType, ingest_time_ms: int) -> Iterator[str]:
    yield from _faults_of_struct(event, schema, "")
    event_time_ms = event.get("event_time_ms")
    if isinstance(event_time_ms, int) and event_time_ms > ingest_time_ms + max_ahead_ms(schema):
        yield "time_ahead: event_time_ms"
    for list_name, name, most in totals_of(schema):
        if any(_sum_of(value, name) > most for value in event.values_of(list_name)):
            yield f"over_maximum: {list_name}[].{name}"


def _sum_of(value: Any, name: str) -> int:
    """Of the good numbers of that name in a list of objects."""
    objects = [one for one in value if isinstance(one, _Object)] if isinstance(value, list) else []
    numbers = [one.get(name) for one in objects]
    return sum(number for number in numbers if isinstance(number, int) and _is_integer(number, 32))


def _faults_of_struct(event: _Object, schema: T.StructType, path: str) -> Iterator[str]:
    for field in schema.fields:
        name = path + field.name
        for value in event.values_of(field.name):
            if value is not None:
                yield from _faults_of_value(value, field.data_type, field.metadata, name)
            elif not field.nullable:
                yield f"missing_field: {name}"


def _faults_of_value(value: Any, type_: T.DataType, bounds: Mapping[str, Any], name: str) -> Iterator[str]:
    if isinstance(type_, T.ArrayType):
        if not isinstance(value, list):
            yield f"wrong_type: {name}"
        elif len(value) > bounds.get("max_items", len(value)):
            yield f"too_many: {name}"
        else:
            for index, element in enumerate(value):
                yield from _faults_of_value(element, type_.element_type, {}, f"{name}[{index}]")
    elif isinstance(type_, T.StructType):
        if isinstance(value, _Object):
            yield from _faults_of_struct(value, type_, name + ".")
        else:
            yield f"wrong_type: {name}"
    elif not _has_type(value, type_):
        yield f"wrong_type: {name}"
        if _is_integer(value, 64):
            yield from _faults_of_number(value, bounds, name)
    elif isinstance(value, str):
        yield from _faults_of_text(value, bounds, name)
    elif not isinstance(value, bool):
        yield from _faults_of_number(value, bounds, name)


def _faults_of_text(value: str, bounds: Mapping[str, Any], name: str) -> Iterator[str]:
    if len(value) > bounds.get("max_length", NAME_CHARACTERS):
        yield f"too_long: {name}"
    elif not value and bounds.get("is_name"):
        yield f"empty_name: {name}"


def _faults_of_number(value: int, bounds: Mapping[str, Any], name: str) -> Iterator[str]:
    field = name.rpartition(".")[2]
    if value < bounds.get("minimum", value):
        yield f"{_BELOW.get(field, 'negative_value')}: {name}"
    elif value > bounds.get("maximum", value):
        yield f"{_ABOVE.get(field, 'over_maximum')}: {name}"


_BELOW = {"queue_id": "unknown_queue", "event_time_ms": "time_before"}
_ABOVE = {"queue_id": "unknown_queue"}
"""Fields whose bounds have a separate code."""


def _has_type(value: Any, type_: T.DataType) -> bool:
    if isinstance(type_, T.StringType):
        return isinstance(value, str)
    if isinstance(type_, T.BooleanType):
        return isinstance(value, bool)
    return _is_integer(value, 32 if isinstance(type_, T.IntegerType) else 64)


def _is_integer(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1
