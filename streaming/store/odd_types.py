"""Columns of types that Arrow, Parquet or Python have no value for, as DuckDB's own text."""

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from streaming.text.result import unique_names

_ODD = {"interval", "union", "variant", "bignum", "uhugeint", "bit", "geometry", "type", "time with time zone"}
_NESTED = {"list", "array", "struct", "map", "tuple"}


def with_text(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The same answer, whole columns that have any such value in them as text."""
    are_odd = [_is_odd(one) for one in answer.types]
    if not any(are_odd):
        return answer
    names = unique_names(pa.schema([pa.field(name, pa.null()) for name in answer.columns])).names
    columns = (
        f"#{number}{'::VARCHAR' if is_odd else ''} AS {_quoted(name)}"
        for number, (name, is_odd) in enumerate(zip(names, are_odd, strict=True), 1)
    )
    return answer.project(", ".join(columns))


def _is_odd(one: DuckDBPyType) -> bool:
    if one.id not in _NESTED:
        return one.id in _ODD
    parts = [part for _, part in one.children if isinstance(part, DuckDBPyType)]
    return not parts or any(map(_is_odd, parts))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
