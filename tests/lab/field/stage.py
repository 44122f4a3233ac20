"""What all plays of a session share: RocketMQ with its links, Kafka, `balancewatch run` and `balancewatch collect`."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.lab.field.class_paths import ClassPaths
from tests.lab.field.cluster import FieldCluster
from tests.lab.field.links import Links
from tests.support.rocketmq_clocks import Clocks
from tests.support.service_process import ServiceProcess


class StoppedError(RuntimeError):
    """Ctrl-C, or a service that ended by itself."""


@dataclass
class FieldStage:
    """`stop` ends every wait of every play."""

    folder: Path
    cluster: FieldCluster
    links: Links
    class_paths: ClassPaths
    clocks: Clocks
    run: ServiceProcess
    collector: ServiceProcess
    stop: threading.Event
    bootstrap_servers: str

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def wait_until(self, time_s: float) -> None:
        """Until that time of the machine's clock. Raises StoppedError, and ServiceEndedError."""
        while (left := time_s - time.time()) > 0:
            if self.stop.wait(min(left, 1.0)):
                raise StoppedError("stopped")
            self.run.check()
            self.collector.check()


@contextlib.contextmanager
def field_stage(
    folder: Path, jars: Path, clocks: Clocks, stop: threading.Event, *, proxy: bool = False
) -> Iterator[FieldStage]:
    """Everything started, as an operator starts it; everything is ended with the block, in the other order.

    `proxy`: a 5.x proxy, too, for gRPC clients.
    """
    with contextlib.ExitStack() as stack:
        kafka = EmbeddedKafka(jars, folder / "kafka")
        stack.callback(kafka.stop)
        environment = {
            "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "BALANCEWATCH_PATHS__WAREHOUSE": str(folder / "warehouse"),
            "BALANCEWATCH_PATHS__CHECKPOINTS": str(folder / "checkpoints"),
            "BALANCEWATCH_PATHS__JARS": str(jars),
            "BALANCEWATCH_METRICS__PORT": "0",
            "BALANCEWATCH_METRICS__RELAY_PORT": "0",
        }
        rules = [] if clocks.factor == 1 else ["--rules", str(clocks.write_rules(folder / "rules.toml"))]
        run = ServiceProcess(folder / "run.log", environment, "run", *rules)
        stack.callback(run.stop)
        run.start()  # its JVM needs Kafka alone, and starts beside those of RocketMQ
        (folder / "rocketmq").mkdir()
        cluster = FieldCluster(jars, folder / "rocketmq", clocks, proxy=proxy)
        stack.callback(cluster.stop)
        links = Links(cluster.servers)
        stack.callback(links.close)
        arguments = ["--name-server", cluster.name_server, "--interval", str(clocks.collect_seconds), "--probe"]
        collector = ServiceProcess(folder / "collect.log", environment, "collect", *arguments)
        stack.callback(collector.stop)
        collector.start()
        class_paths = ClassPaths(jars, folder / "classes")
        yield FieldStage(folder, cluster, links, class_paths, clocks, run, collector, stop, kafka.bootstrap_servers)
