"""Every Delta table says what each column is, and what names a row's subject."""

import pytest
from pyspark.sql import types as T

from schemas.tables import PROPERTIES, TABLES, Table

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@each_table
def test_the_table_and_every_column_have_a_comment(table: Table) -> None:
    assert table.comment
    assert all(field.metadata["comment"] for field in table.schema.fields)


@each_table
def test_the_key_names_required_columns_or_times(table: Table) -> None:
    columns = {field.name: field for field in table.schema.fields}
    assert all(not columns[name].nullable for name in table.key)


@each_table
def test_every_row_carries_its_batch(table: Table) -> None:
    last = table.schema.fields[-1]
    assert (last.name, last.dataType, last.nullable) == ("batch_id", T.LongType(), False)


@each_table
def test_times_are_timestamps_and_durations_are_longs(table: Table) -> None:
    for field in table.schema.fields:
        if field.name.endswith("_at") or field.name in {"since", "start_timestamp", "ingest_time", "last_heartbeat"}:
            assert isinstance(field.dataType, T.TimestampType)
        if field.name.endswith("_ms"):
            assert isinstance(field.dataType, T.LongType)


def test_tables_are_found_by_their_own_names() -> None:
    assert all(name == table.name for name, table in TABLES.items())


def test_any_delta_reader_can_open_the_tables() -> None:
    assert (PROPERTIES["delta.minReaderVersion"], PROPERTIES["delta.minWriterVersion"]) == ("1", "2")
