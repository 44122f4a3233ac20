"""A Kafka, a warehouse and checkpoints that last as long as one measure; the machine and the report of its figures."""

import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics
from streaming.spark.session import start_spark
from tests.support.scratch_kafka import scratch_kafka
from tests.support.service_process import ServiceProcess

SPARK_LOG, RUN_LOG = Path(".bench/spark.log"), Path(".bench/run.log")
PACKAGES = ("pyspark", "deltalake", "kafka-python", "pyarrow", "msgspec")


@dataclass(frozen=True)
class Scratch:
    """`folder` holds all that is written; `settings_for` names a warehouse and checkpoints in it."""

    folder: Path
    kafka: EmbeddedKafka
    max_offsets_per_trigger: int

    def settings_for(self, name: str, **more: dict[str, Any]) -> Settings:
        """Settings with a fresh warehouse and fresh checkpoints for each `name`; `more` are sections of others."""
        defaults = Settings.load()
        queries = {"max_offsets_per_trigger": self.max_offsets_per_trigger} | more.pop("queries", {})
        spark = more.pop("spark", {})
        options = defaults.spark.options | {"spark.sql.streaming.numRecentProgressUpdates": "5000"}
        paths = {"warehouse": self.folder / name / "warehouse", "checkpoints": self.folder / name / "checkpoints"}
        return Settings.load(
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers, "options": {}},
            paths=paths | more.pop("paths", {}),
            queries=queries,
            spark=spark | {"options": options | spark.get("options", {})},
            **more,
        )


@contextlib.contextmanager
def scratch(max_offsets_per_trigger: int, **kafka_settings: Any) -> Iterator[Scratch]:
    """A started Kafka with the topics, by these settings, and an empty folder; both are gone afterwards."""
    with scratch_kafka(Settings.load().paths.jars) as kafka, scratch_folder() as folder:
        place = Scratch(folder, kafka, max_offsets_per_trigger)
        create_topics(place.settings_for("topics").kafka.model_copy(update=kafka_settings))
        yield place


@contextlib.contextmanager
def spark_session(settings: Settings) -> Iterator[SparkSession]:
    """A Spark session of this process, whose log goes to SPARK_LOG."""
    spark = start_spark(settings, SPARK_LOG)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="balancewatch-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def live_run(settings: Settings, **more: str) -> Iterator[ServiceProcess]:
    """`balancewatch run` on Kafka, warehouse and checkpoints of `settings`, once its first batch is done.

    `more` are other settings, `ONCALL__ENABLED` for `oncall.enabled`. It serves its metrics at free ports: another
    `run` may be on this machine. Raises ServiceEndedError, TimeoutError.
    """
    given = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
        "METRICS__PORT": "0",
        "METRICS__HEALTH_PORT": "0",
    }
    RUN_LOG.parent.mkdir(parents=True, exist_ok=True)
    RUN_LOG.unlink(missing_ok=True)
    run = ServiceProcess(RUN_LOG, {f"BALANCEWATCH_{name}": value for name, value in (given | more).items()}, "run")
    run.start()
    try:
        run.wait_until(lambda: any(settings.paths.checkpoints.glob("*/commits/[0-9]*")), seconds=600)
        yield run
    finally:
        run.stop()


def read_machine() -> dict[str, Any]:
    """`load` is the 1-minute load average: above 1, other processes share the cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30), 1),
        "cpu": next(names, platform.machine()),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def write_report(path: Path, machine: dict[str, Any], **figures: Any) -> None:
    """Write the figures as JSON beside the machine and the time."""
    report = {"machine": machine, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | figures
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
