"""Every Delta table says what each column is, and what names a row's subject."""

from pyspark.sql import types as T

from schemas.tables import PROPERTIES, TABLES
from tests.offenders import assert_none

FIELDS = [(f"{table.name}.{field.name}", field) for table in TABLES.values() for field in table.schema.fields]
TIMES = {"since", "start_timestamp", "ingest_time", "last_heartbeat"}
"""Columns that hold a time and whose names do not end in _at."""


def test_the_table_and_every_column_have_a_comment() -> None:
    assert_none(name for name, table in TABLES.items() if not table.comment)
    assert_none(name for name, field in FIELDS if not field.metadata["comment"])


def test_the_key_names_required_columns_or_times() -> None:
    assert_none(
        f"{table.name}.{name}" for table in TABLES.values() for name in table.key if table.schema[name].nullable
    )


def test_every_row_carries_its_batch() -> None:
    last = {name: table.schema.fields[-1] for name, table in TABLES.items()}
    assert_none(
        f"{name} ends with {field}"
        for name, field in last.items()
        if (field.name, field.dataType, field.nullable) != ("batch_id", T.LongType(), False)
    )


def test_times_are_timestamps_and_durations_are_longs() -> None:
    assert_none(
        f"{name}: {field.dataType}"
        for name, field in FIELDS
        if (field.name.endswith("_at") or field.name in TIMES) and not isinstance(field.dataType, T.TimestampType)
    )
    assert_none(
        f"{name}: {field.dataType}"
        for name, field in FIELDS
        if field.name.endswith("_ms") and not isinstance(field.dataType, T.LongType)
    )


def test_tables_are_found_by_their_own_names() -> None:
    assert all(name == table.name for name, table in TABLES.items())


def test_any_delta_reader_can_open_the_tables() -> None:
    assert (PROPERTIES["delta.minReaderVersion"], PROPERTIES["delta.minWriterVersion"]) == ("1", "2")
