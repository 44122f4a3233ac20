"""Every field of every event says what it is."""

from collections.abc import Iterator

from schemas import types as T
from schemas.events import EVENTS, KEYS, NEVER, key_of
from tests.support.offenders import assert_none

METADATA = {"comment", "unit", "null"}
BOUNDS = {
    "minimum": (T.IntegerType, T.LongType),
    "maximum": (T.IntegerType, T.LongType),
    "max_ahead_ms": T.LongType,
    "is_name": T.StringType,
    "max_length": T.StringType,
    "max_items": T.ArrayType,
    "totals": T.ArrayType,
}
"""Bound to the type that it bounds."""


def fields_of(type_: T.DataType, path: str) -> Iterator[tuple[str, T.StructField]]:
    """Every field of a struct and of the structs inside it, with its dotted name."""
    if isinstance(type_, T.ArrayType):
        yield from fields_of(type_.element_type, path)
    elif isinstance(type_, T.StructType):
        for field in type_.fields:
            name = f"{path}.{field.name}"
            yield name, field
            yield from fields_of(field.data_type, name)


FIELDS = [pair for topic, schema in EVENTS.items() for pair in fields_of(schema, topic)]


def faults_of(field: T.StructField) -> Iterator[str]:
    """Yield the faults of a field's metadata. Texts are exempt: NAME_CHARACTERS bounds them."""
    type_, metadata = field.data_type, field.metadata
    is_list = isinstance(type_, T.ArrayType)
    if not METADATA <= metadata.keys() <= METADATA | BOUNDS.keys() or not metadata["comment"] or not metadata["null"]:
        yield f"metadata {metadata}"
    if field.nullable != (metadata["null"] != NEVER):
        yield f"nullable is {field.nullable}, null means {metadata['null']}"
    for bound in metadata.keys() & BOUNDS.keys():
        if not isinstance(type_, BOUNDS[bound]):
            yield f"{bound} of {type_}"
    if (is_list and "max_items" not in metadata) or (isinstance(type_, T.IntegerType) and "maximum" not in metadata):
        yield "no upper bound"
    if field.name.endswith("_ms") and not metadata["unit"].startswith("ms"):
        yield f"unit {metadata['unit']}"


def test_a_field_has_a_comment_a_unit_the_meaning_of_null_and_bounds_of_its_type() -> None:
    assert_none(f"{name}: {fault}" for name, field in FIELDS for fault in faults_of(field))


def test_every_event_has_a_cluster_a_time_and_required_key_fields() -> None:
    assert_none(
        topic
        for topic, schema in EVENTS.items()
        if not isinstance(schema["event_time_ms"].data_type, T.LongType)
        or schema["event_time_ms"].nullable
        or KEYS[topic][0] != "cluster"
        or any(schema[name].nullable for name in KEYS[topic])
    )


def test_the_key_joins_its_fields_with_a_bar() -> None:
    assert key_of("rocketmq.heartbeats", {"cluster": "c", "client_id": "10.0.0.1@7", "x": 1}) == b"c|10.0.0.1@7"
    assert key_of("rocketmq.routes", {"cluster": "c", "topic": "订单"}) == "c|订单".encode()
    assert key_of("rocketmq.clock", {"cluster": "c"}) == b"c"
