"""The Spark session, with the settings a measurement showed to matter."""

import atexit
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from conf.location import is_store
from conf.settings import Settings, SettingsError
from streaming.logs.jvm_lines import JvmLines
from streaming.logs.logs import keep_stderr
from streaming.spark.jars import LOG4J, archive_options, spark_jars
from streaming.system.private_folder import make_private
from streaming.system.stopping import keep_from_sigterm
from streaming.warehouse.table_store import endpoint_url

WORKER_PYTHON = Path(__file__).parent / "worker_python"

ON_ONE_MACHINE = {
    # Executors elsewhere get our code once a worker runs, and jars once they have a file system.
    "spark.python.daemon.module": "streaming.spark.worker_daemon",
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
}
"""Options of a local master."""

ROOT = Path(__file__).parents[2]
"""The checkout, or the folder where the wheel was installed."""

ROOMS = ("conf", "schemas", "streaming", "udfs")

LEFT_OUT = ("__pycache__", "assets", "samples", "scenarios", "manual")
"""Folders that no executor reads."""

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"

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
    # A busy machine starts a Python worker late, which is no failure.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Each batch describes its plan for that UI: the short form is a twentieth of a batch cheaper.
    "spark.sql.ui.explainMode": "simple",
    # State: RocksDB, written as changes; no empty batches, for the clock topic moves time.
    f"{_STREAMING}.stateStore.providerClass": _ROCKSDB,
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STREAMING}.stateStore.rocksdb.writeBufferSizeMB": "8",  # 64 by default, filled before it is flushed
    f"{_STREAMING}.stateStore.rocksdb.trackTotalNumberOfRows": "false",
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

IN_BUCKET = {
    # A file is one PUT, not a PUT, a copy and a delete.
    f"{_STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    ),
    # State on its way to the bucket stays in memory: the files of the default are readable by other users.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    "spark.hadoop.fs.s3a.multipart.size": "8M",
    # One client for all: the other one, of Netty 4.1, meets Spark's Netty 4.2.
    "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
}
"""Options for checkpoints in a bucket."""


def bucket_options() -> dict[str, str]:
    """Return IN_BUCKET, with endpoint and region as the tables' store has them.

    The keys are not among them: Spark takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN from the
    environment, and sends them to the executors (SparkHadoopUtil).
    """
    environment = os.environ
    is_by_host = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in ("1", "true")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    address = endpoint_url()
    return {
        **IN_BUCKET,
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.hadoop.fs.s3a.path.style.access": str(not is_by_host).lower(),
        **({"spark.hadoop.fs.s3a.endpoint": address} if address else {}),
    }


def start_spark(settings: Settings, jvm_log: Path | JvmLines | None = None) -> SparkSession:
    """Return a session on `spark.master`. `spark.options` take precedence over OPTIONS.

    `jvm_log` gets all output of the JVM and its Python workers: a file for people, or this process's log. Raises
    JarsError if the jars cannot be downloaded, SettingsError if the temporary folder is mounted noexec.
    """
    folder = temporary_folder()
    _choose_python(settings.spark.master)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # glibc otherwise gives each of the JVM's threads its own heap
    is_in_bucket = is_store(settings.paths.checkpoints)
    jars = [str(path) for path in spark_jars(settings.paths.jars)]
    form = "json" if isinstance(jvm_log, JvmLines) else "people"
    # One thread collects: the heap is small, and two cores have others to serve. It starts small, not at a 64th of the
    # machine's memory, and grows by a quarter of what lives: by default garbage fills another 100 MiB.
    options = "-Xms128m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:+UseSerialGC -Duser.timezone=UTC"
    options += f" -Dlog4j2.configurationFile={LOG4J} -Dbalancewatch.log={form}"
    options += "".join(f' "{option}"' for option in (f"-Djava.io.tmpdir={folder}", *archive_options("spark")))
    # One process needs no copy of each jar, and an archive holds only classes of the class path as it was.
    is_one = settings.spark.master.partition("[")[0] == "local"
    of_bucket = [str(path) for path in spark_jars(settings.paths.jars, "s3")] if is_in_bucket else []
    sent = of_bucket if is_one else jars + of_bucket
    conf = {
        "spark.app.name": "balancewatch",
        "spark.master": settings.spark.master,
        **({"spark.driver.extraClassPath": ":".join(jars), **ON_ONE_MACHINE} if is_one else {}),
        **({"spark.jars": ",".join(sent)} if sent else {}),
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        **OPTIONS,
        **(bucket_options() if is_in_bucket else {}),
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
        archive = write_archive()  # the executors fetch it from this process, as the jars
        spark.sparkContext.addPyFile(str(archive))
        atexit.register(shutil.rmtree, archive.parent, ignore_errors=True)
    keep_from_sigterm(spark._jvm)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # SparkContext's own handler would end the process in mid-batch
    return spark


def temporary_folder() -> str:
    """Return the JVM's folder for temporary files: /tmp, or TMPDIR if no library can be loaded from /tmp.

    Raises SettingsError if none can be loaded from either.
    """
    for folder in ("/tmp", tempfile.gettempdir()):  # noqa: S108  # the JVM's default; it does not read TMPDIR
        if Path(folder).is_dir() and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    raise SettingsError(
        f"the temporary folder {folder} is mounted noexec, and Spark's RocksDB cannot load its library from there; "
        "set TMPDIR to a folder with exec, or mount it so (docker run --tmpfs /tmp:exec)"
    )


def launch_jvm(options: Mapping[str, str]) -> None:
    """Start Spark's JVM unless this process has one; a session that is built next runs in it.

    pyspark would put each setting on the command line, readable by every user of the machine, and `spark.options` may
    hold an object store's key. Here they are in a file for the owner only, deleted once the JVM has read it.
    """
    if SparkContext._gateway is not None:
        return
    number, name = tempfile.mkstemp(prefix="balancewatch-spark-", suffix=".properties")  # 0600
    before = os.environ.get(_SUBMIT_ARGS)
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in options.items())
        # The operator's own spark-defaults.conf and PYSPARK_SUBMIT_ARGS are read as before.
        os.environ[_SUBMIT_ARGS] = f"--properties-file {name} --load-spark-defaults {before or 'pyspark-shell'}"
        SparkContext._ensure_initialized()
    finally:
        os.environ.pop(_SUBMIT_ARGS, None)
        if before is not None:
            os.environ[_SUBMIT_ARGS] = before
        Path(name).unlink()


def _escaped(text: str) -> str:
    """Return the text for java.util.Properties: special characters, blanks and non-ASCII characters as \\uXXXX."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def write_archive(root: Path = ROOT) -> Path:
    """Write a zip of the rooms to a temporary folder, as `spark-submit --py-files` takes it.

    Executors thus run the driver's code, whatever is installed there.
    """
    archive = Path(tempfile.mkdtemp(prefix="balancewatch-code-")) / "balancewatch.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for room in ROOMS:
            for path in sorted((root / room).rglob("*")):
                if path.is_file() and not {*LEFT_OUT} & {*path.relative_to(root).parts}:
                    file.write(path, path.relative_to(root))
    return archive


def _choose_python(master: str) -> None:
    """Set what starts the Python workers: on this machine WORKER_PYTHON, unless the environment names another."""
    is_near = master.startswith("local") and os.access(WORKER_PYTHON, os.X_OK)
    os.environ["SPARK_WORKER_PYTHON"] = sys.executable
    if os.environ.get("PYSPARK_PYTHON") in (None, str(WORKER_PYTHON), sys.executable):
        os.environ["PYSPARK_PYTHON"] = str(WORKER_PYTHON) if is_near else sys.executable


@contextlib.contextmanager
def _output_to(place: Path | JvmLines | None) -> Iterator[None]:
    """Redirect file descriptors 1 and 2: a child process started within keeps the redirection."""
    if place is None:
        yield
        return
    if isinstance(place, Path):
        make_private(place.parent)
        place.touch(mode=0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with keep_stderr():
        with place.open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)
