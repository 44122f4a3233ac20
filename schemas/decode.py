"""Events as msgspec structs, made from their StructTypes: one decode checks and reads a message.

msgspec.json.Decoder takes about a microsecond for a pull and refuses what contract.find_reasons refuses.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from schemas import types as T
from schemas.contract import MAX_BYTES, MAX_DEPTH, find_reasons, has_many_nodes, max_ahead_ms, totals_of
from schemas.events import EVENTS, NAME_CHARACTERS

_BITS: dict[type[T.DataType], int] = {T.IntegerType: 31, T.LongType: 63}


def _python_type(type_: T.DataType, name: str, bounds: Mapping[str, Any], only_listed: bool = False) -> Any:
    if isinstance(type_, T.ArrayType):
        element = _python_type(type_.element_type, name, {}, only_listed)
        return Annotated[list[element], msgspec.Meta(max_length=bounds.get("max_items"))]  # type: ignore[valid-type]  # a type made at run time
    if isinstance(type_, T.StructType):
        return struct_of(type_, name, only_listed=only_listed)
    if isinstance(type_, T.BooleanType):
        return bool
    if isinstance(type_, T.StringType):
        least = 1 if bounds.get("is_name") else None
        return Annotated[str, msgspec.Meta(min_length=least, max_length=bounds.get("max_length", NAME_CHARACTERS))]
    most = 1 << _BITS[type(type_)]
    return Annotated[int, msgspec.Meta(ge=bounds.get("minimum", -most), le=bounds.get("maximum", most - 1))]


def struct_of(schema: T.StructType, name: str, *, only_listed: bool = False) -> type[msgspec.Struct]:
    """A frozen msgspec struct with the fields of `schema`; nullable ones default to None.

    Other fields are skipped unread, or with `only_listed` refused.
    """
    required, optional = [], []
    for field in schema.fields:
        type_ = _python_type(field.data_type, f"{name}_{field.name}", field.metadata, only_listed)
        if field.nullable:
            optional.append((field.name, type_ | None, None))
        else:
            required.append((field.name, type_))
    return msgspec.defstruct(
        name, [*required, *optional], frozen=True, gc=False, kw_only=True, forbid_unknown_fields=only_listed
    )


LISTED_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    topic: msgspec.json.Decoder(struct_of(schema, topic.replace(".", "_"), only_listed=True))
    for topic, schema in EVENTS.items()
}
"""Topic to a decoder that refuses unlisted fields too: what it accepts needs no further look but at its time."""

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    topic: msgspec.json.Decoder(struct_of(schema, topic.replace(".", "_"))) for topic, schema in EVENTS.items()
}
"""Topic to the decoder of its event."""


_MAX_AHEAD_MS = {topic: max_ahead_ms(schema) for topic, schema in EVENTS.items()}
_TOTALS = {topic: totals for topic, schema in EVENTS.items() if (totals := totals_of(schema))}


def decode(topic: str, value: bytes | None, ingest_time_ms: int) -> tuple[Any, list[str]]:
    """The event of a message and no reasons, or None and every reason it is bad.

    `ingest_time_ms` is the Kafka record's timestamp.
    """
    if value is not None and len(value) <= MAX_BYTES and not has_many_nodes(value):
        try:
            event = LISTED_DECODERS[topic].decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _decode_carefully(topic, value, ingest_time_ms)
        if _is_within(topic, event, ingest_time_ms):
            return event, []
    return None, find_reasons(value, EVENTS[topic], ingest_time_ms)


def _is_within(topic: str, event: Any, ingest_time_ms: int) -> bool:
    """Whether it keeps to the bounds that no single field has."""
    if event.event_time_ms > ingest_time_ms + _MAX_AHEAD_MS[topic]:
        return False
    totals = _TOTALS.get(topic)
    return totals is None or all(
        sum(getattr(one, name) for one in getattr(event, list_name)) <= most for list_name, name, most in totals
    )


def _decode_carefully(topic: str, value: bytes, ingest_time_ms: int) -> tuple[Any, list[str]]:
    """A message with unlisted fields, or a bad one."""
    try:
        event = DECODERS[topic].decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, find_reasons(value, EVENTS[topic], ingest_time_ms) or ["not_json"]
    if _has_plain_rest(value) and _is_within(topic, event, ingest_time_ms):
        return event, []
    reasons = find_reasons(value, EVENTS[topic], ingest_time_ms)
    return (None, reasons) if reasons else (event, [])


def _has_plain_rest(value: bytes) -> bool:
    """Whether the fields msgspec skips unread, unlisted ones, can hide neither bad UTF-8 nor deep nesting."""
    is_flat = b"[" not in value and value.rfind(b"{") == 0
    if not is_flat and value.count(b"[") + value.count(b"{") > MAX_DEPTH:
        return False
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
    return True
