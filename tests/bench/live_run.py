"""`balancewatch run` as a user starts it: its own process, its log beside the bench's results."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conf.settings import Settings
from tests.bench.scratch import say

LOG = Path(".bench/run.log")
END_SECONDS = 90.0
START_SECONDS = 180.0


class RunEndedError(RuntimeError):
    """`run` ended by itself. The message has the end of its log."""


class LiveRun:
    """`pid` is the process that was started, of which the others descend."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def sleep(self, seconds: float) -> None:
        """Raises RunEndedError when it ends meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._process.poll() is not None:
                tail = LOG.read_text(errors="replace")[-1_000:]
                raise RunEndedError(f"run ended with code {self._process.returncode}:\n{tail}")
            time.sleep(min(0.5, left))

    def wait_until_written(self, checkpoints: Path) -> None:
        """Return when a first batch is done. Raises RunEndedError, TimeoutError."""
        deadline = time.monotonic() + START_SECONDS
        while not any(checkpoints.glob("*/commits/[0-9]*")):
            self.sleep(0.1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"run did no batch in {START_SECONDS:.0f} s; see {LOG}")


@contextmanager
def live_run(settings: Settings, **more: str) -> Iterator[LiveRun]:
    """Started on Kafka, warehouse and checkpoints of `settings`, with defaults otherwise; `more` are other settings,
    `ONCALL__ENABLED` for `oncall.enabled`. At the end it is asked to stop.

    It serves its metrics at free ports: another `run` may be on this machine.
    """
    given = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
        "METRICS__PORT": "0",
        "METRICS__HEALTH_PORT": "0",
    }
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", "run"],
            env=os.environ | {f"BALANCEWATCH_{name}": value for name, value in (given | more).items()},
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the bench, which asks it to stop
        )
    try:
        yield LiveRun(process)
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"run did not end in {END_SECONDS:.0f} s and is killed; see {LOG}")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
