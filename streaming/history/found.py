"""Rows that were found, up to a limit, and whether there were more."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Found:
    """`is_cut` says that there are more than these."""

    rows: pa.RecordBatchReader
    is_cut: bool


def first_rows(reader: pa.RecordBatchReader, limit: int | None) -> Found:
    """The first `limit` rows, read at once; all of them, as they come, without a limit."""
    if limit is None:
        return Found(reader, is_cut=False)
    batches = list(_until(reader, limit + 1))
    is_cut = sum(batch.num_rows for batch in batches) > limit
    table = pa.Table.from_batches(batches, reader.schema).slice(0, limit)
    return Found(table.to_reader(), is_cut)


def records_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Its rows as dicts; times are aware datetimes, UTC.

    `to_pylist` of times would import pandas, which takes longer than most questions.
    """
    names = batch.schema.names
    for values in zip(*map(values_of, batch.columns), strict=True):
        yield dict(zip(names, values, strict=True))


def values_of(column: pa.Array) -> list[Any]:
    """As `to_pylist`, without pandas."""
    if not pa.types.is_timestamp(column.type) or column.type.unit != "us" or column.type.tz is None:
        values: list[Any] = column.to_pylist()
        return values
    return [None if us is None else _EPOCH + timedelta(microseconds=us) for us in column.view(pa.int64()).to_pylist()]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _until(reader: pa.RecordBatchReader, rows: int) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return
