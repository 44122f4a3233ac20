"""`balancewatch sql`: read-only SQL on all tables."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from streaming.history.query_options import FirstLimit, FormatName, QueryOptions, parse_options
from streaming.history.sql_process import print_apart
from streaming.history.sql_request import Request
from streaming.history.view_list import list_views
from streaming.store.light_arrow import load_arrow
from streaming.terminal.command import fail
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
        _list(options)
        return
    try:
        reported = print_apart(Request(text, str(options.warehouse), options.format, options.limit, timeout))
    except WarehouseError as error:
        fail(f"--file {file}: {error}" if file is not None else str(error))
    if reported:
        note(reported)


def _list(options: QueryOptions) -> None:

    load_arrow()

    list_views(options.format)


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
