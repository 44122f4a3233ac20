"""A server process of RocketMQ: NameServer or broker, from its own jars, on ports of the loopback."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from streaming.ingest.embedded_kafka import free_port
from streaming.ingest.rocketmq_jvm import jvm_options
from streaming.jars import java

START_SECONDS = 120.0

NO_TLS = "-Dtls.server.mode=disabled"
"""Without it each server makes itself a certificate at its start, a broker two, each a second of a core."""

Answer = TypeVar("Answer")


def wait_for(
    what: str, ask: Callable[[], Answer | None], seconds: float = START_SECONDS, every_seconds: float = 0.1
) -> Answer:
    """The first answer of `ask` that is true, asked `every_seconds`. Fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(every_seconds)


class Server:
    """A RocketMQ server process: NameServer or broker."""

    def __init__(self, jars: Path, folder: Path, port: int, main: list[str], heap: str) -> None:
        """Start it; `wait` returns when it listens on `port`."""
        folder.mkdir(parents=True)
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._log = folder / "server.log"
        self._name = main[0]
        command = [java(), *jvm_options(jars, folder, heap, "WARN"), "-XX:MaxDirectMemorySize=128m", NO_TLS]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *main],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, "ROCKETMQ_HOME": str(folder)},
            )

    def wait(self) -> None:
        wait_for(f"{self._name} listens; see {self._log}", self._listens)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: the machine is gone, nobody says good-bye."""
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def broker_port() -> int:
    """A port whose neighbours are free too: a broker also listens on port + 1 (HA) and port - 2 (VIP channel)."""
    while True:
        port = free_port()
        with contextlib.ExitStack() as held:
            try:
                for offset in (-2, 0, 1):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            return port
