"""A Spark standalone cluster for tests: a master and its workers on the loopback, ended by process id.

Nothing of ours is on the path of any of them.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from streaming.kafka_io.embedded_kafka import free_port
from tests.support.freezing import end
from tests.support.rocketmq_server import wait_for
from tests.support.session_process import read_stats

_HOME = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    """`address` is the master's, `work` the folder of each worker, with what its executors say."""

    address: str
    work: tuple[Path, ...]
    workers: tuple[int, ...]
    """Their process ids."""

    def executors(self) -> list[int]:
        """Process ids of those that run, one a worker at the most."""
        living = [(pid, int(fields[1])) for pid, (_, fields) in read_stats().items() if fields[0] != "Z"]
        return [pid for worker in self.workers for pid, parent in living if parent == worker]

    def executor_logs(self) -> list[str]:
        """What the executors of each worker said so far."""
        return [
            "".join(path.read_text(errors="replace") for path in sorted(work.glob("app-*/*/stderr")))
            for work in self.work
        ]


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Each worker has one core, so that it has one executor. Logs and their files are under `folder`."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    started = []
    try:
        started.append(_start(folder / "master.log", "master.Master", "--host", "127.0.0.1", "--port", str(port)))
        _wait_for(folder / "master.log", "New state: ALIVE", started[-1])
        work = tuple(folder / f"work{number}" for number in range(workers))
        for number, scratch in enumerate(work):
            log = folder / f"worker{number}.log"
            started.append(_start(log, "worker.Worker", "--cores", "1", "--work-dir", str(scratch), address))
            _wait_for(log, "Successfully registered", started[-1])
        yield Cluster(address, work, tuple(process.pid for process in started[1:]))
    finally:
        for process in reversed(started):
            end(process, 30)


def _start(log: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment = known | {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(_HOME / "bin" / "spark-class"), f"{_PACKAGE}.{name}", "--webui-port", "0", *arguments]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=log.parent)


def _wait_for(log: Path, text: str, process: "subprocess.Popen[bytes]") -> None:
    def is_there() -> bool:
        assert process.poll() is None, f"ended by itself, see {log}"
        return text in log.read_text(errors="replace")

    wait_for(f"{text!r} is in {log}", is_there)
