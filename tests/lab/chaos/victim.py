"""A `balancewatch` process that is made to be killed: Python, its JVM and Python workers in a session of their own.

`python -m tests.lab.chaos.victim [POINT NTH] -- ARGUMENTS` is the `balancewatch` command with a trap in it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from conf.settings import Settings
from streaming import cli
from tests.lab.chaos.kill_points import Trap, watched
from tests.support.session_process import GONE_SECONDS, SessionProcess

LIFE_SECONDS = 300.0
"""No life takes longer, or something hangs."""


class OrphanError(RuntimeError):
    """A process of a dead victim lives on. It is ended by its id before this is raised."""


class Victim(SessionProcess):
    """One life of a run; only one of a run lives at a time."""

    start_seconds = 12.0
    """A life killed within so many seconds may still have been starting."""

    def __init__(
        self,
        settings: Settings,
        log: Path,
        arguments: Sequence[str],
        *,
        trap: tuple[str, int] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Start `balancewatch ARGUMENTS`; with `trap` it kills itself at the n-th pass of a point.

        `extra` are more environment variables.
        """
        point = map(str, trap or ())
        command = [sys.executable, "-m", "tests.lab.chaos.victim", *point, "--", *arguments]
        super().__init__(command, environment(settings) | dict(extra or {}), log)
        self._settings, self._first_batch = settings, newest_commit(settings)
        self.start()

    def has_written(self) -> bool:
        """Whether a batch was committed in this life."""
        return newest_commit(self._settings) > self._first_batch

    def wait(self, seconds: float = LIFE_SECONDS) -> int:
        """Its exit code, negative for a signal; all its processes are gone. Raises TimeoutError or OrphanError."""
        assert self.process
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the victim did not end within {seconds:.0f} s; see {self.log}") from None
        if left := self.bury():
            raise OrphanError(f"processes {left} outlived their victim by {GONE_SECONDS:.0f} s")
        return code

    def kill(self) -> None:
        """SIGKILL to Python and the JVM at once."""
        if self.is_alive():
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def errors(self) -> list[str]:
        """The sentences it ended with: its log is JSON, and they are its last lines."""
        lines = [json.loads(line) for line in self.printed().splitlines() if line.startswith("{")]
        return [f"error: {line['reason']}" for line in lines if line["event"] == "command failed"]


def newest_commit(settings: Settings) -> int:
    """The newest batch that the query has finished; -1 for none."""
    commits = Path(settings.paths.checkpoints).glob("*/commits/*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)


def environment(settings: Settings) -> dict[str, str]:
    """The settings that differ from the defaults, as environment variables."""
    return {
        "BALANCEWATCH_METRICS__PORT": "0",
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "BALANCEWATCH_PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "BALANCEWATCH_PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
        "BALANCEWATCH_QUERIES__MAX_OFFSETS_PER_TRIGGER": str(settings.queries.max_offsets_per_trigger),
        "BALANCEWATCH_ONCALL__ENABLED": "false",  # deliveries.py has the relay alone
        "BALANCEWATCH_CANARY__INTERVAL_SECONDS": "0",  # 10 s after another its rows depend on the batches
        "BALANCEWATCH_LOG__FORMAT": "json",
    }


def main() -> None:
    split = sys.argv.index("--")
    point = sys.argv[1:split]
    sys.argv = ["balancewatch", *sys.argv[split + 1 :]]
    with contextlib.ExitStack() as stack:
        if point:
            trap = Trap(point[0], int(point[1]))
            stack.enter_context(watched(lambda passed: _die() if trap.springs_at(passed) else None))
        cli.main()


def _die() -> None:
    """SIGKILL to the process group, JVM and all."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
