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

STATE_STYLES = {"FIRING": "bold red", "RESOLVED": "green", "PENDING": "yellow", "RECOVERING": "cyan"}


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], format_: Format, *, empty: str) -> None:
    """Print rows to stdout. A table shows `columns`; JSON and CSV hold every column. `empty` is said to people."""
    if format_ == "json":
        json.dump(list(rows), sys.stdout, indent=2, default=str, ensure_ascii=False)
        sys.stdout.write("\n")
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]) if rows else list(columns))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})
    elif rows:
        _print_table(rows, columns)
    else:
        print(empty)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    table = Table(show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name]), style=STATE_STYLES.get(_cell(row[name]), "")) for name in columns))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
