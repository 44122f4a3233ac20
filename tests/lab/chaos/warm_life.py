"""A life in a Spark session that outlives it: a kill costs a second, not the start of a JVM.

A kill cuts the query off where it is. Its tasks are cancelled, no thread of it passes another point, and
nothing is drained or noted: what the next life finds on the disk is what SIGKILL would have left there, but for what
the file system itself loses. That Python, the JVM and its workers die at one stroke is proven by the lives that are
processes (tests.lab.chaos.victim).
"""

import signal
import threading

from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.service.service import Service, ServiceError
from tests.lab.chaos.kill_points import Trap, watched
from tests.lab.chaos.victim import LIFE_SECONDS, newest_commit


class KilledError(RuntimeError):
    """Raised where a dead life would go on."""


class WarmLife:
    """The query of a run, and a thread in the place of their process."""

    start_seconds = 1.5

    def __init__(
        self, settings: Settings, spark: SparkSession, *, drains: bool, trap: tuple[str, int] | None = None
    ) -> None:
        """Start it; with `drains` it ends by itself. With `trap` it dies at the n-th pass of a point."""
        self._settings, self._spark, self._drains = settings, spark, drains
        self._trap = Trap(*trap) if trap else None
        self._first_batch = newest_commit(settings)
        self._is_dead, self._code = threading.Event(), 0
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._live, name="warm life", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def has_written(self) -> bool:
        return newest_commit(self._settings) > self._first_batch

    def wait(self, seconds: float = LIFE_SECONDS) -> int:
        """0 when its work is done, 1 when it ended with a sentence, -SIGKILL when it was killed; it is over then."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.kill()
            raise TimeoutError(f"the life did not end within {seconds:.0f} s")
        return self._code

    def kill(self) -> None:
        self._is_dead.set()
        self._thread.join(LIFE_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError("a life that was killed goes on")

    def errors(self) -> list[str]:
        return self._errors

    def printed(self) -> str:
        return " ".join(self._errors)

    def _live(self) -> None:
        with watched(self._pass):
            try:
                service = Service(self._settings, available_now=self._drains, spark=self._spark.newSession())
            except (ServiceError, KilledError) as error:
                self._end_with(error)
                return
            try:
                service.wait(self._is_dead)
            except ServiceError as error:
                self._end_with(error)
            if self._is_dead.is_set():
                self._code = -signal.SIGKILL
                service.running.query.stop()
            service.close()

    def _end_with(self, error: Exception) -> None:
        if not self._is_dead.is_set():
            self._code = 1
            self._errors.append(f"error: {error}")

    def _pass(self, point: str) -> None:
        if self._trap is not None and self._trap.springs_at(point):
            self._is_dead.set()
        if self._is_dead.is_set():
            raise KilledError(f"killed {point}")
