"""`python -m tests.support.class_archives`: one short run, whose JVMs leave archives of their classes (AppCDS).

Spark and the embedded Kafka then start in half the CPU time. Another JDK or environment needs its own.
"""

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from conf.settings import Settings
from streaming.kafka_io import embedded_kafka
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.service.service import Service
from streaming.simulator.play import play
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.spark.jars import archive_of
from streaming.text.output import warn
from streaming.text.times import wall_ms

SECONDS = 120
"""Virtual seconds of the run: one batch that makes every kind of object."""


def record(folder: Path) -> None:
    """Write `spark.jsa` and `kafka.jsa` to `folder`, which gets the files of a run, too. Ends Spark's JVM."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={folder}/spark.jsa"
    embedded_kafka.JVM_OPTIONS += (f"-XX:ArchiveClassesAtExit={folder}/kafka.jsa",)
    jars = Settings.load().paths.jars
    kafka = embedded_kafka.EmbeddedKafka(jars, folder / "data")
    try:
        settings = Settings.load(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "options": {}},
            paths={"warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints", "jars": jars},
            quality={"every_batches": 0},
            spark={"master": "local[2]", "options": {}},
        )
        create_topics(settings.kafka)
        simulation = Simulation(load_scenario("demo"), 1, wall_ms() - SECONDS * 1000)
        with Publisher(settings.kafka) as publisher:
            play(simulation.events(SECONDS * 1000), publisher, speed=None, stop=threading.Event())
        with Service(settings, available_now=True, jvm_log=folder / "spark.log") as service:
            service.wait(threading.Event())
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()  # ends the JVM
        gateway.proc.wait()
    finally:
        kafka.stop()


def main() -> None:
    """Record the archives that this JDK and this environment lack."""
    archives = [archive_of(name) for name in ("spark", "kafka")]
    if all(archive.is_file() for archive in archives):
        return
    warn("recording the classes of Spark and Kafka, which then start sooner (once, half a minute)")
    archives[0].parent.mkdir(exist_ok=True)
    for archive in archives:
        archive.unlink(missing_ok=True)  # a JVM that reads one writes none
    with tempfile.TemporaryDirectory(dir=archives[0].parent) as folder:
        record(Path(folder))
        for archive in archives:
            recorded = Path(folder) / f"{archive.name.partition('-')[0]}.jsa"
            with recorded.open("rb") as file:
                os.fsync(file.fileno())  # a JVM crashes on one that a power cut shortened
            recorded.replace(archive)


if __name__ == "__main__":
    main()
