"""Appends to the Delta tables through Spark."""

from pathlib import Path

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from conf.location import Location
from schemas.tables import PROPERTIES, TABLES, Table
from streaming.private_folder import make_private
from streaming.queries.warehouse import table_path


class SparkWriter:
    """Appends through Spark, for stores that only Hadoop's clients reach: 0.5 s a table."""

    def __init__(self, warehouse: Location, spark: SparkSession) -> None:
        self._warehouse, self._spark = warehouse, spark
        if (spark.sparkContext.master or "").startswith(
            "local"
        ):  # elsewhere executors write there, perhaps by other users
            make_private(Path(warehouse).expanduser())
        for table in TABLES.values():
            builder = DeltaTable.createIfNotExists(spark).location(table_path(warehouse, table.name))
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
