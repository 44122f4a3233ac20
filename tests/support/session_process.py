"""A command in its own session, so that it can be killed together with its JVM and its Python workers."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

GONE_SECONDS = 30.0
"""How long the JVM and the workers may take to notice that Python is dead."""


class SessionProcess:
    """`start` starts it, also again; all that it prints is appended to `log`. With `is_fed` it has an input."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, *, is_fed: bool = False
    ) -> None:
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._command, self._environment, self._is_fed = list(command), {**os.environ, **environment}, is_fed
        self._began_at = 0

    def start(self) -> None:
        self.close_input()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._began_at = output.tell()
            self.process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE if self._is_fed else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.process, "it was not started"
        return self.process.pid

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def printed(self) -> str:
        """What it has printed since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._began_at)
            return log.read().decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send it to all processes of the session."""
        for pid in pids_of_session(self.process.pid) if self.process else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def bury(self) -> list[int]:
        """Return when no process of the session lives; kill and return those that outlive it by GONE_SECONDS."""
        deadline = time.monotonic() + GONE_SECONDS
        while left := pids_of_session(self.pid):
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                return left
            time.sleep(0.05)
        return []

    def close_input(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()


def pids_of_session(session: int) -> list[int]:
    """Living processes of a session, named by its leader."""
    return [pid for pid, (_, fields) in read_stats().items() if fields[0] != "Z" and int(fields[3]) == session]


def read_stats() -> dict[int, tuple[str, list[str]]]:
    """Return the command of each process by id, and the fields of /proc/PID/stat after it: state, parent, group, ..."""
    stats: dict[int, tuple[str, list[str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            head, _, tail = path.read_text().rpartition(")")  # a name may hold blanks and brackets
            stats[int(path.parent.name)] = head.partition("(")[2], tail.split()
    return stats
