"""What both stateful operators put out: one binary value a table and shard, which `rows.unpack_rows` reads."""

from collections.abc import Iterator

import msgspec
from pyspark.sql import Row
from pyspark.sql import types as T

from streaming.warehouse.rows import Rows

OUTPUT = T.StructType([T.StructField("table", T.StringType()), T.StructField("rows", T.BinaryType())])

_encoder = msgspec.msgpack.Encoder()


def pack_rows(rows: Rows) -> Iterator[Row]:
    """One output row for each table that has any."""
    for table in sorted(rows):
        if rows[table]:
            yield Row(table=table, rows=_encoder.encode(rows[table]))
