"""Metrics of batches: Spark's progress without pauses, and written rows. The sample is Spark 4.2's JSON, shortened."""

import json
from pathlib import Path
from typing import Any

import pytest

from streaming.metrics.exporter import Exporter
from streaming.metrics.instruments import count_rows
from streaming.metrics.liveness import MOST_PAUSES, Liveness, export_progress
from tests.metrics.samples import samples, value

SAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "progress.json").read_text())


def exported(*progresses: dict[str, Any]) -> Exporter:
    exporter = Exporter()
    for progress in progresses:
        export_progress(exporter, progress)
    return exporter


def with_source(**fields: Any) -> dict[str, Any]:
    return SAMPLE | {"sources": [SAMPLE["sources"][0] | fields]}


SENT = "rocketmq.send_latencies"
LATEST = {SENT: {"0": 2098, "1": 40}, "rocketmq.clock": {"0": 100}}
STARTS = {SENT: {"0": 1000, "1": 0}, "rocketmq.clock": {"0": 90}}
IDLE = SAMPLE | {"numInputRows": 0, "durationMs": {"latestOffset": 23, "triggerExecution": 25}}
PHASE = {"phase": "triggerExecution"}


@pytest.mark.parametrize(
    ("promise", "progresses", "series", "labels", "expected"),
    [
        ("a phase is one observation", [SAMPLE], "batch_phase_seconds_count", {"phase": "addBatch"}, 1),
        ("a phase is in seconds", [SAMPLE], "batch_phase_seconds_sum", {"phase": "addBatch"}, 20.615),
        ("the total is a phase", [SAMPLE], "batch_phase_seconds_sum", PHASE, 29.286),
        ("lag is what a batch left", [with_source(latestOffset=LATEST)], "kafka_lag_messages", {"topic": SENT}, 140),
        ("lag by partition", [with_source(latestOffset=LATEST)], "kafka_lag_max_messages", {"topic": SENT}, 100),
        ("no lag", [with_source(latestOffset=LATEST)], "kafka_lag_messages", {"topic": "rocketmq.clock"}, 0),
        ("messages since the start", [with_source(startOffset=STARTS)], "messages_total", {"topic": SENT}, 998),
        ("by topic", [with_source(startOffset=STARTS)], "messages_total", {"topic": "rocketmq.clock"}, 10),
        ("state is summed over operators", [SAMPLE], "state_rows_updated_total", {}, 3),
        ("state is summed over operators", [SAMPLE], "state_memory_bytes", {}, 8392),
        ("state is summed over operators", [SAMPLE], "state_files_bytes", {}, 3155),
        ("state is summed over operators", [SAMPLE], "state_commit_seconds_sum", {}, 1.439),
        ("a query without messages is no batch", [SAMPLE, IDLE], "batch_phase_seconds_count", PHASE, 1),
        ("nor are its repeated figures counted twice", [SAMPLE, IDLE], "state_commit_seconds_count", {}, 1),
        ("nor its speed", [SAMPLE, IDLE], "processed_rows_per_second", {}, 71.3),
    ],
)
def test_progress_is_exported(
    promise: str, progresses: list[dict[str, Any]], series: str, labels: dict[str, str], expected: float
) -> None:
    assert value(exported(*progresses), f"balancewatch_{series}", query="balance", **labels) == expected, promise


@pytest.mark.parametrize(("read", "topics"), [(2098, {"rocketmq.send_latencies", "rocketmq.clock"}), (60, {"other"})])
def test_a_first_batch_without_start_offsets_counts_by_topic_only_if_they_were_0(read: int, topics: set[str]) -> None:
    """With starting_offsets = "latest" its offsets are no counts."""
    exporter = exported(with_source(numInputRows=read))
    counted = samples(exporter, "balancewatch_messages_total")
    assert {dict(key)["topic"] for key in counted} == topics
    assert sum(counted.values()) == read


def batch(batch_id: int, **durations: int) -> dict[str, Any]:
    return SAMPLE | {"batchId": batch_id, "durationMs": {"addBatch": 4_400, "triggerExecution": 4_500} | durations}


def phase_seconds(exporter: Exporter, phase: str) -> float:
    return round(value(exporter, "balancewatch_batch_phase_seconds_sum", query="balance", phase=phase) or 0.0, 6)


def test_a_pause_is_removed_from_the_total_and_its_phase() -> None:
    exporter = Exporter()
    export_progress(exporter, batch(1, walCommit=46), 4.2)
    phases = {phase: phase_seconds(exporter, phase) for phase in ("addBatch", "triggerExecution", "walCommit")}
    assert phases == {"addBatch": 0.2, "triggerExecution": 0.3, "walCommit": 0.046}
    assert value(exporter, "balancewatch_processed_rows_per_second", query="balance") == 71.3 * 15


def test_a_pause_longer_than_its_batch_leaves_0() -> None:
    """Two clocks, both rounded."""
    exporter = Exporter()
    export_progress(exporter, batch(1, addBatch=4_199, triggerExecution=4_200), 4.2)
    assert phase_seconds(exporter, "addBatch") == phase_seconds(exporter, "triggerExecution") == 0
    assert value(exporter, "balancewatch_processed_rows_per_second", query="balance") == 71.3


def test_a_pause_belongs_to_its_batch_and_the_oldest_are_forgotten() -> None:
    """Spark does not report every batch."""
    exporter = Exporter()
    liveness = Liveness(exporter, "balance")
    for batch_id in range(MOST_PAUSES + 50):
        liveness.rested(batch_id, 4.2)
    liveness.progressed(batch(50) | {"durationMs": {"latestOffset": 2, "triggerExecution": 3}})  # no messages
    for batch_id in (49, 50, 50):
        liveness.progressed(batch(batch_id))
    assert phase_seconds(exporter, "addBatch") == 4.4 + 0.2 + 4.4


def test_written_rows_are_counted_by_table_and_quarantine_by_topic_and_reason_within_bounds() -> None:
    exporter = Exporter()
    rows = [
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic", "missing_field: queue_id", "time_ahead: x"]},
        {"topic": "rocketmq.pulls", "reasons": ["missing_field: topic"]},
        {"topic": "made up", "reasons": ["made up too: x"]},
    ]
    count_rows(exporter, {"quarantine": rows})
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="missing_field") == 2
    assert value(exporter, "balancewatch_quarantined_total", topic="rocketmq.pulls", reason="time_ahead") == 1
    assert value(exporter, "balancewatch_quarantined_total", topic="other", reason="other") == 1
    assert value(exporter, "balancewatch_rows_written_total", table="quarantine") == 3
    assert value(exporter, "balancewatch_quarantined_messages_total", topic="rocketmq.pulls") == 2
    assert value(exporter, "balancewatch_quarantined_messages_total", topic="other") == 1


def test_rows_that_belong_to_no_table_are_not_counted() -> None:
    exporter = Exporter()
    count_rows(exporter, {"clock_heard": [{"cluster": "c"}], "clock_needed": [{"cluster": "c"}]})
    assert samples(exporter, "balancewatch_rows_written_total") == {}
