"""Rows for people and for machines: tables as wide as there is room, JSON, CSV, Parquet.

What machines get is written row by row as it is read, so that a long history needs no memory.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Any, Literal

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from streaming.text.console import VisibleConsole
from streaming.text.output import bytes_out, say, write_csv, write_json_text
from streaming.text.result import records_of
from streaming.text.times import iso, to_ms, to_time

Format = Literal["table", "json", "csv"]

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
}

Row = Mapping[str, Any]
Records = Sequence[Row]
Layout = Mapping[str, Callable[[Row], str | Text]]
"""A table for people: its headings, and what stands under each of a row."""


def print_answer(
    found: pa.RecordBatchReader,
    format_: str,
    show: Callable[[Records], None],
    nothing: str,
    present: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> int:
    """Print what was found to stdout, in one of asked.FORMATS; the number of rows.

    `show` is for people, and `nothing` what they read without a row. `present` makes of a row what JSON and CSV show,
    `plain` without it; Parquet has the columns as they are.
    """
    if format_ == "parquet":
        return _print_parquet(found)
    rows = chain.from_iterable(records_of(batch) for batch in found)
    if format_ == "table":
        shown = list(rows)
        if shown:
            show(shown)
        else:
            say(nothing)
        return len(shown)
    presented = map(present or plain, rows)
    return _print_json(presented) if format_ == "json" else write_csv(found.schema.names, map(_cells, presented))


def print_table(rows: Records, layout: Layout) -> None:
    """A table, or a block a record where there is no room for one.

    A column of local times is left out where each is the same in UTC.
    """
    layout = {
        heading: cell
        for heading, cell in layout.items()
        if not isinstance(cell, LocalTime) or any(cell(row) for row in rows)
    }
    table = Table()
    for heading in layout:
        table.add_column(heading)
    for row in rows:
        cells = (cell(row) for cell in layout.values())
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    VisibleConsole().print(table)


def print_columns(rows: Records) -> None:
    """Every column as it is named."""
    print_table([plain(row) for row in rows], {name: _cell_of(name) for name in rows[0]})


def styled_state(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=STATE_STYLES.get(state, ""))


def time_columns(column: str, name: str | None = None) -> dict[str, Callable[[Row], str | Text]]:
    """The part of a layout that tells a time: in UTC, and in the local zone where that is another then."""
    heading = name or column.replace("_", " ")
    return {f"{heading}, UTC": lambda row: _clock(row[column]), f"{heading}, local": LocalTime(column)}


@dataclass(frozen=True)
class LocalTime:
    """A cell: the local time with the zone's name of then, as seasons change both; "" where UTC is the local time."""

    column: str

    def __call__(self, row: Row) -> str:
        return "".join(_local(row[self.column])) if row[self.column] else ""


def _clock(time: datetime | None) -> str:
    return "" if time is None else to_time(to_ms(time)).strftime("%Y-%m-%d %H:%M:%S")


def plain(row: Row) -> dict[str, Any]:
    """Times as ISO 8601, bytes as text; the rest as it is."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo else value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _print_json(rows: Iterable[Row]) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # the number of the last one is the answer
        text = _json_of(row)
        write_json_text(("[\n" if count == 1 else ",\n") + "  " + text.replace("\n", "\n  "))
    write_json_text("\n]\n" if count else "[]\n")
    return count


def _json_of(row: Row) -> str:
    try:
        return json.dumps(row, indent=2, default=_plain_text, ensure_ascii=False, allow_nan=False)
    except ValueError:  # JSON has neither NaN nor an infinite number
        return json.dumps(_finite(row), indent=2, default=_plain_text, ensure_ascii=False)


def _plain_text(value: Any) -> str:
    return str(_plain(value))


def _finite(value: Any) -> Any:
    """The same with null for what is no number."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _cells(row: Row) -> dict[str, str]:
    return {name: _cell(value) for name, value in row.items()}


def _print_parquet(found: pa.RecordBatchReader) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415  # a tenth of a second that nobody else needs

    count = 0
    with pq.ParquetWriter(pa.PythonFile(bytes_out(), mode="w"), found.schema) as writer:
        for batch in found:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def print_alerts(alerts: Records, format_: Format) -> None:
    """Print alerts to stdout: for people what, when and what to do side by side, for machines every column."""
    if format_ != "table":
        print_records(alerts, format_)
    elif alerts:
        _print_alert_table(alerts)
    else:
        say("No alert matches.")


def print_rows(rows: Records, format_: Format, nothing: str) -> None:
    """Print rows that have the same columns; for people, a table, or `nothing` when there is none."""
    if format_ != "table":
        print_records(rows, format_)
    elif rows:
        print_table(rows, {name.replace("_", " "): _cell_of(name) for name in rows[0]})
    else:
        say(nothing)


def _cell_of(name: str) -> Callable[[Row], str]:
    return lambda row: _cell(row[name])


def print_records(rows: Records, format_: str, schema: pa.Schema | None = None) -> None:
    """Rows that have the same columns, whole, as JSON, CSV or Parquet; the last with the schema's types."""
    if format_ == "json":
        _print_json(rows)
    elif format_ == "parquet":
        _print_parquet(pa.Table.from_pylist([dict(row) for row in rows], schema).to_reader())
    else:
        write_csv(list(rows[0]) if rows else [], map(_cells, rows))


def _print_alert_table(alerts: Records) -> None:
    table = Table(show_lines=True)
    table.add_column("alert")
    table.add_column("what, why, and what to do")
    for row in alerts:
        state = Text(row["state"], style=STATE_STYLES.get(row["state"], ""))
        time_columns = "\n".join([str(row["changed_at"])[:19].replace("T", " ") + " UTC", *_local(row["changed_at"])])
        fix = f"\nFix: {row['advice']}" if row["state"] == "FIRING" else ""
        why = f"\nDoes not page: explained by {row['inhibited_by']}." if row["inhibited_by"] else ""
        table.add_row(Text("\n").join([state, Text(row["kind"]), Text(time_columns)]), Text(row["summary"] + why + fix))
    VisibleConsole().print(table)


def _local(time: datetime | str) -> list[str]:
    """The time in the local zone, where that is another than UTC."""
    local = (datetime.fromisoformat(time) if isinstance(time, str) else time).astimezone()
    return [local.strftime("%H:%M:%S %Z")] if local.utcoffset() else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True, default=_plain_text) if isinstance(value, dict) else str(value)
