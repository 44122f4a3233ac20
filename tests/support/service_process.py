"""A `balancewatch` command as an operator starts it: a process that can be stopped, killed and restarted."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.freezing import end
from tests.support.session_process import SessionProcess

START_SECONDS = 180.0
STOP_SECONDS = 60.0


class ServiceEndedError(RuntimeError):
    """A service that must run does not. The message has the end of its log."""


class ServiceProcess(SessionProcess):
    """`balancewatch ARGUMENTS`; its output is appended to `log`. Threads may stop and start it.

    `through` is a command that becomes the one after it.
    """

    def __init__(self, log: Path, environment: Mapping[str, str], *arguments: str, through: Sequence[str] = ()) -> None:
        super().__init__([*through, sys.executable, "-m", "streaming.cli", *arguments], environment, log)
        self._name = arguments[0]
        self._lock = threading.Lock()
        self._is_wanted = False

    def start(self) -> None:
        """Start it, unless it runs."""
        with self._lock:
            self._is_wanted = True
            if not self.is_alive():
                super().start()

    def stop(self) -> int | None:
        """SIGTERM, as systemd sends it; SIGKILL when it has not ended after STOP_SECONDS. Return its exit code."""
        self._end(signal.SIGTERM)
        return self.process.returncode if self.process else None

    def kill(self) -> None:
        """SIGKILL to Python alone."""
        self._end(signal.SIGKILL)

    def restart(self, environment: Mapping[str, str]) -> None:
        """`environment` is added to what it was started with."""
        self.stop()
        self._environment |= environment
        self.start()

    def wait_until(self, is_there: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Raises ServiceEndedError when it ends first, TimeoutError after `seconds`."""
        deadline = time.monotonic() + seconds
        while not is_there():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s; the end of its log: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def sleep(self, seconds: float) -> None:
        """Raises ServiceEndedError when it ends meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(0.5, left))

    def check(self) -> None:
        """Raises ServiceEndedError when it has ended by itself."""
        process = self.process
        if self._is_wanted and process is not None and process.poll() is not None:
            end = self.log.read_text(errors="replace")[-2000:]
            raise ServiceEndedError(f"balancewatch {self._name} ended with code {process.returncode}: {end}")

    def _end(self, number: signal.Signals) -> None:
        with self._lock:
            self._is_wanted = False
            if self.process is not None and self.process.poll() is None:
                end(self.process, STOP_SECONDS, number)
