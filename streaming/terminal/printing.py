"""Rows for people and machines: tables that fit the terminal, JSON, CSV, Parquet.

JSON, CSV and Parquet are streamed: a long history needs no memory.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from streaming.text.console import WIDE, VisibleConsole
from streaming.text.output import bytes_out, say, write_csv, write_json_text
from streaming.text.result import records_of
from streaming.text.times import iso, span, time_text, to_ms

STATE_STYLES = {
    "FIRING": "bold red",
    "RESOLVED": "green",
    "PENDING": "yellow",
    "RECOVERING": "cyan",
    "UNKNOWN": "magenta",
    "UNOWNED": "bold red",
    "NOT_CONSUMED": "bold red",
    "DOUBLE_CONSUMED": "bold yellow",
    "MISPLACED": "yellow",
    "unavailable": "bold red",
    "REFUSED": "bold red",
    "RETRYING": "yellow",
    "FAILING": "bold red",
    "LATE": "bold red",
    "STALE": "bold red",
    "NO_DATA": "bold red",
    "AVOIDED": "yellow",
}

Row = Mapping[str, Any]
Records = Sequence[Row]
UNCUT = {"severity", "state", "kind", "since", "id"}
"""Headings of columns that `print_lines` does not cut."""

LOCAL = ", local"
"""End of the heading of a column of local times."""

Layout = Mapping[str, Callable[[Row], str | Text]]
"""A table for people: heading to the function that makes a row's cell."""


def print_answer(
    found: pa.RecordBatchReader,
    format_: str,
    show: Callable[[Records], None],
    nothing: str,
    present: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> int:
    """Print rows to stdout in one of format_option.FORMATS and return their number.

    `show` prints a table; `nothing` is the sentence without a row. `present` converts rows for JSON and CSV (default:
    `plain`); Parquet keeps the columns.
    """
    if format_ == "parquet":
        return _print_parquet(found)
    rows = chain.from_iterable(records_of(batch) for batch in found)
    if format_ in ("table", "wide"):
        return print_rows(list(rows), format_, nothing, show)
    presented = map(present or plain, rows)
    return _print_json(presented) if format_ == "json" else write_csv(found.schema.names, map(_cells, presented))


def print_rows(
    rows: Records,
    format_: str,
    nothing: str = "",
    show: Callable[[Records], None] | None = None,
    names: Sequence[str] = (),
) -> int:
    """Print rows with the same columns in one of format_option.FORMATS and return their number.

    `show` prints the table; by default it has all columns. `nothing` is the sentence without a row, `names` the head of
    CSV without one.
    """
    if format_ == "json":
        return _print_json(rows)
    if format_ == "parquet":
        return _print_parquet(pa.Table.from_pylist([dict(row) for row in rows]).to_reader())
    if format_ == "csv":
        return write_csv(list(rows[0]) if rows else names, map(_cells, rows))
    if not rows:
        say(nothing)
    elif format_ == "wide":
        print_lines([plain(row) for row in rows], {name: _cell_of(name) for name in rows[0]}, is_wide=True)
    elif show is not None:
        show(rows)
    else:
        print_table(rows, {name.replace("_", " "): _cell_of(name) for name in rows[0]})
    return len(rows)


def print_table(rows: Records, layout: Layout, *, show_lines: bool = False) -> None:
    """Print a table, or a block for each record where the terminal is too narrow.

    A column of local times that equal UTC is omitted.
    """
    layout = {
        heading: cell
        for heading, cell in layout.items()
        if not heading.endswith(LOCAL) or any(cell(row) for row in rows)
    }
    _fill(Table(show_lines=show_lines), rows, layout, VisibleConsole())


def print_lines(rows: Records, layout: Layout, *, is_wide: bool = False) -> None:
    """Print a line per row without empty columns, cut to fit a terminal. `is_wide` cuts and omits none."""
    filled = {heading: cell for heading, cell in layout.items() if is_wide or any(cell(row) for row in rows)}
    _fill(Table(box=None), rows, filled, VisibleConsole(width=WIDE) if is_wide else VisibleConsole())


def _fill(table: Table, rows: Records, layout: Layout, console: VisibleConsole) -> None:
    for heading in layout:
        table.add_column(heading, no_wrap=heading in UNCUT)
    for row in rows:
        cells = (cell(row) for cell in layout.values())
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    console.print(table)


def print_columns(rows: Records) -> None:
    print_table([plain(row) for row in rows], {name: _cell_of(name) for name in rows[0]})


def styled_state(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, ""))


def time_columns(column: str, name: str | None = None) -> dict[str, Callable[[Row], str | Text]]:
    """Return the columns of a time: in UTC, and with its zone, which daylight saving changes, where it differs."""
    heading = name or column.replace("_", " ")
    return {
        f"{heading}, UTC": lambda row: time_text(to_ms(row[column])).removesuffix(" UTC") if row[column] else "",
        f"{heading}{LOCAL}": lambda row: "".join(_local(row[column])) if row[column] else "",
    }


def layout_of(columns: Mapping[str, str]) -> Layout:
    """Return the layout of columns by heading; states are styled."""
    return {heading: _state_of(name) if heading == "state" else _cell_of(name) for heading, name in columns.items()}


def _state_of(name: str) -> Callable[[Row], Text]:
    return lambda row: styled_state(row[name])


def age(time: datetime | str, now_ms: int) -> str:
    """Return the time since then without blanks: 45s, 12min, 3h20min, 2d4h."""
    return span(now_ms - to_ms(datetime.fromisoformat(time) if isinstance(time, str) else time)).replace(" ", "")


def plain(row: Row) -> dict[str, Any]:
    """Return the row with times as ISO 8601 and bytes as text."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo else value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def print_json_line(row: Row) -> None:
    """Print the row as JSON in one line, at once."""
    write_json_text(json.dumps(_finite(row), default=_plain_text, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _print_json(rows: Iterable[Row]) -> int:
    count = 0
    for count, row in enumerate(rows, 1):
        text = json.dumps(_finite(row), indent=2, default=_plain_text, ensure_ascii=False)
        write_json_text(("[\n" if count == 1 else ",\n") + "  " + text.replace("\n", "\n  "))
    write_json_text("\n]\n" if count else "[]\n")
    return count


def _plain_text(value: Any) -> str:
    return str(_plain(value))


def _finite(value: Any) -> Any:
    """Return the value with null for NaN and infinity, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _cells(row: Row) -> dict[str, str]:
    return {name: _cell(value) for name, value in row.items()}


def _print_parquet(found: pa.RecordBatchReader) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415  # takes 0.1 s, needed here only

    count = 0
    with pq.ParquetWriter(pa.PythonFile(bytes_out(), mode="w"), found.schema) as writer:
        for batch in found:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _cell_of(name: str) -> Callable[[Row], str]:
    return lambda row: _cell(row[name])


def show_alerts(alerts: Records) -> None:
    """Print a table of alerts, as `present_alert` makes them, with the fix of those that fire."""
    table = Table(show_lines=True)
    table.add_column("alert")
    table.add_column("incident, what, why, and what to do")
    for row in alerts:
        time = "\n".join([str(row["changed_at"])[:19].replace("T", " ") + " UTC", *_local(row["changed_at"])])
        fix = f"\nFix: {row['advice']}" if row["state"] == "FIRING" else ""
        why = f"\nDoes not page: inhibited by {row['inhibited_by']}." if row["inhibited_by"] else ""
        head = [styled_state(row["state"]), *map(Text, (row["severity"], row["kind"], time))]
        table.add_row(Text("\n").join(head), Text(f"{row['incident_id']}\n{row['summary']}{why}{fix}"))
    VisibleConsole().print(table)


def _local(time: datetime | str) -> list[str]:
    """Return the time in the local zone where it differs from UTC."""
    local = (datetime.fromisoformat(time) if isinstance(time, str) else time).astimezone()
    return [local.strftime("%H:%M:%S %Z")] if local.utcoffset() else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True, default=_plain_text) if isinstance(value, dict) else str(value)
