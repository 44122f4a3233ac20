"""A Kafka, a warehouse and checkpoints that last as long as one measure; the machine and the report of its figures."""

import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.support.scratch_kafka import scratch_kafka

SPARK_LOG = Path(".bench/spark.log")
PACKAGES = ("pyspark", "delta-spark", "deltalake", "kafka-python", "pyarrow", "msgspec")


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
        return Settings.load(
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers, "options": {}},
            paths={"warehouse": self.folder / name / "warehouse", "checkpoints": self.folder / name / "checkpoints"},
            queries=queries,
            spark={"options": {**defaults.spark.options, "spark.sql.streaming.numRecentProgressUpdates": "5000"}},
            **more,
        )


@contextlib.contextmanager
def scratch(max_offsets_per_trigger: int) -> Iterator[Scratch]:
    """A started Kafka and an empty folder; both are gone afterwards."""
    with scratch_kafka(Settings.load().paths.jars) as kafka, scratch_folder() as folder:
        yield Scratch(folder, kafka, max_offsets_per_trigger)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="balancewatch-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Machine:
    """`load` is the 1-minute load average before the measure: above 1, other processes shared the cores."""

    cores: int
    memory_gib: float
    cpu: str
    load: float
    python: str
    versions: dict[str, str]

    def __str__(self) -> str:
        return f"{self.cores} cores ({self.cpu}), {self.memory_gib} GiB, load {self.load} before"


def read_machine() -> Machine:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30), 1),
        cpu=next(names, platform.machine()),
        load=round(os.getloadavg()[0], 1),
        python=platform.python_version(),
        versions={name: version(name) for name in PACKAGES},
    )


def write_report(path: Path, machine: Machine, **figures: Any) -> None:
    """Write the figures as JSON beside the machine and the time."""
    report = {"machine": asdict(machine), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | figures
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
