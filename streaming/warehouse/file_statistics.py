"""What Delta keeps of a data file beside its name: how many rows, and each column's least, greatest and nulls.

Readers skip files by it, so each bound must hold for every value: a column without a bound is never skipped by.
Source: Delta's PROTOCOL.md, "Per-file Statistics".
"""

import json
import math
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 64
"""Characters of a string that may be a bound."""

_MS = timedelta(milliseconds=1)


def statistics_of(rows: pa.Table) -> str:
    """The JSON text of an add action's `stats`. Of booleans, bytes and lists only the nulls are told."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        nulls[name] = column.null_count
        if column.null_count < len(column) and _is_ordered(column.type):
            bounds = pc.min_max(column).as_py()
            put = _bounds(bounds["min"], bounds["max"], column)
            if put is not None:
                least[name], greatest[name] = put
    return json.dumps(
        {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _is_ordered(type_: pa.DataType) -> bool:
    types = pa.types
    is_number = types.is_integer(type_) or types.is_floating(type_)
    return bool(is_number or types.is_string(type_) or types.is_timestamp(type_))


def _bounds(least: Any, greatest: Any, column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """None where a bound cannot be written so that it holds."""
    if isinstance(least, str):
        return (least, greatest) if max(len(least), len(greatest)) <= LONGEST else None
    if isinstance(least, float):
        is_plain = math.isfinite(least) and math.isfinite(greatest) and not pc.any(pc.is_nan(column)).as_py()
        return (least, greatest) if is_plain else None
    if isinstance(least, datetime):  # Delta keeps milliseconds: the least goes down, the greatest up
        down, up = (_whole_ms(least), _whole_ms(greatest))
        return _text(down), _text(up if up == greatest else up + _MS)
    return least, greatest


def _whole_ms(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
