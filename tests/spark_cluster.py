"""A Spark standalone cluster for tests: a master and one worker on the loopback, ended by process id."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_HOME = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"
WAIT_SECONDS = 120.0


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """The master's address. Logs and the worker's files are under `folder`."""
    address = f"spark://127.0.0.1:{_free_port()}"
    port = address.rpartition(":")[2]
    started = []
    try:
        started.append(_start(folder / "master.log", "master.Master", "--host", "127.0.0.1", "--port", port))
        _wait_for(folder / "master.log", "New state: ALIVE", started[-1])
        scratch = str(folder / "work")
        started.append(_start(folder / "worker.log", "worker.Worker", "--cores", "2", "--work-dir", scratch, address))
        _wait_for(folder / "worker.log", "Successfully registered", started[-1])
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)


def _start(log: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = os.environ | {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(_HOME / "bin" / "spark-class"), f"{_PACKAGE}.{name}", "--webui-port", "0", *arguments]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def _wait_for(log: Path, text: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, f"ended by itself, see {log}"
        assert time.monotonic() < deadline, f"{text!r} is not in {log} after {WAIT_SECONDS} s"
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
