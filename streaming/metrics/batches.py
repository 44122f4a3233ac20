"""Metrics of batches: Spark's progress of a micro-batch (StreamingQueryProgress, as JSON), and the rows it wrote."""

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


def export_progress(exporter: Exporter, progress: Progress, paused_seconds: float = 0.0) -> None:
    """Export the progress of a batch without the pause after it. Without a batch, only the query's lag is new."""
    query = progress["name"]
    for source in progress["sources"]:
        for topic, messages in _lag_by_topic(source):
            exporter.series(LAG, query=query, topic=topic).set(sum(messages))
            exporter.series(LAG_MAX, query=query, topic=topic).set(max(messages))
    if not has_run(progress):
        return
    for source in progress["sources"]:
        for topic, count in _read_by_topic(source):
            exporter.series(MESSAGES, query=query, topic=topic).inc(count)
    durations, paused_ms = progress["durationMs"], round(paused_seconds * 1000)
    worked = {
        phase: max(0, durations[phase] - paused_ms) if phase in PAUSED_PHASES else durations[phase]
        for phase in PHASES
        if phase in durations
    }
    for phase, ms in worked.items():
        exporter.series(PHASE_SECONDS, query=query, phase=phase).observe(ms / 1000)
    if progress["numInputRows"]:
        total_ms, worked_ms = durations.get("triggerExecution", 0), worked.get("triggerExecution", 0)
        factor = total_ms / worked_ms if worked_ms else 1.0
        exporter.series(PROCESSED, query=query).set(progress["processedRowsPerSecond"] * factor)
    operators = progress["stateOperators"]
    if operators:
        files = sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
        exporter.series(STATE_ROWS, query=query).inc(sum(operator["numRowsUpdated"] for operator in operators))
        exporter.series(STATE_MEMORY, query=query).set(sum(operator["memoryUsedBytes"] for operator in operators))
        exporter.series(STATE_FILES, query=query).set(files)
        committed_ms = sum(operator["commitTimeMs"] for operator in operators)
        exporter.series(STATE_COMMIT, query=query).observe(committed_ms / 1000)


def has_run(progress: Progress) -> bool:
    """Return whether a batch ran: a query without messages reports progress every ten seconds as well."""
    return "addBatch" in progress["durationMs"]


def _lag_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """Yield each topic with the messages per partition that the batch left in Kafka."""
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    for topic, partitions in latest.items():
        read = end.get(topic, {})
        yield topic, [max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items()]


def _read_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
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
            exporter.series(ROWS_WRITTEN, table=table).inc(len(written))
    for row in rows.get("quarantine", ()):
        topic = row["topic"] if row["topic"] in EVENTS else OTHER
        exporter.series(QUARANTINED_MESSAGES, topic=topic).inc()
        for code in {reason.partition(":")[0] for reason in row["reasons"]}:
            exporter.series(QUARANTINED, topic=topic, reason=code if code in CODES else OTHER).inc()
