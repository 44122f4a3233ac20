"""The files of a table by its log, and DuckDB's SQL for them, in the form that it answers fastest."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import ColumnType, Table
from streaming.text.result import values_of
from streaming.text.times import to_ms
from streaming.warehouse.delta_log import in_one_line, read_commit
from streaming.warehouse.file_copies import delete_other_copies, files_here
from streaming.warehouse.tables import catch_up, open_delta, table_path
from streaming.warehouse.warehouse_error import TableAccessError, WarehouseError

Span = tuple[int | None, int | None]
"""The first and the last ms of a file's rows; None where the log does not say."""


class TableFiles:
    """The files of one table, by its log. `version` is None while the table does not exist.

    `readable` is the condition in SQL of rows that can be read, where some of `looked_at`'s cannot: `left_out` so far.
    """

    def __init__(self, warehouse: Location, table: Table) -> None:
        self.table = table
        self.version: int | None = None
        self.paths: list[str] = []
        self.readable = ""
        self.left_out = 0
        self.looked_at: set[str] = set()
        self._path = table_path(warehouse, table.name)
        self._handle: DeltaTable | None = None
        self._uris: list[str] = []
        self._spans: list[Span] | None = None

    def look(self, *, again: bool = False) -> bool:
        """Read new commits, or with `again` the entire log; return whether the version changed.

        Raises TableAccessError.
        """
        before = self.version
        try:
            if self._handle is None or again:
                self._handle = open_delta(self._path)
            else:
                catch_up(self._handle)
            if int(self._handle.version()) != before or again:
                self._spans, self._uris = None, self._handle.file_uris()
                try:
                    self.paths = files_here(self._handle, self._uris)
                except FileNotFoundError:  # vacuum took one since the log was read
                    self._handle = open_delta(self._path)
                    self._uris = self._handle.file_uris()
                    self.paths = files_here(self._handle, self._uris)
                self.version = int(self._handle.version())
                if is_store(self._path):
                    delete_other_copies(self._path, self.paths)
        except TableNotFoundError:
            self._handle, self.version, self.paths, self._uris, self._spans = None, None, [], [], None
        except (DeltaError, OSError) as error:
            # A log that was cleaned up, or written anew, is read from its beginning.
            self._handle, self.version = None, before
            raise TableAccessError(self.table.name, None, in_one_line(error)) from None
        return self.version != before or again

    def between(self, since_ms: int | None, until_ms: int | None) -> list[str]:
        """Return the paths of files that may have rows with times in [since, until]."""
        if self._spans is None:
            self._spans = self._read_spans(self._handle) if self._handle else []
        return [
            path
            for path, (first_ms, last_ms) in zip(self.paths, self._spans, strict=True)
            if (since_ms is None or last_ms is None or last_ms >= since_ms)
            and (until_ms is None or first_ms is None or first_ms <= until_ms)
        ]

    def appended(self, version: int) -> list[str]:
        """Return the paths of files that commits after `version` appended, also if compaction has replaced them.

        Raises WarehouseError if the log has been shortened since, FileNotFoundError for a deleted file of a bucket.
        """
        names: list[str] = []
        for number in range(version + 1, (self.version or 0) + 1):
            if (commit := read_commit(self._path, number)) is None:
                gone = f"version {number} of table {self.table.name} is no longer in its log"
                raise WarehouseError(f"{gone}, which maintain.reader_hours limits; ask again with --since")
            names += commit.appended
        return files_here(self._handle, [f"{self._handle.table_uri}/{name}" for name in names]) if self._handle else []

    def _read_spans(self, handle: DeltaTable) -> list[Span]:
        """Return the spans in the order of the files. The log's times are cut to ms."""
        columns = ["path", *(f"{end}.{self.table.time}" for end in ("min", "max"))]
        spans: dict[str, Span] = {}
        for batch in pa.RecordBatchReader.from_stream(handle.get_add_actions(flatten=True)):
            if set(columns) <= set(batch.schema.names):
                rows = zip(*(values_of(batch.column(name)) for name in columns), strict=True)
                spans |= {_name_of(path): (first and to_ms(first), last and to_ms(last)) for path, first, last in rows}
        return [spans.get(_name_of(path), (None, None)) for path in self._uris]


def _name_of(path: str) -> str:
    """Return the file's name: the log has relative paths."""
    return unquote(path).rpartition("/")[2]


_TYPES = {ColumnType.STRINGS: "VARCHAR[]", ColumnType.TIMESTAMP: "TIMESTAMPTZ", ColumnType.BINARY: "BLOB"}
"""DuckDB's names of types that Spark names differently."""


def rows_of(table: Table, paths: Sequence[str], condition: str = "") -> str:
    """Return SQL for all rows of these files that meet the condition; columns that a file lacks are null."""
    columns = [f'NULL::{_TYPES.get(one.type, one.type.value)} AS "{one.name}"' for one in table.columns]
    nothing = f"SELECT {', '.join(columns)} WHERE false"
    if not paths:
        return nothing
    rows = f"{nothing} UNION ALL BY NAME SELECT * FROM {files_as_rows(paths)}"
    return f"SELECT * FROM ({rows}) WHERE {condition}" if condition else rows


def files_as_rows(paths: Sequence[str]) -> str:
    """Return SQL for exactly these files; a column that only some of them have is null in the others."""
    listed = ", ".join("'" + no_pattern(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], union_by_name = true)"


def time_sql(at_ms: int) -> str:
    return f"make_timestamptz({at_ms}::BIGINT * 1000)"


def conditions_of(table: Table, since_ms: int | None, until_ms: int | None) -> list[str]:
    """Return the conditions on the table's time; None: no bound."""
    bounds = ((">=", since_ms), ("<=", until_ms))
    return [f"{table.time} {sign} {time_sql(at_ms)}" for sign, at_ms in bounds if at_ms is not None]


def span_name(table: Table, since_ms: int | None, until_ms: int | None) -> str:
    """Return the name in SQL of the rows with times in [since, until], which `with_spans` replaces; None: no bound."""
    return f'"{table.name}[{"" if since_ms is None else since_ms}..{"" if until_ms is None else until_ms}]"'


def with_spans(sql: str, files: Mapping[str, TableFiles]) -> str:
    """Return the SQL with a query of the current files in place of each `span_name`. Other files are not opened."""

    def rows_between(name: re.Match[str]) -> str:
        of_table = files[name["table"]]
        since_ms, until_ms = (int(name[end]) if name[end] else None for end in ("since", "until"))
        conditions = conditions_of(of_table.table, since_ms, until_ms)
        rows = rows_of(of_table.table, of_table.between(since_ms, until_ms), of_table.readable)
        return f"(SELECT * FROM ({rows}) WHERE {' AND '.join(conditions)})"

    return _SPAN.sub(lambda name: rows_between(name) if name["table"] in files else name[0], sql)


_SPAN = re.compile(r'"(?P<table>\w+)\[(?P<since>-?\d*)\.\.(?P<until>-?\d*)\]"')


def newest_of(table: Table, rows: str) -> str:
    """Return the rows of schemas.views.newest_sql four times as fast: the key is grouped, the rest is one value.

    `rows` is a view's name or a subquery. A filter on key columns is applied before the grouping.
    """
    key = ", ".join(f'"{name}"' for name in table.key)
    rest = [name for name in table.names if name not in table.key]
    packed = ", ".join(f'"{name}" := "{name}"' for name in rest)
    picked = ", ".join(f'"{name}"' if name in table.key else f'newest."{name}" AS "{name}"' for name in table.names)
    return (
        f"SELECT {picked} FROM (SELECT {key}, arg_max(struct_pack({packed}), ({table.time}, batch_id)) AS newest "
        f"FROM {rows} GROUP BY {key})"
    )


def no_pattern(path: str) -> str:
    """Return the path with DuckDB's pattern characters escaped."""
    return path.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
