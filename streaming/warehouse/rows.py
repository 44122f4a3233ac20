"""Rows on their way from an operator to their Delta tables: msgpack of dicts, then Arrow columns.

A row is a dict of column → value; times are epoch ms until they are Arrow's.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from schemas.tables import ColumnType, Table

Rows = dict[str, list[dict[str, Any]]]
"""Table name to rows."""

LAST_MS = 253_402_300_799_000
"""The end of 9999: what readers of the tables take as a time at all."""

_decoder = msgspec.msgpack.Decoder(list[dict[str, Any]])


def unpack_rows(output: pa.Table) -> Rows:
    unpacked: Rows = {}
    for table, packed in zip(output["table"].to_pylist(), output["rows"].to_pylist(), strict=True):
        unpacked.setdefault(table, []).extend(_decoder.decode(packed))
    return unpacked


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a Delta table's contract, comments included."""
    return pa.schema(
        [
            pa.field(one.name, ARROW[one.type], nullable=not one.is_required, metadata={"comment": one.comment})
            for one in table.columns
        ]
    )


def arrow_table(rows: Iterable[dict[str, Any]], table: Table, batch_id: int) -> pa.Table:
    """Rows as the table's columns, with `batch_id`; epoch ms become timestamps. Missing columns are null."""
    times = [column.name for column in table.columns if column.type is ColumnType.TIMESTAMP]
    records = []
    for row in rows:
        record = {**row, "batch_id": batch_id}
        for name in times:
            if (value := row.get(name)) is not None:
                record[name] = min(max(value, 0), LAST_MS) * 1000
        records.append(record)
    return pa.Table.from_pylist(records, schema=arrow_schema(table))


ARROW = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.INTEGER: pa.int32(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ColumnType.STRINGS: pa.list_(pa.string()),
}
