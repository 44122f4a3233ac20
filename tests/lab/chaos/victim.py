"""A `balancewatch` process that is made to be killed: Python, its JVM and Python workers in a session of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from conf.settings import Settings

LIFE_SECONDS = 300.0
"""No life takes longer, or something hangs."""

GONE_SECONDS = 30.0
"""How long the JVM and the workers may take to notice that Python is dead."""


class OrphanError(RuntimeError):
    """A process of a dead victim lives on. It is ended by its id before this is raised."""


class Victim:
    """One life of a run; only one of a run lives at a time. `log` takes all that it prints."""

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
        self.log = log
        self._settings = settings
        log.parent.mkdir(parents=True, exist_ok=True)
        point = [trap[0], str(trap[1])] if trap else []
        self._began_at = log.stat().st_size if log.exists() else 0
        self._first_batch = newest_commit(settings)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.lab.chaos.victim_main", *point, "--", *arguments],
                env=environment(settings) | dict(extra or {}),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def has_written(self) -> bool:
        """Whether a batch was committed in this life."""
        return newest_commit(self._settings) > self._first_batch

    def wait(self, seconds: float = LIFE_SECONDS) -> int:
        """Its exit code, negative for a signal; all its processes are gone. Raises TimeoutError or OrphanError."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the victim did not end within {seconds:.0f} s; see {self.log}") from None
        self._bury()
        return code

    def kill(self) -> None:
        """SIGKILL to Python and the JVM at once."""
        if self.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._bury()

    def stop(self) -> int:
        """SIGTERM, as an operator would."""
        if self.is_alive():
            self._process.terminate()
        return self.wait()

    def printed(self) -> str:
        """What it has printed in this life."""
        with self.log.open("rb") as log:
            log.seek(self._began_at)
            return log.read().decode(errors="replace")

    def errors(self) -> list[str]:
        """The sentences it ended with: its log is JSON, and they are its last lines."""
        lines = [line for line in self.printed().splitlines() if line.startswith("{") and '"event": "failed"' in line]
        return [f"error: {json.loads(line)['reason']}" for line in lines]

    def _bury(self) -> None:
        deadline = time.monotonic() + GONE_SECONDS
        while left := pids_of_session(self._process.pid):
            if time.monotonic() > deadline:
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                raise OrphanError(f"processes {left} outlived their victim by {GONE_SECONDS:.0f} s")
            time.sleep(0.05)


def newest_commit(settings: Settings) -> int:
    """The newest batch that either query has finished; -1 for none."""
    commits = Path(settings.paths.checkpoints).glob("*/commits/*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)


def environment(settings: Settings) -> dict[str, str]:
    """The settings that differ from the defaults, as environment variables."""
    return os.environ | {
        "BALANCEWATCH_METRICS__PORT": "0",
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "BALANCEWATCH_PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "BALANCEWATCH_PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
        "BALANCEWATCH_QUERIES__MAX_OFFSETS_PER_TRIGGER": str(settings.queries.max_offsets_per_trigger),
        "BALANCEWATCH_ONCALL__ENABLED": "false",  # deliveries.py has the relay alone
        "BALANCEWATCH_LOG__FORMAT": "json",
    }


def pids_of_session(session: int) -> list[int]:
    """Living processes of a session; each victim is the leader of its own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found
