"""A `balancewatch` command as an operator starts it: a process of its own that can be stopped, killed and restarted."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.freezing import end

START_SECONDS = 180.0
STOP_SECONDS = 60.0


class ServiceEndedError(RuntimeError):
    """A service that must run does not. The message has the end of its log."""


class ServiceProcess:
    """`balancewatch ARGUMENTS`; its output is appended to `log`. Threads may stop and start it."""

    def __init__(self, log: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.log, self.arguments = log, arguments
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_wanted = False

    @property
    def pid(self) -> int:
        assert self._process, "it was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs."""
        with self._lock:
            self._is_wanted = True
            if self._process is not None and self._process.poll() is None:
                return
            with self.log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "streaming.cli", *self.arguments],
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    process_group=0,  # Ctrl-C is for us
                )

    def stop(self) -> int | None:
        """SIGTERM, as systemd sends it; SIGKILL when it has not ended after STOP_SECONDS. Return its exit code."""
        self._end(signal.SIGTERM)
        return self._process.returncode if self._process else None

    def kill(self) -> None:
        """SIGKILL."""
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

    def check(self) -> None:
        """Raises ServiceEndedError when it has ended by itself."""
        process = self._process
        if self._is_wanted and process is not None and process.poll() is not None:
            end = self.log.read_text(errors="replace")[-2000:]
            raise ServiceEndedError(f"balancewatch {self.arguments[0]} ended with code {process.returncode}: {end}")

    def _end(self, number: signal.Signals) -> None:
        with self._lock:
            self._is_wanted = False
            if self._process is None or self._process.poll() is not None:
                return
            end(self._process, STOP_SECONDS, number)
