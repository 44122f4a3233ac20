"""A micro-batch as Spark tells it, as metrics. The sample is Spark 4.2's own words, shortened."""

import json
from pathlib import Path
from typing import Any

import pytest

from streaming.metrics.exporter import Exporter
from streaming.metrics.progress import export_progress
from tests.metrics.samples import samples, value

SAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "progress.json").read_text())


def exported(*progresses: dict[str, Any]) -> Exporter:
    exporter = Exporter()
    for progress in progresses:
        export_progress(exporter, progress)
    return exporter


def with_source(**fields: Any) -> dict[str, Any]:
    return SAMPLE | {"sources": [SAMPLE["sources"][0] | fields]}


def test_each_phase_is_one_observation_in_seconds() -> None:
    exporter = exported(SAMPLE)
    assert value(exporter, "balancewatch_batch_phase_seconds_count", query="balance", phase="addBatch") == 1
    assert value(exporter, "balancewatch_batch_phase_seconds_sum", query="balance", phase="addBatch") == 20.615
    assert value(exporter, "balancewatch_batch_phase_seconds_sum", query="balance", phase="triggerExecution") == (
        29.286
    )


def test_lag_is_what_kafka_had_and_the_batch_did_not_take() -> None:
    latest = {"rocketmq.send_latencies": {"0": 2098, "1": 40}, "rocketmq.clock": {"0": 100}}
    exporter = exported(with_source(latestOffset=latest))
    labels = {"query": "balance", "topic": "rocketmq.send_latencies"}
    assert value(exporter, "balancewatch_kafka_lag_messages", **labels) == 140
    assert value(exporter, "balancewatch_kafka_lag_max_messages", **labels) == 100
    assert value(exporter, "balancewatch_kafka_lag_messages", query="balance", topic="rocketmq.clock") == 0


def test_messages_are_counted_by_topic_from_where_the_batch_began() -> None:
    start = {"rocketmq.send_latencies": {"0": 1000, "1": 0}, "rocketmq.clock": {"0": 90}}
    exporter = exported(with_source(startOffset=start))
    assert value(exporter, "balancewatch_messages_total", query="balance", topic="rocketmq.send_latencies") == 998
    assert value(exporter, "balancewatch_messages_total", query="balance", topic="rocketmq.clock") == 10


@pytest.mark.parametrize(("read", "topics"), [(2098, {"rocketmq.send_latencies", "rocketmq.clock"}), (60, {"other"})])
def test_a_first_batch_that_does_not_say_where_it_began_is_reported_by_topic_only_when_that_was_0(
    read: int, topics: set[str]
) -> None:
    """With starting_offsets = "latest" its offsets are no counts."""
    exporter = exported(with_source(numInputRows=read))
    said = samples(exporter, "balancewatch_messages_total")
    assert {dict(key)["topic"] for key in said} == topics
    assert sum(said.values()) == read


def test_state_is_summed_over_operators() -> None:
    exporter = exported(SAMPLE)
    assert value(exporter, "balancewatch_state_rows_updated_total", query="balance") == 3
    assert value(exporter, "balancewatch_state_memory_bytes", query="balance") == 8392
    assert value(exporter, "balancewatch_state_files_bytes", query="balance") == 3155
    assert value(exporter, "balancewatch_state_commit_seconds_sum", query="balance") == 1.439


def test_a_query_that_found_nothing_to_do_reports_only_its_lag() -> None:
    """It repeats the state's figures of the batch before, which would count twice."""
    idle = SAMPLE | {"numInputRows": 0, "durationMs": {"latestOffset": 23, "triggerExecution": 25}}
    exporter = exported(SAMPLE, idle)
    assert value(exporter, "balancewatch_batch_phase_seconds_count", query="balance", phase="triggerExecution") == 1
    assert value(exporter, "balancewatch_state_commit_seconds_count", query="balance") == 1
    assert value(exporter, "balancewatch_processed_rows_per_second", query="balance") == 71.3


def test_a_source_that_is_not_kafka_has_no_lag() -> None:
    """The relay's query reads a Delta table, whose offsets are of another kind."""
    delta = {"startOffset": {"reservoirVersion": 3}, "endOffset": {"reservoirVersion": 4}, "latestOffset": None}
    exporter = exported(SAMPLE | {"name": "relay", "stateOperators": [], "sources": [SAMPLE["sources"][0] | delta]})
    assert samples(exporter, "balancewatch_kafka_lag_messages") == {}
    assert samples(exporter, "balancewatch_messages_total") == {}
    assert value(exporter, "balancewatch_batch_phase_seconds_count", query="relay", phase="addBatch") == 1
