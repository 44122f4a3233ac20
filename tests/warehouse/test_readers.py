"""What the appender wrote is read alike by delta-rs, DuckDB and Spark, with filters that its statistics decide."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, Transaction
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.maintenance.files import MB
from streaming.maintenance.small_files import SmallFiles
from streaming.warehouse.appender import Appender
from tests.warehouse.tables import make_table, numbers, read

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FILES = ((1, 2, 3), (10,), (7, 12), (2_000_000_000_000,))


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = make_table(tmp_path / "table")
    appender = Appender(path)
    for number, values in enumerate(FILES):
        appender.append(numbers(*values), Transaction("app", number))
    return path


def test_delta_rs_and_duckdb_find_each_row_by_number_and_by_time(path: str) -> None:
    dataset, number, time = DeltaTable(path).to_pyarrow_dataset(), ds.field("number"), ds.field("at")
    for value in (value for values in FILES for value in values):
        at = EPOCH + timedelta(milliseconds=value)
        for wanted in (number == value, time == at, (time >= at) & (time <= at)):
            assert dataset.to_table(filter=wanted)["number"].to_pylist() == [value]
        assert duckdb.from_arrow(dataset).filter(f"number = {value}").fetchall()[0][0] == value
        assert dataset.to_table(filter=number == value + 1_000_001).num_rows == 0


@pytest.mark.spark
def test_spark_reads_filters_streams_and_writes_between_our_appends(
    path: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # of a few rows
    ours, expected = Appender(path), sorted(value for values in FILES for value in values)
    table = spark.read.format("delta").load(path)
    assert sorted(row.number for row in table.collect()) == expected
    for value in expected:
        assert [row.number for row in table.filter(F.col("number") == value).collect()] == [value]
        at = F.timestamp_millis(F.lit(value))
        assert [row.number for row in table.filter((F.col("at") >= at) & (F.col("at") <= at)).collect()] == [value]
    row = spark.sql("select 50L as number, timestamp_millis(50) as at")
    row.write.format("delta").mode("append").option("txnAppId", "spark").option("txnVersion", 1).save(path)
    assert ours.append(numbers(51), Transaction("app", 4))
    assert not ours.append(numbers(50), Transaction("spark", 1))
    assert read(path) == sorted([*expected, 50, 51])

    seen: list[int] = []
    stream = spark.readStream.format("delta").load(path).writeStream.trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink = stream.foreachBatch(lambda batch, _: seen.extend(row.number for row in batch.collect()))
    sink.start().awaitTermination()
    files = SmallFiles(path, MB)
    assert all(map(files.compact, files.bins(MB)))
    ours.append(numbers(52), Transaction("app", 5))
    DeltaTable(path).optimize.compact()
    sink.start().awaitTermination()
    assert sorted(seen) == sorted([*expected, 50, 51, 52])
    assert sorted(row.number for row in spark.read.format("delta").load(path).collect()) == sorted(seen)
