"""The signs of life of one process: its queries, its JVM and its threads, told by whom it concerns and read by anybody.

Ages are reckoned when they are asked for, by whoever asks, so what hangs is seen to hang.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from streaming.metrics.exporter import Exporter
from streaming.metrics.health import QuerySigns, Signs
from streaming.metrics.health_names import JVM_AGE, JVM_HEAP, JVM_HEAP_MAX, PART_ALIVE, PROGRESS_AGE, QUERY_STARTS
from streaming.metrics.progress import export_progress, has_run
from streaming.metrics.rests import Rests, without_rest

ASK_SECONDS = 5.0
"""Between two questions to the JVM."""


@dataclass
class _Query:
    """`seen_at` is ahead of now while it rests."""

    seen_at: float
    is_running: bool = True
    has_worked: bool = False


class Liveness:
    """A Hearer of Spark's listener bus. `expected` are the queries that this process is there for."""

    def __init__(
        self, exporter: Exporter, expected: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._exporter, self._expected, self._monotonic = exporter, expected, monotonic
        self._queries: dict[str, _Query] = {}
        self._rests = Rests()
        self._parts: dict[str, Callable[[], bool]] = {}
        self._jvm_at: float | None = None
        self.has_jvm = True
        """Whether one is to answer."""
        self._stop = threading.Event()
        self._asking: threading.Thread | None = None

    def ask_jvm(self, spark: SparkSession) -> None:
        """Ask it every few seconds from now on, in a thread that may hang with it."""
        session: Any = spark
        runtime = session.sparkContext._jvm.java.lang.Runtime.getRuntime()
        self._jvm_at = self._monotonic()
        self._exporter.follow(JVM_AGE, self._jvm_age)
        self._asking = threading.Thread(target=self._ask, args=(runtime,), name="liveness", daemon=True)
        self._asking.start()

    def watch(self, part: str, is_alive: Callable[[], bool]) -> None:
        """A thread of the service."""
        self._parts[part] = is_alive
        self._exporter.follow(PART_ALIVE, lambda: float(is_alive()), part=part)

    def started(self, name: str) -> None:
        known = self._queries.get(name)
        if known is None:
            self._exporter.follow(PROGRESS_AGE, lambda: self._age(self._queries[name]), query=name)
        self._queries[name] = _Query(self._monotonic(), has_worked=known is not None and known.has_worked)
        self._exporter.add(QUERY_STARTS, query=name)

    def progressed(self, progress: dict[str, Any]) -> None:
        name = progress["name"]
        self._see(name)
        rested = self._rests.take(name, progress["batchId"]) if has_run(progress) else 0.0
        export_progress(self._exporter, without_rest(progress, rested) if rested else progress)

    def rests(self, name: str, seconds: float) -> None:
        """From now on, for so long at the most: no sign of life is due before."""
        if name in self._queries:
            self._queries[name].seen_at = self._monotonic() + seconds

    def rested(self, name: str, batch_id: int, seconds: float) -> None:
        """After this batch, which Spark will tell of next; the rest is no part of its work."""
        self._rests.note(name, batch_id, seconds)
        if name in self._queries:
            self._queries[name].seen_at = self._monotonic()

    def idled(self, name: str) -> None:
        self._see(name)

    def ended(self, name: str) -> None:
        self._queries[name].is_running = False

    def signs(self) -> Signs:
        """As of now."""
        return Signs(
            None if self._jvm_at is None else self._jvm_age(),
            {name: self._signs_of(self._queries.get(name)) for name in self._expected},
            {part: is_alive() for part, is_alive in self._parts.items()},
            self.has_jvm,
        )

    def stop(self) -> None:
        """No part is expected to be alive any more."""
        self._parts.clear()
        self._stop.set()
        if self._asking is not None:
            self._asking.join(timeout=2 * ASK_SECONDS)

    def _see(self, name: str) -> None:
        query = self._queries.get(name)
        if query is not None:
            query.seen_at, query.has_worked = self._monotonic(), True

    def _ask(self, runtime: Any) -> None:
        while not self._stop.wait(ASK_SECONDS):
            with suppress(Exception):  # one that is gone does not answer, and grows old
                total, free, most = runtime.totalMemory(), runtime.freeMemory(), runtime.maxMemory()
                self._jvm_at = self._monotonic()
                self._exporter.set(JVM_HEAP, total - free)
                self._exporter.set(JVM_HEAP_MAX, most)

    def _jvm_age(self) -> float:
        return self._monotonic() - self._jvm_at if self._jvm_at is not None else 0.0

    def _signs_of(self, query: _Query | None) -> QuerySigns | None:
        return None if query is None else QuerySigns(self._age(query), query.is_running, query.has_worked)

    def _age(self, query: _Query) -> float:
        return max(0.0, self._monotonic() - query.seen_at)
