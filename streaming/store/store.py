"""The Delta tables as DuckDB views, read-only and without a JVM: delta-rs lists the files, DuckDB reads them.

Views: see schemas.views. A table that was never written is an empty view. `refresh` shows later commits. Every engine
lives in memory and opens only files of the warehouse's folder; a closed one opens no file at all, so that it can
answer SQL of the user.
"""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from conf.location import Location, is_store
from schemas.tables import TABLES, ColumnType, Table
from schemas.views import VIEWS
from streaming.store.limits import MEMORY_LIMIT, TOO_MUCH
from streaming.store.table_files import TableFiles, newest_of, no_pattern, rows_of, span_name, with_spans
from streaming.text.result import records_of, unique_names
from streaming.warehouse.file_copies import copies_folder
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.warehouse_error import FilesGoneError, NotWrittenError, WarehouseError

_ODD = {"interval", "union", "variant", "bignum", "uhugeint", "bit", "geometry", "type", "time with time zone"}
_NESTED = {"list", "array", "struct", "map", "tuple"}


def with_text(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the answer with columns of types that Arrow, Parquet or Python lack as DuckDB's text."""
    are_odd = [_is_odd(column_type) for column_type in answer.types]
    if not any(are_odd):
        return answer
    names = unique_names(pa.schema([pa.field(name, pa.null()) for name in answer.columns])).names
    columns = (
        '#{}{} AS "{}"'.format(number, "::VARCHAR" if is_odd else "", name.replace('"', '""'))
        for number, (name, is_odd) in enumerate(zip(names, are_odd, strict=True), 1)
    )
    return answer.project(", ".join(columns))


def _is_odd(one: DuckDBPyType) -> bool:
    if one.id not in _NESTED:
        return one.id in _ODD
    parts = [part for _, part in one.children if isinstance(part, DuckDBPyType)]
    return not parts or any(map(_is_odd, parts))


@contextmanager
def in_words() -> Iterator[None]:
    """Raise DuckDB's errors as WarehouseError."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise WarehouseError(TOO_MUCH) from None
    except duckdb.Error as error:
        # DuckDB's message in one line, without the excerpt of the SQL.
        raise WarehouseError(" ".join(str(error).partition("\n\nLINE ")[0].split())) from None
    except (pa.ArrowException, OSError) as error:
        raise WarehouseError(str(error)) from None


log = logging.getLogger("balancewatch.history")

FIRST, LAST = "TIMESTAMPTZ '0001-01-02 00:00:00+00'", "TIMESTAMPTZ '9999-12-30 00:00:00+00'"
"""Times that everything after DuckDB has a value for, in any zone."""


def leave_out_unreadable(engine: duckdb.DuckDBPyConnection, files: TableFiles) -> None:
    """Check new files for rows that break the contract; set `files.readable` to the condition of the others."""
    new = [path for path in files.paths if path not in files.looked_at]
    if not new:
        return
    files.looked_at.update(new)
    table = files.table
    required = [f'"{column.name}" IS NULL' for column in table.columns if column.is_required]
    times = [f'"{column.name}"' for column in table.columns if column.type is ColumnType.TIMESTAMP]
    bad = " OR ".join([*required, *(f"{time} < {FIRST} OR {time} > {LAST}" for time in times)])
    ((number,),) = engine.sql(f"SELECT count(*) FROM ({rows_of(table, new)}) WHERE {bad}").fetchall()
    if number:
        files.readable = f"NOT coalesce({bad}, false)"
        files.left_out += number
        log.warning("unreadable rows skipped table=%s rows=%d", table.name, number)


Params = Sequence[Any] | Mapping[str, Any]
Answer = TypeVar("Answer")

OPENERS = 4
BATCH_ROWS = 10_000

_SETTINGS = {
    "TimeZone": "UTC",
    "parquet_metadata_cache": True,  # of thousands of small files each footer is read once
    "enable_external_file_cache": False,  # the system's own serves repeated reads
    "temp_directory": "",  # what does not fit the memory limit fails; it fills no disk
    "python_enable_replacements": False,  # a name in SQL is a view, never a Python variable
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""GLOBAL settings: a cursor of another thread does not inherit what was set for one session."""

_LOCKED = "SET enable_external_access = false; SET lock_configuration = true"


def named(sql: str, params: Params) -> Params | None:
    """Return the parameters without names that the query does not use, which DuckDB refuses; None for none."""
    if isinstance(params, Mapping):
        params = {name: value for name, value in params.items() if f"${name}" in sql}
    return params or None


class History:
    """One warehouse's tables as views. All methods may be called by several threads; a query sees one set of versions.

    `tables` are those that will be asked; the others stay empty views.
    """

    def __init__(
        self,
        warehouse: Location,
        tables: Collection[Table] = tuple(TABLES.values()),
        *,
        is_closed: bool = False,
    ) -> None:
        """Raises NotWrittenError when none of the tables is there.

        A closed history is for SQL of the user. Its views read files through Arrow, which Python has opened, and DuckDB
        itself can open no file. It answers one SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN at a time in a read-only
        transaction, is never refreshed, and raises FilesGoneError when a file was deleted.
        """
        self.warehouse: Location = str(warehouse) if is_store(warehouse) else Path(warehouse).expanduser().resolve()
        self._files = {table.name: TableFiles(self.warehouse, table) for table in tables}
        self._lock = threading.RLock()
        self._is_closed = is_closed
        changed = self._read_logs(again=False)
        if not self.versions:
            raise NotWrittenError(warehouse, None if len(tables) == len(TABLES) else next(iter(tables)).name)
        self._engine = self._open()
        with in_words(), self._deleted_files_named():
            self._show(changed)
            if is_closed:
                self._engine.execute(_LOCKED)

    def _open(self) -> duckdb.DuckDBPyConnection:
        engine = duckdb.connect(config={"memory_limit": MEMORY_LIMIT})
        for name, value in _SETTINGS.items():
            engine.execute(f"SET GLOBAL {name} = {value!r}")
        if not self._is_closed:
            folder = str(copies_folder(str(self.warehouse)) if is_store(self.warehouse) else self.warehouse)
            engine.execute("SET allowed_directories = ?", [[folder, no_pattern(folder)]])
            engine.execute(_LOCKED)
        for table in TABLES.values():
            engine.execute(f"CREATE VIEW {table.name} AS {rows_of(table, [])}")
            engine.execute(f"CREATE VIEW {table.name}_now AS {newest_of(table, table.name)}")
            until = f"(SELECT * FROM {table.name} WHERE {table.time} <= moment)"
            engine.execute(f"CREATE MACRO {table.name}_at(moment) AS TABLE {newest_of(table, until)}")
        for view in VIEWS.values():
            engine.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        return engine

    @property
    def versions(self) -> Mapping[str, int]:
        """The Delta version of each table that is there, as it is seen now."""
        return {name: files.version for name, files in self._files.items() if files.version is not None}

    @property
    def left_out(self) -> Mapping[str, int]:
        """How many rows of each table were met that cannot be read; they are in no view."""
        return {name: files.left_out for name, files in self._files.items() if files.left_out}

    @property
    def file_counts(self) -> Mapping[str, int]:
        return {name: len(files.paths) for name, files in self._files.items() if files.version is not None}

    def refresh(self) -> bool:
        """See what has been committed since. False when nothing has."""
        with in_words():
            return self._look(again=False)

    def query(self, sql: str, params: Params = ()) -> pa.Table:
        """Return the answer. Times are TIMESTAMP, UTC. Raises WarehouseError."""
        used = named(sql, params)
        return self._ask(lambda cursor, text: cursor.sql(text, params=used).to_arrow_table(), sql)

    def stream(self, sql: str, params: Params = ()) -> pa.RecordBatchReader:
        """Return the answer in batches, with unique column names; reading may raise WarehouseError too."""

        def begin(cursor: duckdb.DuckDBPyConnection, text: str) -> pa.RecordBatchReader:
            reader = with_text(cursor.sql(text, params=named(sql, params))).to_arrow_reader(BATCH_ROWS)
            first, schema = next(iter(reader), None), unique_names(reader.schema)

            def batches() -> Iterator[pa.RecordBatch]:
                """Yield all batches; after the first one the query cannot be repeated."""
                with in_words():
                    for batch in chain([] if first is None else [first], reader):
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

            return pa.RecordBatchReader.from_batches(schema, batches())

        return self._ask(begin, sql)

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        """The answer as dicts; times are aware datetimes, UTC."""
        return list(records_of(self.query(sql, params)))

    def between(self, table: Table, since_ms: int | None = None, until_ms: int | None = None) -> str:
        """SQL of the table's rows with times in [since, until], which reads only the files that may have some."""
        if table.name not in self._files or (since_ms is None and until_ms is None):
            return table.name
        return span_name(table, since_ms, until_ms)

    def appended(self, table: Table, version: int) -> str:
        """SQL of the rows that commits after `version` appended."""
        files = self._files[table.name]
        return rows_of(table, files.appended(version), files.readable)

    def newest(self, table: Table, until_ms: int | None = None) -> str:
        """SQL of the newest row of each key, by the table's time; with `until_ms`, of the rows up to then."""
        return f"{table.name}_now" if until_ms is None else f"({newest_of(table, self.between(table, None, until_ms))})"

    def _ask(self, ask: Callable[[duckdb.DuckDBPyConnection, str], Answer], sql: str) -> Answer:
        """Ask DuckDB. If compaction and vacuum deleted a file after its log was read, read the logs again."""
        with in_words(), self._deleted_files_named():
            if self._is_closed:
                cursor = self._engine.cursor()
                _check_one_select(cursor, sql)
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                return ask(cursor, sql)
            try:
                return ask(*self._now(sql))
            except duckdb.IOException:
                self._look(again=True)
                return ask(*self._now(sql))

    def _now(self, sql: str) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Return a cursor, and the SQL with the current files in place of each span."""
        with self._lock:
            return self._engine.cursor(), with_spans(sql, self._files)

    @contextmanager
    def _deleted_files_named(self) -> Iterator[None]:
        """Raise FilesGoneError in a closed history if an error follows from a deleted file."""
        try:
            yield
        except (duckdb.Error, OSError):
            paths = (path for files in self._files.values() for path in files.paths)
            if not self._is_closed or all(map(os.path.exists, paths)):
                raise
            raise FilesGoneError("files of the tables were replaced during the query; run it again") from None

    def _look(self, *, again: bool) -> bool:
        """Read the logs on; with `again` anew, as if none had been read."""
        with self._lock:
            changed = self._read_logs(again=again)
            self._show(changed)
            return bool(changed)

    def _read_logs(self, *, again: bool) -> list[TableFiles]:
        """The tables of which other files are to be shown."""
        with ThreadPoolExecutor(OPENERS) as openers:
            changed = openers.map(lambda files: files.look(again=again), self._files.values())
            return [files for files, has_changed in zip(self._files.values(), changed, strict=True) if has_changed]

    def _show(self, changed: Sequence[TableFiles], *, again: bool = True) -> None:
        """Change all views or none. With `again` the logs are read again if a file was deleted since."""
        try:
            for files in changed:
                leave_out_unreadable(self._engine, files)
            self._engine.execute("BEGIN")
            try:
                for files in changed:
                    self._show_one(files)
                self._engine.execute("COMMIT")
            except duckdb.Error:
                self._engine.execute("ROLLBACK")
                raise
        except duckdb.IOException:
            if self._is_closed or not again:
                raise
            self._show(self._read_logs(again=True), again=False)

    def _show_one(self, files: TableFiles) -> None:
        name, paths = files.table.name, files.paths
        if not self._is_closed or not paths:
            view = rows_of(files.table, paths, files.readable)
            self._engine.execute(f"CREATE OR REPLACE VIEW {name} AS {view}")
            return
        from pyarrow import dataset  # noqa: PLC0415  # only for SQL of the user

        rows = self._engine.from_arrow(dataset.dataset(paths, schema=arrow_schema(files.table), format="parquet"))
        rows.filter(files.readable or "true").create_view(name, replace=True)


def _check_one_select(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise WarehouseError for other statements, and duckdb.Error for invalid SQL."""
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise WarehouseError("the SQL is not valid UTF-8") from None
    kinds = [statement.type for statement in cursor.extract_statements(sql)]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        raise WarehouseError("only one SELECT at a time: the tables are read, never written")
