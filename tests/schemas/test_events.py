"""Every field of every event says what it is."""

from collections.abc import Iterator

from pyspark.sql import types as T

from schemas.events import EVENTS, KEYS, key_of
from schemas.fields import NEVER
from tests.offenders import assert_none

METADATA = {"comment", "unit", "null"}
BOUNDS = {"minimum", "maximum", "is_name", "max_length", "max_items", "totals", "max_ahead_ms"}


def fields_of(type_: T.DataType, path: str) -> Iterator[tuple[str, T.StructField]]:
    """Every field of a struct and of the structs inside it, with its dotted name."""
    if isinstance(type_, T.ArrayType):
        yield from fields_of(type_.elementType, path)
    elif isinstance(type_, T.StructType):
        for field in type_.fields:
            name = f"{path}.{field.name}"
            yield name, field
            yield from fields_of(field.dataType, name)


FIELDS = [pair for topic, schema in EVENTS.items() for pair in fields_of(schema, topic)]


def test_a_field_has_a_comment_a_unit_and_what_null_means() -> None:
    assert_none(
        f"{name}: {field.metadata}"
        for name, field in FIELDS
        if not METADATA <= field.metadata.keys() <= METADATA | BOUNDS
        or not field.metadata["comment"]
        or not field.metadata["null"]
    )


def test_a_field_is_nullable_exactly_when_null_means_something() -> None:
    assert_none(
        f"{name}: nullable is {field.nullable}, null means {field.metadata['null']}"
        for name, field in FIELDS
        if field.nullable != (field.metadata["null"] != NEVER)
    )


def test_a_bound_is_of_the_type_it_bounds() -> None:
    kinds = {
        "minimum": T.IntegralType,
        "maximum": T.IntegralType,
        "max_ahead_ms": T.LongType,
        "is_name": T.StringType,
        "max_length": T.StringType,
        "max_items": T.ArrayType,
        "totals": T.ArrayType,
    }
    assert_none(
        f"{name}: {bound} of {field.dataType}"
        for name, field in FIELDS
        for bound in field.metadata.keys() & BOUNDS
        if not isinstance(field.dataType, kinds[bound])
    )


def test_every_list_and_every_count_has_an_upper_bound() -> None:
    """Texts have one that needs no word: NAME_CHARACTERS."""
    assert_none(
        name
        for name, field in FIELDS
        if (isinstance(field.dataType, T.ArrayType) and "max_items" not in field.metadata)
        or (isinstance(field.dataType, T.IntegerType) and "maximum" not in field.metadata)
    )


def test_a_list_holds_no_nulls() -> None:
    assert_none(
        name for name, field in FIELDS if isinstance(field.dataType, T.ArrayType) and field.dataType.containsNull
    )


def test_times_and_durations_name_their_unit() -> None:
    assert_none(
        f"{name}: {field.metadata['unit']}"
        for name, field in FIELDS
        if field.name.endswith("_ms") and not field.metadata["unit"].startswith("ms")
    )


def test_every_event_has_a_cluster_a_time_and_required_key_fields() -> None:
    assert_none(
        topic
        for topic, schema in EVENTS.items()
        if not isinstance(schema["event_time_ms"].dataType, T.LongType)
        or schema["event_time_ms"].nullable
        or KEYS[topic][0] != "cluster"
        or any(schema[name].nullable for name in KEYS[topic])
    )


def test_the_key_joins_its_fields_with_a_bar() -> None:
    assert key_of("rocketmq.heartbeats", {"cluster": "c", "client_id": "10.0.0.1@7", "x": 1}) == b"c|10.0.0.1@7"
    assert key_of("rocketmq.routes", {"cluster": "c", "topic": "订单"}) == "c|订单".encode()
    assert key_of("rocketmq.clock", {"cluster": "c"}) == b"c"
