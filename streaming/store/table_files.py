"""The files of a table by its log, and DuckDB's SQL for them, in the form that it answers fastest."""

from collections.abc import Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import ColumnType, Table
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.file_copies import delete_other_copies, files_here
from streaming.warehouse.tables import catch_up, open_delta, table_path
from streaming.warehouse.warehouse_error import TableAccessError


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
                try:
                    self.paths = files_here(self._handle, self._handle.file_uris())
                except FileNotFoundError:  # vacuum took one since the log was read
                    self._handle = open_delta(self._path)
                    self.paths = files_here(self._handle, self._handle.file_uris())
                self.version = int(self._handle.version())
                if is_store(self._path):
                    delete_other_copies(self._path, self.paths)
        except TableNotFoundError:
            self._handle, self.version, self.paths = None, None, []
        except (DeltaError, OSError) as error:
            # A log that was cleaned up, or written anew, is read from its beginning.
            self._handle, self.version = None, before
            raise TableAccessError(self.table.name, None, in_one_line(error)) from None
        return self.version != before or again


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
