"""One declaration, three engines: Python, Great Expectations on pandas and Spark's own columns say the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from schemas.events import EVENTS, PULLS, ROUTES
from schemas.expectations import Between, InSet, Suite, holds
from schemas.suites import SUITES, suites_of
from streaming.quality import native
from streaming.quality.outcome import Outcome, with_places
from streaming.quality.reading import Row
from streaming.quality.validator import Validator
from tests.quality.sampled import log_of, message, reading_of, samples_of
from tests.schemas.samples import GOOD

Verdict = tuple[str, str, bool, int, int]


def told(outcomes: Sequence[Outcome]) -> list[Verdict]:
    return [(one.suite, one.expectation.name, one.is_success, one.rows, one.unexpected) for one in outcomes]


def by_python(suite: Suite, rows: Sequence[Row]) -> list[Outcome]:
    outcomes = []
    for one in suite.expectations:
        values = [row[one.column] for row in rows if row.get(one.column) is not None]
        bad = sum(not one.is_expected(value) for value in values)
        outcomes.append(Outcome(suite.name, one, holds(one.mostly, len(values), bad), len(values), bad))
    return outcomes


def readings() -> Iterator[tuple[str, Suite, Sequence[Row]]]:
    """Modelled clusters with the samples of the contracts and unreadable messages among them, and nothing at all."""
    for topic in EVENTS:
        unread = (message(topic, None, 90), message(topic, b"\xff", 91), message(topic, b"{}", 92))
        good = json.loads(next(one.value for one in GOOD if one.topic == topic))
        ends = [json.dumps(good | {"event_time_ms": at}).encode() for at in (-(2**63), 2**63 - 1, -(2**63) - 1, 2**63)]
        extreme = (message(topic, value, 93 + number) for number, value in enumerate(ends))
        mixed = [*log_of("twins")[topic][:100], *samples_of(topic), *unread, *extreme]
        for what, messages in (("mixed", mixed), ("nothing", [])):
            found = reading_of(topic, messages, log_of("slow_broker")[ROUTES])  # whose queues are others
            for suite in suites_of(topic):
                yield what, suite, found[suite.name]


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def test_great_expectations_says_what_python_says(validator: Validator) -> None:
    failed = 0
    for what, suite, rows in readings():
        expected = by_python(suite, rows)
        assert told(validator.validate(suite, rows)) == told(expected), what
        failed += sum(not one.is_success for one in expected)
    assert failed > 30, "the readings break many an expectation"


def test_what_is_unexpected_is_shown_with_its_place(validator: Validator) -> None:
    rows = reading_of(PULLS, samples_of(PULLS))[PULLS]
    outcome = next(one for one in validator.validate(SUITES[PULLS], rows) if one.expectation.column == "queue_id")
    assert (outcome.observed, len(outcome.places)) == ((-1,), 1)
    assert outcome.places[0].startswith(f"{PULLS}-0@")


@pytest.mark.parametrize(
    ("expectation", "values", "is_success"),
    [
        (Between(column="x", why="", minimum=0, mostly=0.95), [0] * 95 + [-1] * 5, True),
        (Between(column="x", why="", minimum=0, mostly=0.95), [0] * 94 + [-1] * 6, False),
        (Between(column="x", why="", maximum=2**63 - 1), [2**63 - 1, -(2**63)], True),
        (Between(column="x", why="", maximum=2**53), [2**53 + 1], False),
        (InSet(column="x", why="", values=("a", "b"), mostly=0.5), ["a", "c"], True),
        (InSet(column="x", why="", values=("a",)), ["a", None, "A"], False),
        (InSet(column="x", why="", values=("a",)), [None, None], True),
    ],
)
def test_the_edges_of_a_verdict(validator: Validator, expectation: Any, values: list[Any], is_success: bool) -> None:
    """Shares that are met exactly, integers that no float has, nulls."""
    suite = Suite(PULLS, (), SUITES[PULLS].schema, (expectation,))
    rows = [{"x": value, "partition": 0, "offset": number} for number, value in enumerate(values)]
    assert by_python(suite, rows)[0].is_success is is_success
    validator.declare(suite)
    assert told(validator.validate(suite, rows)) == told(by_python(suite, rows))
    validator.declare(SUITES[PULLS])


def test_no_more_than_five_examples_are_kept_and_long_ones_cut() -> None:
    expectation = InSet(column="x", why="", values=("a",))
    rows: list[Mapping[str, Any]] = [{"x": "b" * 1_000 + str(n), "partition": 0, "offset": n} for n in range(50)]
    outcome = with_places(Outcome(PULLS, expectation, False, 50, 50), rows, PULLS)
    assert (len(outcome.places), len(outcome.observed)) == (5, 5)


@pytest.mark.spark
def test_sparks_own_columns_say_what_python_says(spark: SparkSession) -> None:
    for what, suite, rows in readings():
        if what == "nothing":
            continue
        frame = spark.createDataFrame(native.as_tuples(suite, rows), native.schema_of_readings(suite))
        counted = frame.agg(*native.counts(suite)).first()
        assert counted is not None
        assert told(native.outcomes(suite, counted.asDict())) == told(by_python(suite, rows))


@pytest.mark.spark
@pytest.mark.parametrize("batches", [20, pytest.param(200, marks=pytest.mark.proof)])
def test_native_columns_cache_nothing_and_a_cached_frame_would_be_seen(spark: SparkSession, batches: int) -> None:
    """Spark's list of what is persistent stays as it is; one cached frame makes it longer, so the look sees it."""
    suite = SUITES[f"{ROUTES}.brokers"]
    rows = reading_of(ROUTES, log_of("healthy")[ROUTES][:5])[suite.name]
    frame = spark.createDataFrame(native.as_tuples(suite, rows), native.schema_of_readings(suite)).coalesce(1)
    persistent = spark.sparkContext._jsc.getPersistentRDDs  # type: ignore[union-attr]  # a session that runs has one
    before = len(persistent())
    for _ in range(batches):
        counted = frame.agg(*native.counts(suite)).first()
        assert counted is not None
        assert counted["rows_0"] == len(rows)
        assert len(persistent()) == before
    cached = frame.persist()
    cached.count()
    assert len(persistent()) == before + 1
    cached.unpersist(blocking=True)
