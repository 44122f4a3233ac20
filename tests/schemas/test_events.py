"""Every field of every event says what it is."""

from collections.abc import Iterator

import pytest
from pyspark.sql import types as T

from schemas.events import EVENTS, KEYS, NEVER, key_of

METADATA = {"comment", "unit", "null", "minimum"}


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
each_field = pytest.mark.parametrize("field", [field for _, field in FIELDS], ids=[name for name, _ in FIELDS])


@each_field
def test_a_field_has_a_comment_a_unit_and_what_null_means(field: T.StructField) -> None:
    assert field.metadata.keys() >= METADATA - {"minimum"}
    assert field.metadata.keys() <= METADATA
    assert field.metadata["comment"]
    assert field.metadata["null"]


@each_field
def test_a_field_is_nullable_exactly_when_null_means_something(field: T.StructField) -> None:
    assert field.nullable == (field.metadata["null"] != NEVER)


@each_field
def test_only_whole_numbers_have_a_minimum(field: T.StructField) -> None:
    if "minimum" in field.metadata:
        assert isinstance(field.dataType, T.LongType | T.IntegerType)


@each_field
def test_a_list_holds_no_nulls(field: T.StructField) -> None:
    if isinstance(field.dataType, T.ArrayType):
        assert not field.dataType.containsNull


@each_field
def test_times_and_durations_name_their_unit(field: T.StructField) -> None:
    if field.name.endswith("_ms"):
        assert field.metadata["unit"].startswith("ms")


@pytest.mark.parametrize("topic", EVENTS)
def test_every_event_has_a_cluster_a_time_and_required_key_fields(topic: str) -> None:
    fields = {field.name: field for field in EVENTS[topic].fields}
    assert isinstance(fields["event_time_ms"].dataType, T.LongType)
    assert not fields["event_time_ms"].nullable
    assert KEYS[topic][0] == "cluster"
    assert all(not fields[name].nullable for name in KEYS[topic])


def test_the_key_joins_its_fields_with_a_bar() -> None:
    assert key_of("rocketmq.heartbeats", {"cluster": "c", "client_id": "10.0.0.1@7", "x": 1}) == b"c|10.0.0.1@7"
    assert key_of("rocketmq.routes", {"cluster": "c", "topic": "订单"}) == "c|订单".encode()
    assert key_of("rocketmq.clock", {"cluster": "c"}) == b"c"
