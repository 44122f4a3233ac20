"""The views that SQL can query, with their columns."""

from collections.abc import Iterator
from typing import Any

from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from schemas.tables import TABLES
from schemas.views import VIEWS
from streaming.history.query_options import Format
from streaming.terminal.printing import print_records
from streaming.text.console import VisibleConsole


def list_views(format_: Format) -> None:
    """Print each table with its columns, and each view; other formats have a row for each column."""
    if format_ != "table":
        print_records(list(_rows()), format_)
        return
    console = VisibleConsole()
    for table in TABLES.values():
        console.print(Text(table.name, style="bold").append(f"  {table.comment}", style="not bold"))
        for line in (
            f"{table.name}_now: the newest row of each {', '.join(table.key)}",
            f"{table.name}_at(moment): the newest row of each key at that time of {table.time}",
        ):
            console.print(f"  {line}", style="dim")
        grid = Grid.grid(padding=(0, 2))
        for column in table.columns:
            grid.add_row(Text(column.name), Text(column.type.value, style="dim"), Text(column.comment))
        console.print(Padding(grid, (0, 0, 1, 4)))
    for view in VIEWS.values():
        console.print(Text(view.name, style="bold").append(f"  {view.comment}", style="not bold"))


def _rows() -> Iterator[dict[str, Any]]:
    for table in TABLES.values():
        for column in table.columns:
            yield {"view": table.name, "column": column.name, "type": column.type.value, "comment": column.comment}
    for view in VIEWS.values():
        yield {"view": view.name, "column": None, "type": None, "comment": view.comment}
