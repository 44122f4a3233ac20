"""The tables' columns as Spark knows them: apart, because importing pyspark takes longer than reading a table."""

from collections.abc import Iterable

from pyspark.sql import types as T

from schemas.tables import Column, ColumnType

_SPARK: dict[ColumnType, T.DataType] = {
    ColumnType.STRING: T.StringType(),
    ColumnType.LONG: T.LongType(),
    ColumnType.INTEGER: T.IntegerType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BINARY: T.BinaryType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
    ColumnType.STRINGS: T.ArrayType(T.StringType()),
}


def struct_of(columns: Iterable[Column]) -> T.StructType:
    """Names, types and comments of the columns, in their order."""
    return T.StructType(
        [T.StructField(one.name, _SPARK[one.type], not one.is_required, {"comment": one.comment}) for one in columns]
    )
