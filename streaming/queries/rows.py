"""Rows for the Delta tables on their way out of an operator: one binary value a table and shard.

A value is msgpack of a list of rows, each a dict of column → value; times are epoch ms until they are written.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import types as T

Rows = dict[str, list[dict[str, Any]]]
"""Table name to rows."""

OUTPUT = T.StructType([T.StructField("table", T.StringType()), T.StructField("rows", T.BinaryType())])
"""What both stateful operators put out."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[dict[str, Any]])


def pack_rows(rows: Rows) -> Iterator[Row]:
    """One output row for each table that has any."""
    for table in sorted(rows):
        if rows[table]:
            yield Row(table=table, rows=_encoder.encode(rows[table]))


def unpack_rows(output: pa.Table) -> Rows:
    """All rows of a batch's output, by table."""
    unpacked: Rows = {}
    for table, packed in zip(output["table"].to_pylist(), output["rows"].to_pylist(), strict=True):
        unpacked.setdefault(table, []).extend(_decoder.decode(packed))
    return unpacked


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The Arrow schema of a Delta table's contract, comments included."""
    return pa.schema(
        [
            pa.field(
                field.name,
                _arrow_type(field.dataType),
                nullable=field.nullable,
                metadata={"comment": field.metadata["comment"]},
            )
            for field in schema.fields
        ]
    )


def arrow_table(rows: Iterable[dict[str, Any]], schema: T.StructType, batch_id: int) -> pa.Table:
    """Rows as the table's columns, with `batch_id`; epoch ms become timestamps. Missing columns are null."""
    times = [field.name for field in schema.fields if isinstance(field.dataType, T.TimestampType)]
    records = []
    for row in rows:
        record = {**row, "batch_id": batch_id}
        for name in times:
            if (value := row.get(name)) is not None:
                record[name] = value * 1000
        records.append(record)
    return pa.Table.from_pylist(records, schema=arrow_schema(schema))


_ARROW = {
    T.StringType: pa.string(),
    T.LongType: pa.int64(),
    T.IntegerType: pa.int32(),
    T.BooleanType: pa.bool_(),
    T.DoubleType: pa.float64(),
    T.BinaryType: pa.binary(),
    T.TimestampType: pa.timestamp("us", "UTC"),
}


def _arrow_type(type_: T.DataType) -> pa.DataType:
    if isinstance(type_, T.ArrayType):
        return pa.list_(_arrow_type(type_.elementType))
    return _ARROW[type(type_)]
