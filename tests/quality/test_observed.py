"""Expectations on the hot path: what Spark's columns count of a stream, and what becomes of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from schemas.events import PULLS, SEND_LATENCIES
from schemas.expectations import Severity
from schemas.suites import SUITES
from streaming.quality.observed import Observations, expectations_of_events, observe
from streaming.quality.outcome import Outcome, as_read

SAMPLES = Path(__file__).parents[2] / "schemas" / "samples"
NOW_MS = 1_750_000_000_000
MESSAGES = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("ingest_time_ms", T.LongType()),
        T.StructField("value", T.BinaryType()),
    ]
)


def messages() -> list[tuple[str, int, int, int, bytes]]:
    """A hundred pulls, of which each tenth has a negative offset and one is no JSON; and sends that come early."""
    pull = json.loads((SAMPLES / "good.pulls.json").read_text()) | {"event_time_ms": NOW_MS - 1_000}
    send = json.loads((SAMPLES / "good.send_latencies.json").read_text()) | {"event_time_ms": NOW_MS + 60_000}
    rows = []
    for offset in range(100):
        changed = pull | ({"pull_offset": -5} if offset % 10 == 0 else {})
        value = b"\xff{" if offset == 50 else json.dumps(changed).encode()
        rows.append((PULLS, 0, offset, NOW_MS, value))
    return rows + [(SEND_LATENCIES, 0, offset, NOW_MS, json.dumps(send).encode()) for offset in range(20)]


@pytest.mark.spark
@pytest.mark.parametrize(("every", "looked_at"), [(1, 99), (10, 9)], ids=["every one", "every tenth"])
def test_a_stream_counts_what_is_not_as_expected_of_each_so_manyth_message(
    spark: SparkSession, tmp_path: Path, every: int, looked_at: int
) -> None:
    """And puts out every message as it was. Every tenth pull is bad; the one of them that is no JSON has no value."""
    spark.createDataFrame(messages(), MESSAGES).coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(MESSAGES).parquet(str(tmp_path / "in"))
    topics = [PULLS, SEND_LATENCIES]
    put_out: list[Any] = []
    query = (
        observe(stream, topics, every)
        .writeStream.foreachBatch(lambda batch, _: put_out.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    observations = Observations(lambda _: query.recentProgress)
    counts = observations.take("any", topics)
    told = [counts[PULLS, "pull_offset in range", what] for what in ("rows", "unexpected")]
    assert told == [looked_at, 9]
    assert counts[PULLS, "ahead_ms in range", "unexpected"] == 0
    assert counts[SEND_LATENCIES, "ahead_ms in range", "unexpected"] == 20 // every
    assert sorted(map(tuple, put_out)) == sorted(messages())
    assert observations.take("any", topics) == Counter()


def test_none_is_looked_at_unless_asked_for() -> None:
    frame: Any = object()
    assert observe(frame, [PULLS], 0) is frame


def test_lists_words_of_the_reading_and_what_needs_other_events_are_left_to_the_samples() -> None:
    for topic in (PULLS, SEND_LATENCIES):
        columns = {one.column for one in expectations_of_events(topic)}
        assert {"ahead_ms", "behind_ms", "queue_id"} <= columns
        assert not columns & {"queue", "copies", "contract", "rate_percent"}


def test_what_was_read_counts_where_it_is_worse_than_the_sample() -> None:
    expectation = next(one for one in SUITES[PULLS].expectations if one.name == "pull_offset in range")
    assert expectation.severity is Severity.CRITICAL
    sampled = Outcome(PULLS, expectation, True, 100, 0)
    other = Outcome(f"{PULLS}.other", expectation, True, 100, 0)
    key = (PULLS, expectation.name)
    read, left = as_read([sampled, other], PULLS, Counter({(*key, "rows"): 50, (*key, "unexpected"): 10}))
    assert (read.is_success, read.share, read.read_rows, read.read_unexpected) == (False, 0.2, 50, 10)
    assert left == other
    assert as_read([sampled], PULLS, Counter()) == (sampled,)
