"""A client of a real RocketMQ, of any kind and release, that writes down what it holds itself."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import IO

from streaming.collector.rocketmq_jvm import OPENED_PACKAGES
from streaming.spark.jars import java
from tests.lab.field.class_paths import ClassPaths, skew_options
from tests.lab.field.client_spec import ClientSpec
from tests.support.freezing import freeze
from tests.support.rocketmq_clocks import Clocks

HEAP = "96m"
END_SECONDS = 15.0


class ClientError(RuntimeError):
    """A client refused, did not answer in time, or its JVM is gone. The message is the client's own sentence."""


class ClientProcess:
    """The JVM of one client, or of several of one release and one clock; `launch` may follow `kill`.

    `living` are the clients that run in it. It ends with us, when our end of its standard input closes; one that is
    stopped by SIGSTOP is hung up on by the kernel, for its process group is then an orphan. FOLDER/NAME.err is what it
    prints.
    """

    def __init__(self, spec: ClientSpec, folder: Path, class_paths: ClassPaths, clocks: Clocks) -> None:
        self.name = spec.process or spec.name
        self._spec, self._folder, self._class_paths, self._clocks = spec, folder, class_paths, clocks
        self._process: subprocess.Popen[str] | None = None
        self._answers: dict[str, queue.Queue[str | None]] = {}
        self._lock = threading.Lock()
        self.living: set[str] = set()

    @property
    def pid(self) -> int:
        """0 before the first launch."""
        return self._process.pid if self._process else 0

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_fits(self, spec: ClientSpec) -> None:
        """Raises ValueError for a client of another release, another clock or other jars than the JVM's."""
        of_jvm = attrgetter("is_grpc", "release", "clock_skew_s")
        if of_jvm(spec) != of_jvm(self._spec):
            raise ValueError(f"client {spec.name} cannot share a JVM with {self._spec.name}: another release or clock")

    def launch(self) -> None:
        """Start the JVM, unless it runs."""
        with self._lock:
            if self.is_alive():
                return
            self._answers, self.living = {}, set()
            home = self._folder / f"{self.name}.home"
            home.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"{self.name}.err").open("ab") as err:
                self._process = subprocess.Popen(
                    [*self._command(home), "FieldClient"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=err,
                    text=True,
                    bufsize=1,
                    process_group=0,  # Ctrl-C is for us
                    cwd=home,
                )
            assert self._process.stdout
            threading.Thread(
                target=self._read, args=(self._process.stdout, self._answers), daemon=True, name=f"{self.name}-answers"
            ).start()

    def ask(self, client: str, line: str, seconds: float) -> str:
        """What the client answers to `line`. Raises ClientError.

        One question a client at a time; clients of one JVM answer side by side.
        """
        process = self._process
        if process is None or process.poll() is not None or not process.stdin:
            raise ClientError(f"{client}: its JVM does not run; see {self._folder / self.name}.err")
        answers = self._answers.setdefault(client, queue.Queue())
        with self._lock, contextlib.suppress(BrokenPipeError):  # no answer says so
            process.stdin.write(f"{client} {line}\n")
            process.stdin.flush()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise ClientError(f"{client}: no answer to '{line}' within {seconds:.0f} s") from None
        if answer is None:
            raise ClientError(f"{client}: its JVM ended; see {self._folder / self.name}.err")
        is_done, _, said = answer.partition(" ")
        if is_done != "done":
            raise ClientError(f"{client}: '{line}': {said}")
        verb = line.partition(" ")[0]
        if verb == "start":
            self.living.add(client)
        elif verb == "stop":
            self.living.discard(client)
        return said

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is said."""
        if self.is_alive():
            freeze(self.pid)

    def thaw(self) -> None:
        if self.is_alive():
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL. Safe to call twice."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._close_input()

    def end_if_empty(self) -> None:
        """End the JVM gracefully if no client lives in it."""
        if not self.living and self._process:
            self._close_input()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            self.kill()

    def _close_input(self) -> None:
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _read(self, stdout: IO[str], answers: dict[str, "queue.Queue[str | None]"]) -> None:
        """Lines are `CLIENT done ...` or `CLIENT failed ...`."""
        with stdout:
            for line in stdout:
                client, _, answer = line.rstrip("\n").partition(" ")
                answers.setdefault(client, queue.Queue()).put(answer)
        for waiting in list(answers.values()):
            waiting.put(None)

    def _command(self, home: Path) -> list[str]:
        skew_s = self._spec.clock_skew_s
        return [
            java(),
            f"-Xmx{HEAP}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *OPENED_PACKAGES,
            f"-Duser.home={home}",
            f"-Drocketmq.client.logRoot={home}",
            f"-Drocketmq.client.localOffsetStoreDir={home / 'offsets'}",
            *(skew_options(self._class_paths.clock_agent(), skew_s) if skew_s else []),
            *self._clocks.client_options(),
            "-cp",
            self._class_paths.of(self._spec.release, is_grpc=self._spec.is_grpc),
        ]


START_SECONDS = 120.0
COMMAND_SECONDS = 60.0


class FieldClient:
    """One client. `start` may follow `stop` and `process.kill`: the same client is there again, its log continues.

    FOLDER/NAME.jsonl is its truth: a line a second, by the machine's clock. A frozen or dead client writes nothing.
    """

    def __init__(
        self,
        spec: ClientSpec,
        name_server: str,
        folder: Path,
        clocks: Clocks,
        process: ClientProcess,
        bootstrap_servers: str,
    ) -> None:
        """`name_server` is a proxy's address for gRPC, `bootstrap_servers` the Kafka of one that is `hooked`."""
        self.spec, self.name_server, self.process = spec, name_server, process
        self.truth_log = folder / f"{spec.name}.jsonl"
        self._spec_file = folder / f"{spec.name}.spec.json"
        self._clocks, self._bootstrap_servers = clocks, bootstrap_servers
        self.client_id = ""

    @property
    def name(self) -> str:
        return self.spec.name

    def start(self) -> None:
        """Return when the client has started; it has not rebalanced yet. Raises ClientError."""
        spec = {
            **asdict(self.spec),
            "name_server": self.name_server,
            "truth_log": str(self.truth_log),
            "bootstrap_servers": self._bootstrap_servers,
            "heartbeat_ms": self._clocks.heartbeat_ms,
            "route_poll_ms": self._clocks.route_poll_ms,
            "persist_ms": self._clocks.persist_ms,
        }
        self._spec_file.write_text(json.dumps(spec))
        self.process.launch()
        self.client_id = self.process.ask(self.name, f"start {self._spec_file}", START_SECONDS)

    def command(self, line: str) -> None:
        """Return when the client has done it. Raises ClientError with what the client says.

        hang | unhang        its listener, or its sending, blocks
        consume_ms N         its listener takes N ms a message from now on
        rate_per_s N         of a producer
        suspend | resume     of a consumer: pulls no more
        gc SECONDS           the whole JVM stops for so long: as brokers see a long GC, by SIGSTOP; returns at once
        """
        verb, _, arguments = line.partition(" ")
        if verb == "gc":
            self.process.freeze()
            threading.Timer(float(arguments), self.process.thaw).start()
        else:
            self.process.ask(self.name, line, COMMAND_SECONDS)

    def stop(self) -> None:
        """A clean shutdown: UNREGISTER_CLIENT to every broker. Its JVM ends when nobody else lives in it."""
        self.process.ask(self.name, "stop", COMMAND_SECONDS)
        self.process.end_if_empty()


class FieldClients:
    """Clients by name, those of one `process` in one JVM: what a stage makes them with."""

    def __init__(self, folder: Path, class_paths: ClassPaths, clocks: Clocks, bootstrap_servers: str = "") -> None:
        self._folder, self._class_paths, self._clocks = folder, class_paths, clocks
        self._bootstrap_servers = bootstrap_servers
        self._shared: dict[str, ClientProcess] = {}
        self.clients: dict[str, FieldClient] = {}

    def add(self, spec: ClientSpec, name_server: str) -> FieldClient:
        """The client, not started yet."""
        process = self._shared.get(spec.process)
        if process is None:
            process = ClientProcess(spec, self._folder, self._class_paths, self._clocks)
        if spec.process:
            process.check_fits(spec)
            self._shared[spec.process] = process
        client = FieldClient(spec, name_server, self._folder, self._clocks, process, self._bootstrap_servers)
        self.clients[spec.name] = client
        return client

    def close(self) -> None:
        """End every JVM."""
        for client in self.clients.values():
            client.process.kill()
