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


Records = Sequence[Mapping[str, Any]]


def print_alerts(alerts: Records, format_: Format) -> None:
    """Print alerts to stdout: for people what, when and what to do side by side, for machines every column."""
    if format_ == "json":
        json.dump(list(alerts), sys.stdout, indent=2, default=str, ensure_ascii=False)
        sys.stdout.write("\n")
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=list(alerts[0]) if alerts else [])
        writer.writeheader()
        for row in alerts:
            writer.writerow({key: _cell(value) for key, value in row.items()})
    elif alerts:
        _print_table(alerts)
    else:
        print("No alert matches.")


def _print_table(alerts: Records) -> None:
    table = Table(show_lines=True)
    table.add_column("alert", no_wrap=True)
    table.add_column("what, why, and what to do", overflow="fold")
    for row in alerts:
        state = Text(row["state"], style=STATE_STYLES.get(row["state"], ""))
        when = str(row["changed_at"])[:19].replace("T", " ") + " UTC"
        fix = f"\nFix: {row['advice']}" if row["state"] == "FIRING" else ""
        table.add_row(Text("\n").join([state, Text(row["kind"]), Text(when)]), Text(row["summary"] + fix))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
