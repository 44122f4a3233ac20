"""The Delta tables as DuckDB views, read-only and without a JVM: delta-rs finds the files, DuckDB reads them.

Views: see schemas.views. A table that nobody has written yet is an empty view. What has been committed since is seen
after `refresh`. Every engine lives in memory, may read the warehouse's folder alone, and may write nothing.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from schemas.tables import TABLES, Table
from schemas.views import VIEWS, newest_sql
from streaming.queries.rows import arrow_schema
from streaming.queries.warehouse import table_path

Params = Sequence[Any] | Mapping[str, Any]

MEMORY_LIMIT = "2GB"


class WarehouseError(RuntimeError):
    """The tables are not there, or cannot be asked this. The message names the setting or the query's fault."""


class History:
    """One warehouse's tables as views. `query` may be called by several threads, each sees one set of versions."""

    def __init__(self, warehouse: Path) -> None:
        """Raises WarehouseError when the folder holds none of our tables."""
        self.warehouse = warehouse.expanduser().resolve()
        self._handles: dict[str, DeltaTable] = {}
        self._versions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._engine = duckdb.connect(config={"memory_limit": MEMORY_LIMIT})
        self._engine.execute("SET TimeZone = 'UTC'")
        self._engine.execute("SET allowed_directories = ?", [[str(self.warehouse)]])
        self._engine.execute("SET enable_external_access = false")
        for table in TABLES.values():
            self._show(table, [])
        for view in VIEWS.values():
            self._engine.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        self.refresh()
        if not self._versions:
            raise WarehouseError(
                f"paths.warehouse = {str(warehouse)!r}: none of our tables is there; has `run` written them?"
            )

    @property
    def versions(self) -> Mapping[str, int]:
        """The Delta version of each table that is there, as it is seen now."""
        return dict(self._versions)

    def refresh(self) -> bool:
        """See what has been committed since. False when nothing has."""
        with self._lock:
            changed = [table.name for table in TABLES.values() if self._refresh(table)]
        return bool(changed)

    def query(self, sql: str, params: Params = ()) -> pa.Table:
        """The answer to one SELECT over the views. Times are TIMESTAMP, UTC.

        Raises WarehouseError for what is not one SELECT, or what DuckDB cannot answer, in its words.
        """
        try:
            statements = self._engine.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise WarehouseError("only one SELECT at a time: the tables are read, never written")
            with self._lock:
                cursor = self._engine.cursor()
            return cursor.sql(sql, params=params or None).to_arrow_table()
        except duckdb.Error as error:
            raise WarehouseError(str(error)) from None

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        """The same as dicts; times are aware datetimes, UTC."""
        rows: list[dict[str, Any]] = self.query(sql, params).to_pylist()
        return rows

    def _refresh(self, table: Table) -> bool:
        try:
            if table.name in self._handles:
                self._handles[table.name].update_incremental()
            else:
                self._handles[table.name] = DeltaTable(table_path(self.warehouse, table.name))
        except TableNotFoundError:
            return False
        except DeltaError as error:
            raise WarehouseError(f"table {table.name} cannot be read: {error}") from None
        handle = self._handles[table.name]
        if self._versions.get(table.name) == handle.version():
            return False
        self._show(table, handle.file_uris())
        self._versions[table.name] = handle.version()
        return True

    def _show(self, table: Table, files: list[str]) -> None:
        """(Re)make a table's views over these files. Columns that a file lacks are null."""
        columns = [f'NULL::{_duckdb_type(field.type)} AS "{field.name}"' for field in arrow_schema(table.schema)]
        rows = f"SELECT {', '.join(columns)} WHERE false"
        if files:
            listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            rows += f" UNION ALL BY NAME SELECT * FROM read_parquet([{listed}], union_by_name = true)"
        self._engine.execute(f"CREATE OR REPLACE VIEW {table.name} AS {rows}")
        if not files:
            self._engine.execute(f"CREATE OR REPLACE VIEW {table.name}_now AS {newest_sql(table, chr(34))}")
            self._engine.execute(
                f"CREATE OR REPLACE MACRO {table.name}_at(moment) AS TABLE {newest_sql(table, chr(34), 'moment')}"
            )


def _duckdb_type(type_: pa.DataType) -> str:
    """DuckDB's name of a column's type."""
    if pa.types.is_list(type_):
        return _duckdb_type(type_.value_type) + "[]"
    return _TYPES[type_]


_TYPES = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.binary(): "BLOB",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
}
