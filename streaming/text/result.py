"""Rows of a query, up to a limit, as Arrow and as Python values; objects in text columns."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Found:
    """The rows found. `is_cut`: the limit left out more."""

    rows: pa.RecordBatchReader
    is_cut: bool


def first_rows(reader: pa.RecordBatchReader, limit: int | None) -> Found:
    """Return the first `limit` rows, read at once; without a limit all rows, streamed."""
    if limit is None:
        return Found(reader, is_cut=False)
    batches, missing = [], limit + 1
    for batch in reader:
        batches.append(batch)
        missing -= batch.num_rows
        if missing <= 0:
            break
    table = pa.Table.from_batches(batches, reader.schema).slice(0, limit)
    return Found(table.to_reader(), is_cut=missing <= 0)


def records_of(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows as dicts; times are aware datetimes, UTC, or text where Python has no value for them.

    `to_pylist` of times would import pandas, which takes longer than most queries.
    """
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        for values in zip(*map(values_of, batch.columns), strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def values_of(column: pa.Array) -> list[Any]:
    """Return the values as `to_pylist` does, without pandas; a value that Python lacks, such as infinity, as text."""
    try:
        if not pa.types.is_timestamp(column.type) or column.type.unit != "us" or column.type.tz is None:
            values: list[Any] = column.to_pylist()
            return values
        micros = column.view(pa.int64()).to_pylist()
        return [None if us is None else _EPOCH + timedelta(microseconds=us) for us in micros]
    except (OverflowError, ValueError):
        if len(column) == 1:
            return [_text_of(column)]
        return [value for number in range(len(column)) for value in values_of(column.slice(number, 1))]


def parse_object(text: str | None) -> dict[str, Any]:
    """Return the object, or {} for any other text: an unreadable row must not hide the others."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def unique_names(schema: pa.Schema) -> pa.Schema:
    """Return the schema with duplicate names numbered: NAME, NAME_1, NAME_2."""
    names: list[str] = []
    for name in schema.names:
        others = (f"{name}_{number}" for number in count(1))
        names.append(name if name not in names else next(one for one in others if one not in {*names, *schema.names}))
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _text_of(column: pa.Array) -> str:
    """Return the text of a column's only value, which Python cannot hold."""
    if pa.types.is_timestamp(column.type):
        value = column.view(pa.int64())[0].as_py()
        if abs(value) == _NO_END:
            return "infinity" if value > 0 else "-infinity"
    return " ".join(column.to_string().strip("[]").split())


_NO_END = 2**63 - 1
"""DuckDB's infinite time; negative for -infinity."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
