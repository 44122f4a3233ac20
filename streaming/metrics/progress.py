"""What Spark says of a micro-batch (StreamingQueryProgress, as JSON) as metrics."""

from collections.abc import Iterator, Mapping
from typing import Any

from streaming.metrics.cardinality import OTHER
from streaming.metrics.exporter import Exporter
from streaming.metrics.health_names import (
    LAG,
    LAG_MAX,
    MESSAGES,
    PHASE_SECONDS,
    PROCESSED,
    STATE_COMMIT,
    STATE_FILES,
    STATE_MEMORY,
    STATE_ROWS,
)

Progress = Mapping[str, Any]
Offsets = Mapping[str, Mapping[str, int]]
"""Topic to partition to offset."""

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
"""Of Spark's MicroBatchExecution; others that a release adds are left out."""


def export_progress(exporter: Exporter, progress: Progress) -> None:
    """A batch's figures. One that had nothing to read says only how far behind the query is."""
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
        files = sum(one.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for one in operators)
        exporter.add(STATE_ROWS, sum(one["numRowsUpdated"] for one in operators), query=query)
        exporter.set(STATE_MEMORY, sum(one["memoryUsedBytes"] for one in operators), query=query)
        exporter.set(STATE_FILES, files, query=query)
        exporter.observe(STATE_COMMIT, sum(one["commitTimeMs"] for one in operators) / 1000, query=query)


def has_run(progress: Progress) -> bool:
    """Whether a batch was run: a query that only looked, and found nothing, says so every ten seconds as well."""
    return "addBatch" in progress["durationMs"]


def lag_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """Of each topic, partition by partition, what Kafka had and the batch did not take."""
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    for topic, partitions in latest.items():
        read = end.get(topic, {})
        yield topic, [max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items()]


def read_by_topic(source: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Of each topic how many offsets the batch took.

    The first batch of a checkpoint does not say where it began: unless that was 0, all of it counts as "other".
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
    """Kafka's; a source that is none, such as a Delta table, has none."""
    found = source.get(name)
    is_kafka = isinstance(found, dict) and all(isinstance(partitions, dict) for partitions in found.values())
    return found if isinstance(found, dict) and is_kafka else {}
