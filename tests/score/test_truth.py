"""Ground truth: intervals, their causes, and spells of them."""

from tests.score.truth import Truth
from udfs.rocketmq.model import MessageQueue

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def change(
    truth: Truth,
    consumer_group: str,
    starved: dict[MessageQueue, str],
    doubled: dict[MessageQueue, str],
    now_ms: int,
) -> None:
    truth.update(consumer_group, starved, now_ms)
    truth.doubled.update(consumer_group, doubled, now_ms)


def test_an_interval_ends_when_the_queue_is_consumed_and_not_before() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance", TWO: "pull_stopped"}, {}, 100)
    change(truth, "g", {TWO: "pull_stopped"}, {}, 130)
    assert [(one.mq, one.start_ms, one.end_ms) for one in truth] == [(ONE, 100, 130), (TWO, 100, None)]
    assert [one.mq for one in truth.at(100)] == [ONE, TWO]
    assert [one.mq for one in truth.at(130)] == [TWO]
    assert truth.at(99) == []


def test_another_cause_is_another_interval_with_the_start_of_starvation() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance"}, {}, 100)
    change(truth, "g", {ONE: "frozen_client"}, {}, 103)
    change(truth, "g", {}, {}, 200)
    change(truth, "g", {ONE: "frozen_client"}, {}, 300)
    assert [(one.cause, one.start_ms, one.end_ms, one.since_ms) for one in truth] == [
        ("rebalance", 100, 103, 100),
        ("frozen_client", 103, 200, 100),
        ("frozen_client", 300, None, 300),
    ]


def test_an_interval_of_no_length_never_was() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance"}, {ONE: "rebalance"}, 100)
    change(truth, "g", {}, {}, 100)
    assert list(truth) == []
    assert list(truth.doubled) == []


def test_groups_are_apart() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance"}, {}, 100)
    change(truth, "h", {}, {}, 110)
    assert [(one.consumer_group, one.end_ms) for one in truth] == [("g", None)]


def test_a_spell_joins_what_a_split_view_flaps() -> None:
    truth = Truth()
    for start_ms in (0, 40_000, 80_000, 200_000):
        change(truth, "g", {ONE: "split_view"}, {ONE: "split_view"}, start_ms)
        change(truth, "g", {}, {}, start_ms + 20_000)
    assert [(one.start_ms, one.end_ms) for one in truth.spells(20_000)] == [(0, 100_000), (200_000, 220_000)]
    assert [(one.start_ms, one.end_ms) for one in truth.doubled.spells(60_000)] == [(0, 100_000), (200_000, 220_000)]
    assert len(truth.spells(0)) == 4


def test_spells_of_two_causes_stay_two() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance"}, {}, 0)
    change(truth, "g", {ONE: "frozen_client"}, {}, 10)
    change(truth, "g", {}, {}, 20)
    assert [one.cause for one in truth.spells(60_000)] == ["rebalance", "frozen_client"]


def test_causes_leave_out_what_passes_by_itself_and_what_was_short() -> None:
    truth = Truth()
    change(truth, "g", {ONE: "rebalance", TWO: "pull_stopped"}, {}, 0)
    truth.known_ms = 50_000
    assert truth.causes() == {"pull_stopped"}
    assert truth.causes(longer_than_ms=50_000) == frozenset()
    truth.known_ms = 50_001
    assert truth.causes(longer_than_ms=50_000) == {"pull_stopped"}


def test_doubled_queues_have_intervals_of_their_own() -> None:
    truth = Truth()
    change(truth, "g", {}, {ONE: "mixed_strategy"}, 5)
    change(truth, "g", {ONE: "mixed_strategy"}, {}, 9)
    assert [(one.mq, one.cause) for one in truth.doubled.at(8)] == [(ONE, "mixed_strategy")]
    assert truth.doubled.at(9) == []
    assert [one.start_ms for one in truth.at(9)] == [9]
