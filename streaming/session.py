"""The Spark session, with the settings a measurement showed to matter."""

import os
import sys

from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.jars import spark_jars

_STREAMING = "spark.sql.streaming"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

OPTIONS = {
    # UTC everywhere, or Delta rebuilds its state at each commit; the JVM's zone is set by the driver's options.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Fixed plans: re-planning a stage of two tasks costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    f"{_STREAMING}.adaptive.stateless.enabled": "false",
    "spark.locality.wait": "0s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # State: RocksDB, written as changes; no empty batches, for the clock topic moves time.
    f"{_STREAMING}.stateStore.providerClass": _ROCKSDB,
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STREAMING}.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
    f"{_STREAMING}.stateStore.minDeltasForSnapshot": "50",
    f"{_STREAMING}.noDataMicroBatches.enabled": "false",
    f"{_STREAMING}.pollingDelay": "2ms",
    # A local disk needs no process forked for each file's permissions.
    f"{_STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}


def start_spark(settings: Settings, app_name: str = "balancewatch") -> SparkSession:
    """A session on `spark.master` with our jars. `spark.options` win over what stands here.

    Raises JarsError when the jars cannot be had.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = ",".join(str(path) for path in spark_jars(settings.paths.jars))
    builder = (
        SparkSession.builder.appName(app_name)
        .master(settings.spark.master)
        .config("spark.jars", jars)
        .config("spark.driver.memory", settings.spark.driver_memory)
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.executor.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.sql.shuffle.partitions", str(settings.spark.shuffle_partitions))
    )
    for key, value in {**OPTIONS, **settings.spark.options}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
