"""The embedded Kafka: one KRaft process on the loopback with its own data folder, for the demo and for tests.

Production names its brokers in `kafka.bootstrap_servers`.
"""

import socket
import subprocess
import time
from pathlib import Path

from streaming.spark.jars import LOG4J, archive_options, class_path, java
from streaming.system.known_error import BalancewatchError
from streaming.system.private_folder import make_private

CLUSTER_ID = "YmFsYW5jZXdhdGNoLWthZg"
READY_SECONDS = 60.0
STOP_SECONDS = 20.0

JVM_OPTIONS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""C1 alone starts in half the time; no drain waits for the broker."""


class EmbeddedKafkaError(BalancewatchError):
    """The embedded Kafka does not run. The message names its log."""


def free_port() -> int:
    """Return a TCP port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class EmbeddedKafka:
    """A running Kafka process at `bootstrap_servers`."""

    def __init__(self, jars: Path, data_dir: Path, port: int | None = None) -> None:
        """Format `data_dir` if it is new, start Kafka on `port` (default: a free one), and wait until it answers.

        Raises EmbeddedKafkaError if the port is taken, the process ends, or READY_SECONDS pass; no process is left
        behind then.
        """
        self.data_dir = data_dir.expanduser().resolve()
        self.port = port or free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.log = self.data_dir / "kafka.log"
        if _answers(self.port):
            raise EmbeddedKafkaError(f"port {self.port} is in use; choose another with --port")
        make_private(self.data_dir)
        logs = f"-Dlog4j2.configurationFile={LOG4J}", "-Dbalancewatch.level=warn"
        command = [java(), "-cp", class_path("kafka", jars), *JVM_OPTIONS, *archive_options("kafka"), *logs]
        properties = self._write_properties()
        self._format(command, properties)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command line
                [*command, "kafka.Kafka", str(properties)], stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End the process: SIGTERM, and SIGKILL after STOP_SECONDS. Safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _write_properties(self) -> Path:
        controller = free_port()
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data_dir / "log",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "message.max.bytes": 16 << 20,  # a message over the contract's limit reaches quarantine
        }
        path = self.data_dir / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def _format(self, command: list[str], properties: Path) -> None:
        if (self.data_dir / "log" / "meta.properties").is_file():
            return
        formatted = subprocess.run(  # noqa: S603  # our own command line
            [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)],
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )
        if formatted.returncode:
            raise EmbeddedKafkaError(f"Kafka cannot use {self.data_dir}: {formatted.stderr.strip()[-300:]}")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not _answers(self.port):
            if not self.is_alive():
                raise EmbeddedKafkaError(f"Kafka exited with code {self._process.returncode}; see {self.log}")
            if time.monotonic() > deadline:
                raise EmbeddedKafkaError(f"Kafka did not answer within {READY_SECONDS:.0f} s; see {self.log}")
            time.sleep(0.05)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
