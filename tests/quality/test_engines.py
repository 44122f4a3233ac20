"""One declaration, two engines: Python and Great Expectations on pandas say the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from schemas.events import EVENTS, PULLS, ROUTES
from schemas.expectations import Between, InSet, Suite
from schemas.suites import SUITES, suites_of
from streaming.quality.inspection import Row, examples_of, outcome_of
from streaming.quality.validator import Validator
from tests.quality.sampled import by_python, log_of, message, reading_of, samples_of
from tests.schemas.samples import GOOD


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


pytestmark = pytest.mark.xdist_group("great_expectations")  # one process imports it


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def test_great_expectations_says_what_python_says(validator: Validator) -> None:
    failed = 0
    for what, suite, rows in readings():
        expected = by_python(suite, rows)
        assert validator.validate(suite, rows) == expected, what
        failed += sum(not is_success for is_success, _, _ in expected)
    assert failed > 30, "the readings break many an expectation"


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
    assert by_python(suite, rows)[0][0] is is_success
    assert validator.validate(suite, rows) == by_python(suite, rows)


def test_no_more_than_five_examples_are_kept_and_long_ones_cut() -> None:
    expectation = InSet(column="x", why="", values=("a",))
    rows: list[Mapping[str, Any]] = [{"x": "b" * 1_000 + str(n), "partition": 0, "offset": n} for n in range(50)]
    outcome = outcome_of(PULLS, expectation, False, 50, 50, examples_of(expectation, rows, PULLS))
    assert (len(outcome["sample_offsets"]), [*map(len, outcome["observed"])]) == (5, [100] * 5)
