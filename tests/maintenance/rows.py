"""Rows of any table for tests: what is required is filled with something, the rest is null."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from schemas.tables import TABLES, ColumnType, Table
from streaming.warehouse.appender import Appender
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path

NOW_MS = 1_789_000_000_000
DAY_MS = 86_400_000

Row = dict[str, Any]

FILLER: dict[ColumnType, Any] = {
    ColumnType.STRING: "x",
    ColumnType.LONG: 1,
    ColumnType.INTEGER: 1,
    ColumnType.BOOLEAN: True,
    ColumnType.DOUBLE: 1.0,
    ColumnType.BINARY: b"x",
    ColumnType.TIMESTAMP: NOW_MS,
    ColumnType.STRINGS: ["x"],
}


def row_of(table: Table, at_ms: int, **columns: Any) -> Row:
    """A row at a moment of the table's time."""
    required = {one.name: FILLER[one.type] for one in table.columns if one.is_required and one.name != "batch_id"}
    return {**required, table.time: at_ms, **columns}


def write(warehouse: Path, table: Table, rows: Sequence[Row], batch_id: int = 0) -> None:
    """One file, one commit."""
    path = table_path(warehouse, table.name)
    Appender(path, open_table(warehouse, table)).append(arrow_table(rows, table, batch_id))


def write_in_turn(warehouse: Path, table: Table, rows: Sequence[Row]) -> None:
    """As if each had been a batch of its own: the batch ids are 0, 1, ..."""
    batches = [arrow_table([row], table, batch_id) for batch_id, row in enumerate(rows)]
    write_deltalake(open_table(warehouse, table), pa.concat_tables(batches), mode="append")


def read(warehouse: Path, name: str) -> list[Row]:
    """All rows, times in epoch ms."""
    rows: list[Row] = DeltaTable(table_path(warehouse, name)).to_pyarrow_table().to_pylist()
    times = [one.name for one in TABLES[name].columns if one.type is ColumnType.TIMESTAMP]
    return [row | {time: round(row[time].timestamp() * 1000) for time in times if row[time]} for row in rows]
