"""The tables as Spark SQL views, for notebooks and for histories too long for one machine; the rules as functions.

`open_session(warehouse)` where there is no Spark session, `create_views(spark, warehouse)` where there is one that
knows Delta. Views: see schemas.views; `<table>_at(moment)` is a table function here. They read and never write.
"""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from conf.location import Location
from conf.settings import Settings
from schemas.tables import TABLES, Table
from schemas.views import VIEWS, newest_sql
from streaming.spark.session import start_spark
from streaming.warehouse.tables import table_path
from udfs.sql import register

BACKTICK = "`"
ADAPTIVE = "spark.sql.adaptive.enabled"

ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
"""Spark's error conditions of a table that is not written yet."""


def open_session(warehouse: Location | None = None, **sections: dict[str, Any]) -> SparkSession:
    """Return a session with the views and functions. `sections` are settings, as flags give them.

    Raises SettingsError, or JarsError if the jars cannot be downloaded.
    """
    if warehouse is not None:
        sections["paths"] = {**sections.get("paths", {}), "warehouse": warehouse}
    settings = Settings.load(**sections)
    spark = start_spark(settings)
    if ADAPTIVE not in settings.spark.options:
        spark.conf.set(ADAPTIVE, "true")  # a view's 200 shuffle partitions become a few: 3.5 times faster
    create_views(spark, settings.paths.warehouse)
    return spark


def create_views(spark: SparkSession, warehouse: Location) -> None:
    """Create every view and function in this session, over the tables in a folder or under a URL that Spark can read.

    A view shows what is committed at each query. A table that does not exist yet is an empty view: create the views
    again once `run` has created it. Moments are UTC, whatever the session's time zone prints.
    """
    for table in TABLES.values():
        _show(spark, table, table_path(warehouse, table.name))
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {table.name}_now AS {newest_sql(table, BACKTICK)}")
        spark.sql(_at_sql(table))
    for view in VIEWS.values():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} COMMENT '{_quoted(view.comment)}' AS {view.sql}")
    register(spark)


def _show(spark: SparkSession, table: Table, path: str) -> None:
    """Create the view of a table in the columns of this release; columns missing in the table are null."""
    try:
        present = set(spark.read.format("delta").load(path).columns)
    except AnalysisException as error:
        if error.getCondition() not in ABSENT:
            raise
        present = set()
    columns = ", ".join(
        f"`{column.name}`" if column.name in present else f"CAST(NULL AS {column.type.value}) AS `{column.name}`"
        for column in table.columns
    )
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW {table.name} COMMENT '{_quoted(table.comment)}' AS SELECT {columns} "
        + (f"FROM delta.`{path}`" if present else "WHERE false")
    )


def _at_sql(table: Table) -> str:
    columns = ", ".join(f"`{column.name}` {column.type.value}" for column in table.columns)
    return (
        f"CREATE OR REPLACE TEMPORARY FUNCTION {table.name}_at(moment TIMESTAMP COMMENT 'of {table.time}, inclusive') "
        f"RETURNS TABLE({columns}) COMMENT '{_quoted(table.comment)} As of a moment.' "
        f"RETURN {newest_sql(table, BACKTICK, 'moment')}"
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
