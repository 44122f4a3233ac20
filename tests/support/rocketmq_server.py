"""A server process of RocketMQ: NameServer, broker or proxy, from its own jars, on ports of the loopback.

It has RocketMQ's own settings, sized for a laptop.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from streaming.collector.rocketmq_jvm import jvm_options
from streaming.kafka_io.embedded_kafka import free_port
from streaming.spark.jars import class_path, java
from tests.support.freezing import end, freeze

START_SECONDS = 120.0
STOP_SECONDS = 60.0

CLUSTER = "DefaultCluster"

NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"

Lines = Mapping[str, object]
"""Of a properties file."""

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
    """A RocketMQ server process: NameServer, broker or proxy."""

    def __init__(
        self,
        jars: Path,
        folder: Path,
        port: int,
        main: list[str],
        heap: str,
        *,
        jar_set: str = "rocketmq",
        options: Sequence[str] = (NO_TLS,),
    ) -> None:
        """Start it; `wait` returns when it listens on `port`. `jar_set` is one of streaming.spark.jars.SETS."""
        folder.mkdir(parents=True)
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._log = folder / "server.log"
        self._name = main[0]
        _, _, *usual = jvm_options(jars, folder, heap, "WARN")
        command = [java(), "-cp", f"{folder}:{class_path(jar_set, jars)}", *usual, "-XX:MaxDirectMemorySize=128m"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *options, *main],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, "ROCKETMQ_HOME": str(folder)},
            )
        self._slices: _Slices | None = None

    def wait(self) -> None:
        wait_for(f"{self._name} listens; see {self._log}", self._listens)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether its process runs, frozen or not."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: the machine is gone, nobody says good-bye."""
        self._end_slices()
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, at which it unregisters first; SIGKILL after STOP_SECONDS."""
        self.thaw()
        end(self._process, STOP_SECONDS)

    def freeze(self) -> None:
        """SIGSTOP: its connections stay, nothing is answered."""
        self._end_slices()
        if self.is_alive():
            freeze(self.pid)

    def slow(self, stopped_ms: int, running_ms: int) -> None:
        """Freeze it for `stopped_ms`, let it run for `running_ms`, in turn, until `thaw`."""
        self._end_slices()
        self._slices = _Slices(self._signal, stopped_ms / 1000, running_ms / 1000)

    def thaw(self) -> None:
        """The end of `freeze` and of `slow`."""
        self._end_slices()
        self._signal(signal.SIGCONT)

    def _end_slices(self) -> None:
        slices, self._slices = self._slices, None
        if slices:
            slices.end()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive():
            os.kill(self.pid, number)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class _Slices:
    """SIGSTOP and SIGCONT in turn, by a thread of its own; a process that `end` leaves runs."""

    def __init__(self, send: Callable[[signal.Signals], None], stopped_seconds: float, running_seconds: float) -> None:
        self._send, self._times = send, (stopped_seconds, running_seconds)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="slices")
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        stopped_seconds, running_seconds = self._times
        while not self._is_over.is_set():
            self._send(signal.SIGSTOP)
            self._is_over.wait(stopped_seconds)
            self._send(signal.SIGCONT)
            self._is_over.wait(running_seconds)


BELOW_CONNECTIONS = range(10_240, 32_000)


def broker_port() -> int:
    """A port whose neighbours are free too: a broker also listens on port + 1 (HA) and port - 2 (VIP channel).

    It is below those that the system gives to connections, one of which may take a neighbour before the broker does.
    """
    while True:
        port = secrets.choice(BELOW_CONNECTIONS)
        with contextlib.ExitStack() as held:
            try:
                for offset in (-2, 0, 1):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            return port


def start_name_server(
    jars: Path,
    folder: Path,
    port: int = 0,
    *,
    jar_set: str = "rocketmq",
    options: Sequence[str] = (NO_TLS,),
) -> Server:
    """A NameServer on `port`, or on a free one; `folder` is made."""
    port = port or free_port()
    config = write_lines(folder.with_suffix(".properties"), {"listenPort": port})
    return Server(jars, folder, port, [NAME_SERVER, "-c", str(config)], "128m", jar_set=jar_set, options=options)


def start_broker(
    jars: Path, folder: Path, lines: Lines, *, jar_set: str = "rocketmq", options: Sequence[str] = (NO_TLS,)
) -> Server:
    """A broker with `lines` as its configuration (`broker_lines`); `folder` is made."""
    config = write_lines(folder.with_suffix(".properties"), lines)
    port = int(str(lines["listenPort"]))
    return Server(jars, folder, port, [BROKER, "-c", str(config)], "384m", jar_set=jar_set, options=options)


def broker_lines(broker_name: str, port: int, name_server: str, store: Path, broker_id: int = 0) -> dict[str, object]:
    """BrokerConfig and MessageStoreConfig; `broker_id` above 0 is a slave. HA listens on port + 1."""
    return {
        "brokerClusterName": CLUSTER,
        "brokerName": broker_name,
        "brokerId": broker_id,
        "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": name_server,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
        "mappedFileSizeCommitLog": 16 << 20,
        "mapedFileSizeCommitLog": 16 << 20,
        "mappedFileSizeConsumeQueue": 20 * 3000,
        "mapedFileSizeConsumeQueue": 20 * 3000,
        "maxMessageSize": 256 << 10,  # each thread that puts or times a message has a buffer of its size off the heap
        "maxIndexNum": 4000,
        "maxHashSlotNum": 1000,
        "diskMaxUsedSpaceRatio": 99,
        "registerNameServerPeriod": 10_000,
        "transactionMetricFlushInterval": 200,  # ms that a service spins after the start
        "timerFlushIntervalMs": 60_000,  # the default takes a seventh of a core for delayed messages; no test sends any
    }


def write_lines(path: Path, lines: Lines) -> Path:
    """A properties file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path
