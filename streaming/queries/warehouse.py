"""The Delta tables: made from their contracts, appended to exactly once a batch.

A batch appends to each table under a Delta transaction (app id, batch id); a batch that is run again after a crash
finds its transaction there and is skipped, table by table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from delta.tables import DeltaTable as SparkDeltaTable
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from schemas.tables import PROPERTIES, TABLES, Table
from streaming.queries.rows import Rows, arrow_schema, arrow_table


def table_path(warehouse: Path | str, name: str) -> str:
    """Where a table's files are."""
    root = str(warehouse)
    return f"{root.rstrip('/')}/{name}" if "://" in root else str(Path(root).expanduser().resolve() / name)


def create_tables(warehouse: Path | str) -> None:
    """Make the tables that are missing, with comments and properties, in the plain protocol (1, 2)."""
    for table in TABLES.values():
        open_table(warehouse, table)


def open_table(warehouse: Path | str, table: Table) -> DeltaTable:
    """The table, made if it is not there; columns that this release has and it lacks are added, null in old rows."""
    path = table_path(warehouse, table.name)
    try:
        known = DeltaTable(path)
        present = {field.name for field in known.schema().fields}
        missing = [field for field in Schema.from_arrow(arrow_schema(table.schema)).fields if field.name not in present]
        if missing:
            known.alter.add_columns(missing)
        return known
    except TableNotFoundError:
        return DeltaTable.create(
            path,
            schema=arrow_schema(table.schema),
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
    """Appends from the driver with the Rust client: one file, one commit, about 8 ms."""

    def __init__(self, warehouse: Path | str) -> None:
        create_tables(warehouse)
        self._tables = {name: open_table(warehouse, table) for name, table in TABLES.items()}

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> None:
        handle = self._tables[table.name]
        done = handle.transaction_version(app_id)
        if done is not None and done >= batch_id:
            return
        properties = CommitProperties(app_transactions=[Transaction(app_id, batch_id)])
        write_deltalake(handle, rows, mode="append", commit_properties=properties)


class SparkWriter:
    """Appends through Spark, for stores that only Hadoop's clients reach: 0.5 s a table."""

    def __init__(self, warehouse: Path | str, spark: SparkSession) -> None:
        self._warehouse, self._spark = warehouse, spark
        for table in TABLES.values():
            builder = SparkDeltaTable.createIfNotExists(spark).location(table_path(warehouse, table.name))
            builder = builder.addColumns(table.schema).comment(table.comment)
            for key, value in PROPERTIES.items():
                builder = builder.property(key, value)
            builder.execute()

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> None:
        (
            self._spark.createDataFrame(rows, schema=table.schema)
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", app_id)
            .option("txnVersion", batch_id)
            .option("mergeSchema", "true")
            .save(table_path(self._warehouse, table.name))
        )


def append_rows(writer: Writer, rows: Rows, app_id: str, batch_id: int) -> Mapping[str, int]:
    """Append a batch's rows to their tables; the number of rows a table. Rows of no table are for `run` itself."""
    written: dict[str, int] = {}
    for name in sorted(rows.keys() & TABLES.keys()):
        of_table = rows[name]
        table = TABLES[name]
        writer.append(table, arrow_table(of_table, table.schema, batch_id), app_id, batch_id)
        written[name] = len(of_table)
    return written
