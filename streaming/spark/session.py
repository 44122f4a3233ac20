"""The Spark session, with the settings a measurement showed to matter."""

import atexit
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.logs.jvm_lines import JvmLines
from streaming.spark.code_archive import write_archive
from streaming.spark.jars import spark_jars
from streaming.spark.launch import launch_jvm
from streaming.system.private_folder import make_private
from streaming.system.stopping import keep_from_sigterm

WORKER_PYTHON = Path(__file__).parent / "worker_python"

LOG4J = Path(__file__).parents[2] / "conf" / "log4j2.properties"

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
    # A machine that is busy starts a Python worker late: that is no failure.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # State: RocksDB, written as changes; no empty batches, for the clock topic moves time.
    f"{_STREAMING}.stateStore.providerClass": _ROCKSDB,
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STREAMING}.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
    f"{_STREAMING}.stateStore.minDeltasForSnapshot": "50",
    # A checksum file beside each state file is a seventh of a small batch; RocksDB and the file system have theirs.
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false",
    f"{_STREAMING}.noDataMicroBatches.enabled": "false",
    f"{_STREAMING}.pollingDelay": "20ms",
    # A local disk needs no process forked for each file's permissions.
    f"{_STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}


def start_spark(settings: Settings, jvm_log: Path | JvmLines | None = None) -> SparkSession:
    """A session on `spark.master` with our jars. `spark.options` win over what stands here.

    With `jvm_log` all that the JVM and its Python workers print goes there, for as long as they live: a file for
    people, or our own log. Raises JarsError when the jars cannot be had.
    """
    _choose_python(settings.spark.master)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # glibc gives each of the JVM's threads a heap of its own otherwise
    jars = ",".join(str(path) for path in spark_jars(settings.paths.jars))
    form = "json" if isinstance(jvm_log, JvmLines) else "people"
    # One thread collects: the heap is small, and two cores have others to serve.
    options = f"-XX:+UseSerialGC -Duser.timezone=UTC -Dlog4j2.configurationFile={LOG4J} -Dbalancewatch.log={form}"
    conf = {
        "spark.app.name": "balancewatch",
        "spark.master": settings.spark.master,
        "spark.jars": jars,
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        **OPTIONS,
        **settings.spark.options,
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    interrupt = signal.getsignal(signal.SIGINT)
    with _output_to(jvm_log):
        launch_jvm(conf)
        spark: SparkSession = builder.getOrCreate()
    if not settings.spark.master.startswith("local"):
        _hand_out_code(spark)
    keep_from_sigterm(spark._jvm)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # SparkContext puts its own there, which would end us in mid-batch
    return spark


def _hand_out_code(spark: SparkSession) -> None:
    """To the executors, which fetch it from this process as they fetch the jars."""
    archive = write_archive()
    spark.sparkContext.addPyFile(str(archive))
    atexit.register(shutil.rmtree, archive.parent, ignore_errors=True)


def _choose_python(master: str) -> None:
    """What starts the Python workers: on this machine ours, which is faster, unless the environment names another."""
    is_near = master.startswith("local") and os.access(WORKER_PYTHON, os.X_OK)
    os.environ["SPARK_WORKER_PYTHON"] = sys.executable
    if os.environ.get("PYSPARK_PYTHON") in (None, str(WORKER_PYTHON), sys.executable):
        os.environ["PYSPARK_PYTHON"] = str(WORKER_PYTHON) if is_near else sys.executable


@contextlib.contextmanager
def _output_to(place: Path | JvmLines | None) -> Iterator[None]:
    """File descriptors 1 and 2 go there meanwhile: a child process started now keeps it."""
    if place is None:
        yield
        return
    if isinstance(place, Path):
        make_private(place.parent)
        place.touch(mode=0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with place.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
