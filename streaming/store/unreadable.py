"""Rows of a table that break its contract, as a damaged or forged file has them: left out of its view, and said.

No writer of ours can write one. A file is looked at once, when it is first seen; while all is well, which its figures
in the footer tell in a blink, the views have no condition and cost nothing.
"""

import logging
from collections.abc import Collection, Sequence

import duckdb
import pyarrow as pa

from schemas.tables import ColumnType, Table
from streaming.store.table_files import TableFiles
from streaming.store.view_text import files_as_rows, rows_of

log = logging.getLogger("balancewatch.history")

FIRST, LAST = "TIMESTAMPTZ '0001-01-02 00:00:00+00'", "TIMESTAMPTZ '9999-12-30 00:00:00+00'"
"""Times that everything after DuckDB has a value for, in any zone."""


def leave_out_unreadable(engine: duckdb.DuckDBPyConnection, files: TableFiles) -> None:
    """Look at the files that are new; from the first bad row on, `files.readable` is the condition of the others."""
    new = [path for path in files.paths() if path not in files.looked_at]
    if not new:
        return
    files.looked_at.update(new)
    table = files.table
    if not _count(engine, table, new, _is_bad(table)):
        return
    bad = _is_bad(table, _lacking(engine, table, new))
    if number := _count(engine, table, new, bad):
        files.readable = f"NOT coalesce({bad}, false)"
        files.left_out += number
        log.warning("unreadable rows skipped table=%s rows=%d", table.name, number)


def _is_bad(table: Table, lacking: Collection[str] = ()) -> str:
    nulls = [f'"{one.name}" IS NULL' for one in table.columns if one.is_required and one.name not in lacking]
    times = [f'"{one.name}"' for one in table.columns if one.type is ColumnType.TIMESTAMP]
    return " OR ".join([*nulls, *(f"{time} < {FIRST} OR {time} > {LAST}" for time in times)])


def _count(engine: duckdb.DuckDBPyConnection, table: Table, paths: Sequence[str], condition: str) -> int:
    asked = f"SELECT count(*) FROM ({rows_of(table, paths)}) WHERE {condition}"  # our own names
    ((number,),) = engine.sql(asked).fetchall()
    return int(number)


def _lacking(engine: duckdb.DuckDBPyConnection, table: Table, paths: Sequence[str]) -> set[str]:
    """Columns that some of these files do not have at all: an older release wrote them."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # takes longer to import than most questions to answer

    rows = files_as_rows(paths).removesuffix(")") + ", filename = true)"
    bad = engine.sql(f"SELECT DISTINCT filename FROM {rows}").fetchall()  # the log's own paths
    lacking: set[str] = set()
    for (path,) in bad:
        try:
            lacking |= set(table.names) - set(pq.read_schema(path).names)
        except (OSError, pa.ArrowInvalid):
            continue
    return lacking
