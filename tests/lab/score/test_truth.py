"""Ground truth: intervals, their causes, and spells of them."""

import pytest

from tests.lab.score.truth import Truth
from udfs.rocketmq.model import MessageQueue

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


@pytest.fixture
def truth() -> Truth:
    return Truth()


def test_an_interval_ends_when_the_queue_is_consumed_and_not_before(truth: Truth) -> None:
    truth.update("g", {ONE: "rebalance", TWO: "pull_stopped"}, 100)
    truth.update("another", {}, 110)
    truth.update("g", {TWO: "pull_stopped"}, 130)
    truth.doubled.update("g", {ONE: "rebalance"}, 130)
    truth.doubled.update("g", {}, 130)
    assert [(one.mq, one.start_ms, one.end_ms) for one in truth] == [(ONE, 100, 130), (TWO, 100, None)]
    assert [[one.mq for one in truth.at(at_ms)] for at_ms in (99, 100, 130)] == [[], [ONE, TWO], [TWO]]
    assert list(truth.doubled) == [], "an interval of no length"


def test_another_cause_is_another_interval_with_the_start_of_starvation(truth: Truth) -> None:
    for at_ms, causes in ((100, {ONE: "rebalance"}), (103, {ONE: "frozen"}), (200, {}), (300, {ONE: "frozen"})):
        truth.update("g", causes, at_ms)
    assert [(one.cause, one.start_ms, one.end_ms, one.since_ms) for one in truth] == [
        ("rebalance", 100, 103, 100),
        ("frozen", 103, 200, 100),
        ("frozen", 300, None, 300),
    ]
    assert [one.cause for one in truth.spells(60)] == ["rebalance", "frozen", "frozen"]


def test_a_spell_joins_what_a_split_view_flaps(truth: Truth) -> None:
    for start_ms in (0, 40_000, 80_000, 200_000):
        truth.update("g", {ONE: "split_view"}, start_ms)
        truth.update("g", {}, start_ms + 20_000)
    assert [(one.start_ms, one.end_ms) for one in truth.spells(20_000)] == [(0, 100_000), (200_000, 220_000)]
    assert len(truth.spells(0)) == 4


def test_causes_leave_out_what_passes_by_itself_and_what_was_short(truth: Truth) -> None:
    truth.update("g", {ONE: "rebalance", TWO: "pull_stopped"}, 0)
    for known_ms, causes in ((50_000, set[str]()), (50_001, {"pull_stopped"})):
        truth.known_ms = known_ms
        assert truth.causes() == {"pull_stopped"}
        assert truth.causes(longer_than_ms=50_000) == causes
