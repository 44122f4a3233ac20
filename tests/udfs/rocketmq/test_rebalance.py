"""doRebalance: who means to hold what, when nothing changes, and how soon the next round comes."""

import pytest

from udfs.rocketmq.allocation import UnknownStrategyError
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue
from udfs.rocketmq.rebalance import (
    do_rebalance,
    is_balanced,
    rebalance_by_topic,
    rebalance_postponed_ms,
    rebalance_wait_ms,
    sort_client_ids,
)
from udfs.rocketmq.version import NEWEST, ClientVersion

NOW = 1_700_000_000_000


def queues_of(count: int, topic: str = "orders") -> set[MessageQueue]:
    return {MessageQueue(topic, f"broker-{'ab'[index % 2]}", index // 2) for index in range(count)}


def test_a_strategy_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnknownStrategyError):
        rebalance_by_topic("CLUSTERING", "AVERAGE", "g", "A", "orders", queues_of(4), ["A"])


def test_client_ids_sort_by_utf_16_units() -> None:
    assert sort_client_ids(["b", "a", "\U0001f600", "\uff21", "a"]) == ["a", "a", "b", "\U0001f600", "\uff21"]
    assert sort_client_ids(["10.0.0.9@1", "10.0.0.10@1"]) == ["10.0.0.10@1", "10.0.0.9@1"]


def test_a_strategy_that_throws_is_unbalanced_and_a_missing_list_or_route_is_not() -> None:
    table: dict[MessageQueue, ProcessQueue] = {}
    mq_set = queues_of(2)
    assert not is_balanced(table, "orders", "CLUSTERING", mq_set, ["A"], None)
    assert is_balanced(table, "orders", "CLUSTERING", mq_set, None, None)
    assert is_balanced(table, "orders", "CLUSTERING", None, ["A"], None)
    for old in ((5, 3, 3), (5, 4, 0)):
        assert is_balanced(table, "orders", "CLUSTERING", mq_set, None, None, old)
        assert is_balanced(table, "orders", "CLUSTERING", None, ["A"], None, old)
        assert not is_balanced(table, "orders", "CLUSTERING", mq_set, ["A"], None, old)
    assert not is_balanced(table, "orders", "BROADCASTING", mq_set, None, sorted(mq_set))


@pytest.mark.parametrize(("version", "balanced"), [((5, 3, 3), False), ((5, 4, 0), False), ((5, 5, 0), True)])
def test_an_empty_list_or_route_is_a_missing_one_from_5_5_0(version: ClientVersion, balanced: bool) -> None:
    some: set[MessageQueue] = queues_of(2)
    none: set[MessageQueue] = set()
    assert is_balanced({}, "orders", "CLUSTERING", some, [], None, version) is balanced
    assert is_balanced({}, "orders", "CLUSTERING", none, ["A"], None, version) is balanced
    only = [MessageQueue("orders", "broker-a", 0)]
    fixed = rebalance_by_topic(
        "CLUSTERING", "CONFIG", "g", "A", "orders", none, ["A"], client_version=version, config_queues=only
    )
    assert fixed == (None if balanced else only)


@pytest.mark.parametrize(
    ("answers", "version", "balanced"),
    [
        ({"a": True, "b": True}, NEWEST, True),
        ({"a": False, "b": True}, NEWEST, False),
        ({"a": False, "b": True}, (5, 1, 4), True),
        ({"a": True, "b": False}, (5, 1, 4), False),
        ({}, NEWEST, True),
    ],
)
def test_every_topic_must_be_balanced_and_up_to_5_1_4_only_the_last(
    answers: dict[str, bool], version: ClientVersion, balanced: bool
) -> None:
    table = {mq: ProcessQueue(NOW, NOW) for mq in queues_of(1, "gone")}
    asked: list[str] = []

    def rebalance_topic(topic: str) -> bool:
        asked.append(topic)
        return answers[topic]

    assert do_rebalance(answers, rebalance_topic, table, version) is balanced
    assert asked == list(answers)
    assert table == {}


@pytest.mark.parametrize(
    ("version", "balanced", "wait_ms"),
    [(NEWEST, True, 20_000), (NEWEST, False, 1_000), ((5, 2, 0), False, 1_000), ((5, 1, 4), False, 20_000)],
)
def test_an_unbalanced_client_tries_again_after_a_second_from_5_2_0(
    version: ClientVersion, balanced: bool, wait_ms: int
) -> None:
    assert rebalance_wait_ms(balanced, version) == wait_ms


def test_two_rounds_are_never_closer_than_a_second_from_5_2_0() -> None:
    assert rebalance_postponed_ms(NOW, NOW + 300) == 700
    assert rebalance_postponed_ms(NOW, NOW + 1_000) == 0
    assert rebalance_postponed_ms(NOW, NOW + 300, (5, 1, 4)) == 0
