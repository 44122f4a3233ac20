"""The Delta tables: where they are, and how they are made from their contracts."""

from pathlib import Path

from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import PROPERTIES, TABLES, Table
from streaming.system.private_folder import make_private
from streaming.warehouse.opening import open_delta
from streaming.warehouse.rows import arrow_schema


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
