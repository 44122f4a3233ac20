"""Every Delta table says what each column is, and what names a row's subject."""

from pathlib import Path

from schemas.tables import PROPERTIES, TABLES, ColumnType
from tests.support.offenders import assert_none

COLUMNS = [(f"{table.name}.{column.name}", column) for table in TABLES.values() for column in table.columns]
REQUIRED = Path(__file__).parents[1] / "golden" / "required_columns.txt"
TIMES = {"since", "start_timestamp", "ingest_time", "last_heartbeat"}
"""Columns that hold a time and whose names do not end in _at."""


def test_the_table_and_every_column_have_a_comment() -> None:
    assert_none(name for name, table in TABLES.items() if not table.comment)
    assert_none(name for name, column in COLUMNS if not column.comment)


def test_the_key_names_required_columns_or_times() -> None:
    required = {name for name, column in COLUMNS if column.is_required}
    assert_none({f"{table.name}.{name}" for table in TABLES.values() for name in table.key} - required)


def test_no_column_is_required_that_the_first_release_did_not_write() -> None:
    """Old files lack a new column, and older processes beside new ones append rows without it: it must be nullable.

    `required_columns.txt` holds the required columns of 0.1.0 and never grows.
    """
    golden = dict(line.split(": ") for line in REQUIRED.read_text().splitlines())
    assert_none(
        f"{table.name}.{column.name}"
        for table in TABLES.values()
        for column in table.columns
        if table.name in golden and column.is_required and column.name not in golden[table.name].split()
    )
    assert golden.keys() <= TABLES.keys()


def test_every_row_carries_its_batch() -> None:
    last = {name: table.columns[-1] for name, table in TABLES.items()}
    assert_none(
        f"{name} ends with {column}"
        for name, column in last.items()
        if (column.name, column.type, column.is_required) != ("batch_id", ColumnType.LONG, True)
    )


def test_times_are_timestamps_and_durations_are_longs() -> None:
    assert_none(
        f"{name}: {column.type}"
        for name, column in COLUMNS
        if (column.name.endswith("_at") or column.name in TIMES) and column.type is not ColumnType.TIMESTAMP
    )
    assert_none(
        f"{name}: {column.type}"
        for name, column in COLUMNS
        if column.name.endswith("_ms") and column.type is not ColumnType.LONG
    )


def test_any_delta_reader_can_open_the_tables() -> None:
    assert (PROPERTIES["delta.minReaderVersion"], PROPERTIES["delta.minWriterVersion"]) == ("1", "2")
