"""`balancewatch sql`: read-only SQL on all tables, or the list of their views."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.tables import TABLES
from schemas.views import VIEWS
from streaming.history.query_options import FirstLimit, FormatName, parse_options
from streaming.history.sql_process import print_apart
from streaming.terminal.command import fail
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.warehouse.warehouse_error import WarehouseError

MOST_BYTES = 1 << 20


def sql(
    query: Annotated[
        str | None,
        typer.Argument(help='One SELECT; "-" reads it from stdin. Default: list the views.', metavar="SQL"),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the SQL from this file.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which the query is ended.", min=0.1, max=86_400)] = 60.0,
    format_: FormatName = "table",
    limit: FirstLimit = None,
    warehouse: Warehouse = None,
) -> None:
    """Query the tables in read-only SQL (DuckDB): one SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN.

    Each table is a view. TABLE_now has the newest row of each key, TABLE_at(moment) the newest row of each key at that
    time. Times are UTC. A query has 2 GB of memory and reads the tables only: no other file, no network, no
    environment.

    Example: balancewatch sql

    Example: balancewatch sql "SELECT verdict, count(*) FROM assignments_now GROUP BY ALL"

    Example: balancewatch sql "FROM assignments_at(TIMESTAMPTZ '2026-11-21 03:12:00Z') WHERE verdict = 'UNOWNED'"

    Example: balancewatch sql -f report.sql --format parquet > report.parquet
    """
    if query is not None and file is not None:
        fail("give either the SQL or --file", code=2)
    text = _read(query, file)
    options = parse_options(format_=format_, limit=limit, warehouse=warehouse)
    if text is None:
        print_rows(list(list_views()), options.format)
        return
    try:
        reported = print_apart(
            sql=text,
            warehouse=str(options.warehouse),
            format_=options.format,
            limit=options.limit,
            seconds=timeout,
        )
    except WarehouseError as error:
        fail(f"--file {file}: {error}" if file is not None else str(error))
    if reported:
        note(reported)


def _read(query: str | None, file: Path | None) -> str | None:
    if query != "-" and file is None:
        if query is not None and not query.strip():
            fail("the SQL is empty; leave it out to list the views", code=2)
        return query
    try:
        text = sys.stdin.read(MOST_BYTES) if file is None or str(file) == "-" else file.read_text()[:MOST_BYTES]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        fail(f"--file {file}: {reason}", code=2)
    if not text.strip():
        fail("the SQL is empty", code=2)
    return text


def list_views() -> Iterator[dict[str, Any]]:
    """Yield each table with its columns and its two views, then the other views."""
    for table in TABLES.values():
        key = ", ".join(table.key)
        views = {
            table.name: table.comment,
            f"{table.name}_now": f"the newest row of each {key}",
            f"{table.name}_at(moment)": f"the newest row of each key at that time of {table.time}",
        }
        for name, comment in views.items():
            yield {"view": name, "column": None, "type": None, "comment": comment}
        for column in table.columns:
            yield {"view": table.name, "column": column.name, "type": column.type.value, "comment": column.comment}
    for view in VIEWS.values():
        yield {"view": view.name, "column": None, "type": None, "comment": view.comment}
