"""What makes a message bad: every reason, found by walking its StructType.

The streams decode with msgspec, which is fast and stops at the first fault; what it refuses comes here. The two
must accept the same messages, which a test holds.

Reasons are `code` or `code: field`; the codes are an interface:

    not_json        not one UTF-8 JSON object (NaN, lone surrogates and nesting over 32 levels included)
    too_large       over 1 MiB
    missing_field   a required field is absent or null
    wrong_type      a field of another type, or a number outside its type's range
    negative_value  below the field's minimum
    unknown_queue   a queue number that cannot be: below 0, or one the topic's route does not have
    time_ahead      event_time_ms more than a day after the message reached Kafka
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from pyspark.sql import types as T

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_AHEAD_MS = 86_400_000

CODES = (
    "not_json",
    "too_large",
    "missing_field",
    "wrong_type",
    "negative_value",
    "unknown_queue",
    "time_ahead",
)


def find_reasons(value: bytes | None, schema: T.StructType, ingest_time_ms: int) -> list[str]:
    """Every reason why `value` is not an event of `schema`; empty for a good one.

    `ingest_time_ms` is the Kafka record's timestamp: a replay then judges as the first run did.
    """
    if value is None:
        return ["not_json"]
    if len(value) > MAX_BYTES:
        return ["too_large"]
    try:
        event = parse_object(value)
    except ValueError:
        return ["not_json"]
    reasons = list(_faults_of_struct(event, schema, ""))
    event_time_ms = event.get("event_time_ms")
    if isinstance(event_time_ms, int) and is_time_ahead(event_time_ms, ingest_time_ms):
        reasons.append("time_ahead: event_time_ms")
    return reasons


def is_time_ahead(event_time_ms: int, ingest_time_ms: int) -> bool:
    """More than a day after the message reached Kafka: a broken clock, not an early event."""
    return event_time_ms > ingest_time_ms + MAX_AHEAD_MS


def parse_object(value: bytes) -> "_Object":
    """One JSON object by RFC 8259, at most MAX_DEPTH deep. Raises ValueError for anything else."""
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


def _faults_of_struct(event: _Object, schema: T.StructType, path: str) -> Iterator[str]:
    for field in schema.fields:
        name = path + field.name
        for value in event.values_of(field.name):
            if value is not None:
                yield from _faults_of_value(value, field.dataType, name)
                minimum = field.metadata.get("minimum")
                if minimum is not None and _is_integer(value, 64) and value < minimum:
                    yield f"{'unknown_queue' if field.name == 'queue_id' else 'negative_value'}: {name}"
            elif not field.nullable:
                yield f"missing_field: {name}"


def _faults_of_value(value: Any, type_: T.DataType, name: str) -> Iterator[str]:
    if isinstance(type_, T.ArrayType):
        if not isinstance(value, list):
            yield f"wrong_type: {name}"
            return
        for index, element in enumerate(value):
            yield from _faults_of_value(element, type_.elementType, f"{name}[{index}]")
    elif isinstance(type_, T.StructType):
        if isinstance(value, _Object):
            yield from _faults_of_struct(value, type_, name + ".")
        else:
            yield f"wrong_type: {name}"
    elif not _has_type(value, type_):
        yield f"wrong_type: {name}"


def _has_type(value: Any, type_: T.DataType) -> bool:
    if isinstance(type_, T.StringType):
        return isinstance(value, str)
    if isinstance(type_, T.BooleanType):
        return isinstance(value, bool)
    return _is_integer(value, 32 if isinstance(type_, T.IntegerType) else 64)


def _is_integer(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1
