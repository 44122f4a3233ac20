"""A JVM in which clients live: started, asked line by line, frozen and killed by its process id."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO

from streaming.collector.rocketmq_jvm import OPENED_PACKAGES
from streaming.spark.jars import java
from tests.field.class_paths import ClassPaths, skew_options
from tests.field.client_spec import ClientSpec
from tests.freezing import freeze
from tests.rocketmq_clocks import Clocks

HEAP = "96m"
END_SECONDS = 15.0


class ClientError(RuntimeError):
    """A client refused, did not answer in time, or its JVM is gone. The message is the client's own sentence."""


class ClientProcess:
    """The JVM of one client, or of several of one release and one clock; `launch` may follow `kill`.

    It ends with us, when our end of its standard input closes; one that is stopped by SIGSTOP is hung up on by the
    kernel, for its process group is then an orphan. FOLDER/NAME.err is what it prints.
    """

    def __init__(self, spec: ClientSpec, folder: Path, class_paths: ClassPaths, clocks: Clocks) -> None:
        self.name = spec.process or spec.name
        self._spec, self._folder, self._class_paths, self._clocks = spec, folder, class_paths, clocks
        self._process: subprocess.Popen[str] | None = None
        self._answers: dict[str, queue.Queue[str | None]] = {}
        self._lock = threading.Lock()
        self._living: set[str] = set()

    @property
    def pid(self) -> int:
        """0 before the first launch."""
        return self._process.pid if self._process else 0

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_fits(self, spec: ClientSpec) -> None:
        """Raises ValueError for a client of another release, another clock or other jars than the JVM's."""
        if self._of_jvm(spec) != self._of_jvm(self._spec):
            raise ValueError(f"client {spec.name} cannot share a JVM with {self._spec.name}: another release or clock")

    def launch(self) -> None:
        """Start the JVM, unless it runs."""
        with self._lock:
            if self.is_alive():
                return
            self._answers, self._living = {}, set()
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
            self._living.add(client)
        elif verb == "stop":
            self._living.discard(client)
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
            self._reap(self._process)

    def end_if_empty(self) -> None:
        """End the JVM gracefully if no client lives in it."""
        if not self._living and self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reap(self._process)

    def _reap(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _read(self, stdout: IO[str], answers: dict[str, "queue.Queue[str | None]"]) -> None:
        """Lines are `CLIENT done ...` or `CLIENT failed ...`."""
        with stdout:
            for line in stdout:
                client, _, answer = line.rstrip("\n").partition(" ")
                answers.setdefault(client, queue.Queue()).put(answer)
        for waiting in list(answers.values()):
            waiting.put(None)

    @staticmethod
    def _of_jvm(spec: ClientSpec) -> tuple[object, ...]:
        return spec.is_grpc, spec.release, spec.clock_skew_s, spec.tls

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
            f"-Dtls.enable={str(self._spec.tls).lower()}",
            *(skew_options(self._class_paths.clock_agent(), skew_s) if skew_s else []),
            *self._clocks.client_options(),
            "-cp",
            self._class_paths.of(self._spec.release, is_grpc=self._spec.is_grpc),
        ]
