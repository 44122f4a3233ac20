"""The Delta tables: made from their contracts, appended to exactly once a batch.

A batch appends to each table under a Delta transaction (app id, batch id); a batch that is run again after a crash
finds its transaction there and is skipped, table by table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import PROPERTIES, TABLES, Table
from streaming.private_folder import make_private
from streaming.queries.rows import Rows, arrow_schema, arrow_table
from streaming.warehouse.opening import open_delta


def table_path(warehouse: Location, name: str) -> str:
    """Where a table's files are."""
    root = str(warehouse)
    return f"{root.rstrip('/')}/{name}" if is_store(root) else str(Path(root).expanduser().resolve() / name)


def create_tables(warehouse: Location) -> None:
    """Make the tables that are missing, with comments and properties, in the plain protocol (1, 2)."""
    for table in TABLES.values():
        open_table(warehouse, table)


def open_table(warehouse: Location, table: Table) -> DeltaTable:
    """The table, made if it is not there; columns that this release has and it lacks are added, null in old rows."""
    path = table_path(warehouse, table.name)
    try:
        known = open_delta(path)
        present = {field.name for field in known.schema().fields}
        missing = [field for field in Schema.from_arrow(arrow_schema(table)).fields if field.name not in present]
        if missing:
            known.alter.add_columns(missing)
        return known
    except TableNotFoundError:
        if not is_store(path):
            make_private(Path(path).parent)
        return DeltaTable.create(
            path,
            schema=arrow_schema(table),
            mode="ignore",
            name=table.name,
            description=table.comment,
            configuration=dict(PROPERTIES),
            raise_if_key_not_exists=False,
        )


class Writer(Protocol):
    """Appends one batch's rows to one table, once."""

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> None: ...


class DeltalakeWriter:
    """Appends from the driver without the JVM: one file, one commit, about a millisecond, however old the table is."""

    def __init__(self, warehouse: Location) -> None:
        """Makes the tables that are missing. Raises AppendRefusedError for one that an append would break."""
        from streaming.warehouse.appender import Appender  # noqa: PLC0415  # numpy by pyarrow.parquet: questions need none

        self._appenders = {
            name: Appender(table_path(warehouse, name), open_table(warehouse, table)) for name, table in TABLES.items()
        }

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> None:
        self._appenders[table.name].append(rows, Transaction(app_id, batch_id))


def append_rows(writer: Writer, rows: Rows, app_id: str, batch_id: int) -> Mapping[str, int]:
    """Append a batch's rows to their tables; the number of rows a table. Rows of no table are for `run` itself."""
    written: dict[str, int] = {}
    for name in sorted(rows.keys() & TABLES.keys()):
        of_table = rows[name]
        table = TABLES[name]
        writer.append(table, arrow_table(of_table, table, batch_id), app_id, batch_id)
        written[name] = len(of_table)
    return written
