"""Signs of life of one process: its query, its JVM and its threads, and the rules of /healthz and /readyz.

Ages are computed at each request, so that they grow while a query or the JVM hangs. Spark's listener bus reports
progress (StreamingQueryProgress, as JSON) once per batch, outside the query's thread.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from streaming.metrics.exporter import Exporter
from streaming.metrics.tables import OTHER

ASK_SECONDS = 5.0
"""Interval between two calls of the JVM."""

MOST_PAUSES = 100
"""Limit on the kept pauses after batches, which Spark counts as batch time, until Spark reports the batch."""


class Liveness:
    """The signs of life of a query, reported by Spark's listener bus and the service; of its JVM, and of threads."""

    def __init__(self, exporter: Exporter, query: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.query = query
        self._exporter, self._monotonic = exporter, monotonic
        self._progressed_at: float | None = None  # in the future during a pause
        self._is_running = self._has_worked = False  # has worked: a batch ended, or the query was idle
        self._pauses: dict[int, float] = {}
        self._parts: dict[str, Callable[[], bool]] = {}
        self._jvm_at: float | None = None
        self.has_jvm = True
        """Whether a JVM is expected."""
        self._stop = threading.Event()
        self._asking: threading.Thread | None = None

    def reasons_not_alive(self, after_seconds: float) -> Iterator[str]:
        """Yield the reasons to restart the process; none during startup."""
        for part, is_alive in [*self._parts.items()]:
            if not is_alive():
                yield f"the thread {part} is dead"
        if self._jvm_at is not None and self._jvm_age() > after_seconds:
            yield f"the JVM has not answered for {self._jvm_age():.0f} s"
        if self._age() > after_seconds:
            yield f"the query {self.query} has shown no progress for {self._age():.0f} s"

    def reasons_not_ready(self, after_seconds: float) -> Iterator[str]:
        """Yield the reasons why data may be old or incomplete, including those of `reasons_not_alive`."""
        if self._jvm_at is None and self.has_jvm:
            yield "Spark is starting"
        if self._progressed_at is None:
            yield f"the query {self.query} has not started"
        elif not self._is_running:
            yield f"the query {self.query} has stopped"
        elif not self._has_worked:
            yield f"the query {self.query} has not finished its first batch"
        yield from self.reasons_not_alive(after_seconds)

    def ask_jvm(self, runtime: Any) -> None:
        """Start a thread that calls the JVM's Runtime every few seconds; the thread may hang with the JVM."""
        self._jvm_at = self._monotonic()
        self._exporter.series("balancewatch_jvm_age_seconds").set_function(self._jvm_age)
        self._asking = threading.Thread(target=self._ask, args=(runtime,), name="liveness", daemon=True)
        self._asking.start()

    def watch(self, part: str, is_alive: Callable[[], bool]) -> None:
        self._parts[part] = is_alive
        self._exporter.series("balancewatch_part_alive", part=part).set_function(lambda: float(is_alive()))

    def started(self) -> None:
        self._progressed_at, self._is_running = self._monotonic(), True
        self._exporter.series("balancewatch_progress_age_seconds", query=self.query).set_function(self._age)
        self._exporter.series("balancewatch_query_starts_total", query=self.query).inc()

    def progressed(self, progress: dict[str, Any]) -> None:
        self.idled()
        paused = self._pauses.pop(progress["batchId"], 0.0) if has_run(progress) else 0.0
        export_progress(self._exporter, progress, paused)

    def rests(self, seconds: float) -> None:
        """Expect no progress for up to this duration."""
        self._progressed_at = self._monotonic() + seconds

    def rested(self, batch_id: int, seconds: float) -> None:
        """End the pause after this batch, before Spark reports the batch."""
        self._pauses[batch_id] = seconds
        if len(self._pauses) > MOST_PAUSES:
            del self._pauses[next(iter(self._pauses))]
        self._progressed_at = self._monotonic()

    def idled(self) -> None:
        self._progressed_at, self._has_worked = self._monotonic(), True

    def ended(self) -> None:
        self._is_running = False

    def stop(self) -> None:
        """Expect no thread to be alive any more."""
        self._parts.clear()
        self._stop.set()
        if self._asking is not None:
            self._asking.join(timeout=2 * ASK_SECONDS)

    def _ask(self, runtime: Any) -> None:
        while not self._stop.wait(ASK_SECONDS):
            with suppress(Exception):  # a dead JVM does not answer: its age grows
                total, free, most = runtime.totalMemory(), runtime.freeMemory(), runtime.maxMemory()
                self._jvm_at = self._monotonic()
                self._exporter.series("balancewatch_jvm_heap_bytes").set(total - free)
                self._exporter.series("balancewatch_jvm_heap_max_bytes").set(most)

    def _jvm_age(self) -> float:
        return self._monotonic() - self._jvm_at if self._jvm_at is not None else 0.0

    def _age(self) -> float:
        return max(0.0, self._monotonic() - self._progressed_at) if self._progressed_at is not None else 0.0


Progress = Mapping[str, Any]

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
"""Phases of Spark's MicroBatchExecution. A phase that another release adds is not exported."""

PAUSED_PHASES = ("addBatch", "triggerExecution")
"""The phases that include the pause after a batch."""


def export_progress(exporter: Exporter, progress: Progress, paused_seconds: float = 0.0) -> None:
    """Export the progress of a batch without the pause after it. Without a batch, only the query's lag is new."""
    query = progress["name"]
    for source in progress["sources"]:
        for topic, messages in _lag_by_topic(source):
            exporter.series("balancewatch_kafka_lag_messages", query=query, topic=topic).set(sum(messages))
            exporter.series("balancewatch_kafka_lag_max_messages", query=query, topic=topic).set(max(messages))
    if not has_run(progress):
        return
    for source in progress["sources"]:
        for topic, count in _read_by_topic(source):
            exporter.series("balancewatch_messages_total", query=query, topic=topic).inc(count)
    durations, paused_ms = progress["durationMs"], round(paused_seconds * 1000)
    worked = {phase: durations[phase] for phase in PHASES if phase in durations}
    worked |= {phase: max(0, worked[phase] - paused_ms) for phase in PAUSED_PHASES if phase in worked}
    for phase, ms in worked.items():
        exporter.series("balancewatch_batch_phase_seconds", query=query, phase=phase).observe(ms / 1000)
    if progress["numInputRows"]:
        total_ms, worked_ms = durations.get("triggerExecution", 0), worked.get("triggerExecution", 0)
        factor = total_ms / worked_ms if worked_ms else 1.0
        exporter.series("balancewatch_processed_rows_per_second", query=query).set(
            progress["processedRowsPerSecond"] * factor
        )
    operators = progress["stateOperators"]
    if operators:
        files = sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
        exporter.series("balancewatch_state_rows_updated_total", query=query).inc(
            sum(operator["numRowsUpdated"] for operator in operators)
        )
        exporter.series("balancewatch_state_memory_bytes", query=query).set(
            sum(operator["memoryUsedBytes"] for operator in operators)
        )
        exporter.series("balancewatch_state_files_bytes", query=query).set(files)
        committed_ms = sum(operator["commitTimeMs"] for operator in operators)
        exporter.series("balancewatch_state_commit_seconds", query=query).observe(committed_ms / 1000)


def has_run(progress: Progress) -> bool:
    """Return whether a batch ran: a query without messages reports progress every ten seconds as well."""
    return "addBatch" in progress["durationMs"]


def _lag_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """Yield each topic with the messages per partition that the batch left in Kafka."""
    end = source.get("endOffset") or {}
    for topic, partitions in (source.get("latestOffset") or {}).items():
        read = end.get(topic, {})
        yield topic, [max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items()]


def _read_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each topic with the number of offsets that the batch read.

    The first batch of a checkpoint has no start offsets: unless these were 0, all messages count as "other".
    """
    start, end = (source.get(name) or {} for name in ("startOffset", "endOffset"))
    taken = {
        topic: sum(max(0, offset - start.get(topic, {}).get(partition, 0)) for partition, offset in partitions.items())
        for topic, partitions in end.items()
    }
    is_reported = bool(start) or sum(taken.values()) == source["numInputRows"]
    if taken:
        yield from taken.items() if is_reported else [(OTHER, source["numInputRows"])]
