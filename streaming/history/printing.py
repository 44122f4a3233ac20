"""Rows for people and for machines: tables that fit the terminal, JSON, CSV."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Format = Literal["table", "json", "csv"]

STATE_STYLES = {
    "FIRING": "bold red",
    "RESOLVED": "green",
    "PENDING": "yellow",
    "RECOVERING": "cyan",
    "UNKNOWN": "magenta",
}


Records = Sequence[Mapping[str, Any]]


def print_alerts(alerts: Records, format_: Format) -> None:
    """Print alerts to stdout: for people what, when and what to do side by side, for machines every column."""
    if format_ != "table":
        _print_whole(alerts, format_)
    elif alerts:
        _print_table(alerts)
    else:
        print("No alert matches.")


def print_rows(rows: Records, format_: Format, nothing: str) -> None:
    """Print rows that have the same columns; for people, a table, or `nothing` when there is none."""
    if format_ != "table":
        _print_whole(rows, format_)
    elif rows:
        table = Table()
        for name in rows[0]:
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            table.add_row(*(Text(_cell(value)) for value in row.values()))
        Console().print(table)
    else:
        print(nothing)


def _print_whole(rows: Records, format_: Format) -> None:
    if format_ == "json":
        json.dump(list(rows), sys.stdout, indent=2, default=str, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})


def _print_table(alerts: Records) -> None:
    table = Table(show_lines=True)
    table.add_column("alert", no_wrap=True)
    table.add_column("what, why, and what to do", overflow="fold")
    for row in alerts:
        state = Text(row["state"], style=STATE_STYLES.get(row["state"], ""))
        when = str(row["changed_at"])[:19].replace("T", " ") + " UTC"
        fix = f"\nFix: {row['advice']}" if row["state"] == "FIRING" else ""
        why = f"\nDoes not page: explained by {row['suppressed_by']}." if row["suppressed_by"] else ""
        table.add_row(Text("\n").join([state, Text(row["kind"]), Text(when)]), Text(row["summary"] + why + fix))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
