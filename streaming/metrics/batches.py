"""Metrics of batches: Spark's progress of a micro-batch (StreamingQueryProgress, as JSON), and the rows it wrote."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.contract import CODES
from schemas.events import EVENTS
from schemas.tables import TABLES
from streaming.metrics.exporter import Exporter
from streaming.metrics.names import (
    LAG,
    LAG_MAX,
    MESSAGES,
    PHASE_SECONDS,
    PROCESSED,
    QUARANTINED,
    QUARANTINED_MESSAGES,
    ROWS_WRITTEN,
    STATE_COMMIT,
    STATE_FILES,
    STATE_MEMORY,
    STATE_ROWS,
)
from streaming.metrics.tables import OTHER
from streaming.warehouse.rows import Rows

Progress = Mapping[str, Any]
Offsets = Mapping[str, Mapping[str, int]]
"""Topic to partition to offset."""

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
"""Phases of Spark's MicroBatchExecution. A phase that another release adds is not exported."""

PAUSED_PHASES = ("addBatch", "triggerExecution")
"""The phases that include the pause after a batch."""

MOST_PAUSES = 100
"""Limit on the kept pauses of batches whose progress Spark has not reported yet, per query."""


class Pauses:
    """Durations of the pauses after batches, which Spark counts as batch time. A pause is noted before its progress."""

    def __init__(self) -> None:
        self._pauses: dict[str, deque[tuple[int, float]]] = {}

    def note(self, query: str, batch_id: int, seconds: float) -> None:
        """Keep the pause after this batch until its progress is reported."""
        self._pauses.setdefault(query, deque(maxlen=MOST_PAUSES)).append((batch_id, seconds))

    def take(self, query: str, batch_id: int) -> float:
        """Return the seconds of the pause after this batch, 0 without one. Earlier pauses are forgotten."""
        pauses, paused = self._pauses.get(query), 0.0
        while pauses and pauses[0][0] <= batch_id:
            known, seconds = pauses.popleft()
            paused = seconds if known == batch_id else paused
        return paused


def without_pause(progress: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the progress of the batch as it was before its pause."""
    durations = progress["durationMs"]
    worked = {
        phase: max(0, ms - round(seconds * 1000)) if phase in PAUSED_PHASES else ms for phase, ms in durations.items()
    }
    total_ms, worked_ms = durations.get("triggerExecution", 0), worked.get("triggerExecution", 0)
    factor = total_ms / worked_ms if worked_ms else 1.0
    return progress | {
        "durationMs": worked,
        "processedRowsPerSecond": progress.get("processedRowsPerSecond", 0.0) * factor,
    }


def export_progress(exporter: Exporter, progress: Progress) -> None:
    """Export the progress of a batch. Without a batch, only the query's lag is new."""
    query = progress["name"]
    for source in progress["sources"]:
        for topic, messages in lag_by_topic(source):
            exporter.set(LAG, sum(messages), query=query, topic=topic)
            exporter.set(LAG_MAX, max(messages), query=query, topic=topic)
    if not has_run(progress):
        return
    for source in progress["sources"]:
        for topic, count in read_by_topic(source):
            exporter.add(MESSAGES, count, query=query, topic=topic)
    for phase in PHASES:
        if phase in progress["durationMs"]:
            exporter.observe(PHASE_SECONDS, progress["durationMs"][phase] / 1000, query=query, phase=phase)
    if progress["numInputRows"]:
        exporter.set(PROCESSED, progress["processedRowsPerSecond"], query=query)
    operators = progress["stateOperators"]
    if operators:
        files = sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
        exporter.add(STATE_ROWS, sum(operator["numRowsUpdated"] for operator in operators), query=query)
        exporter.set(STATE_MEMORY, sum(operator["memoryUsedBytes"] for operator in operators), query=query)
        exporter.set(STATE_FILES, files, query=query)
        exporter.observe(STATE_COMMIT, sum(operator["commitTimeMs"] for operator in operators) / 1000, query=query)


def has_run(progress: Progress) -> bool:
    """Return whether a batch ran: a query without messages reports progress every ten seconds as well."""
    return "addBatch" in progress["durationMs"]


def lag_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """Yield each topic with the messages per partition that the batch left in Kafka."""
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    for topic, partitions in latest.items():
        read = end.get(topic, {})
        yield topic, [max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items()]


def read_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each topic with the number of offsets that the batch read.

    The first batch of a checkpoint has no start offsets: unless these were 0, all messages count as "other".
    """
    start, end = _offsets(source, "startOffset"), _offsets(source, "endOffset")
    taken = {
        topic: sum(max(0, offset - start.get(topic, {}).get(partition, 0)) for partition, offset in partitions.items())
        for topic, partitions in end.items()
    }
    is_reported = bool(start) or sum(taken.values()) == source["numInputRows"]
    if taken:
        yield from taken.items() if is_reported else [(OTHER, source["numInputRows"])]


def _offsets(source: Mapping[str, Any], name: str) -> Offsets:
    """Return the Kafka offsets; none for another source, such as a Delta table."""
    found = source.get(name)
    is_kafka = isinstance(found, dict) and all(isinstance(partitions, dict) for partitions in found.values())
    return found if isinstance(found, dict) and is_kafka else {}


def count_rows(exporter: Exporter, rows: Rows) -> None:
    """Count a batch's rows by table, and its quarantined messages by topic and reason."""
    for table, written in rows.items():
        if written and table in TABLES:
            exporter.add(ROWS_WRITTEN, len(written), table=table)
    for row in rows.get("quarantine", ()):
        topic = row["topic"] if row["topic"] in EVENTS else OTHER
        exporter.add(QUARANTINED_MESSAGES, topic=topic)
        for code in {reason.partition(":")[0] for reason in row["reasons"]}:
            exporter.add(QUARANTINED, topic=topic, reason=code if code in CODES else OTHER)
