"""doRebalance: who means to hold what, when nothing changes, and how soon the next round comes."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    truncate_message_queue_not_my_topic,
    working_message_queues,
)
from udfs.rocketmq.version import NEWEST, ClientVersion

NOW = 1_700_000_000_000
strategies = st.sampled_from(["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
counts = st.integers(1, 32)
views = st.lists(st.sampled_from([f"10.0.0.{host}@7" for host in range(12)]), min_size=1, max_size=12)


def queues_of(count: int, topic: str = "orders") -> set[MessageQueue]:
    return {MessageQueue(topic, f"broker-{'ab'[index % 2]}", index // 2) for index in range(count)}


def shares(strategy: str, mq_set: set[MessageQueue], cid_all: list[str]) -> list[list[MessageQueue]]:
    """What each channel of the group takes, twins one by one."""
    taken = [rebalance_by_topic("CLUSTERING", strategy, "g", cid, "orders", mq_set, cid_all) for cid in cid_all]
    return [share for share in taken if share is not None]


def table_of(*queues: MessageQueue, dropped: tuple[MessageQueue, ...] = ()) -> dict[MessageQueue, ProcessQueue]:
    return {mq: ProcessQueue(NOW, NOW, dropped=mq in dropped) for mq in queues}


@given(strategies, counts, views.map(lambda view: list(dict.fromkeys(view))), st.randoms(use_true_random=False))
def test_equal_views_make_shares_disjoint_and_leave_nothing(
    strategy: str, count: int, cid_all: list[str], order: Random
) -> None:
    mq_set = queues_of(count)
    reported = cid_all.copy()
    order.shuffle(reported)
    taken = shares(strategy, mq_set, reported)
    assert len(taken) == len(cid_all)
    assert Counter(mq for share in taken for mq in share) == Counter(mq_set)


@given(strategies, counts, views.map(lambda view: list(dict.fromkeys(view))), st.data())
def test_a_member_that_does_not_subscribe_starves_exactly_its_share(
    strategy: str, count: int, cid_all: list[str], data: st.DataObject
) -> None:
    mq_set = queues_of(count)
    silent = data.draw(st.sampled_from(cid_all))
    pulled = {
        mq
        for cid in cid_all
        if cid != silent
        for mq in rebalance_by_topic("CLUSTERING", strategy, "g", cid, "orders", mq_set, cid_all) or []
    }
    its_share = rebalance_by_topic("CLUSTERING", strategy, "g", silent, "orders", mq_set, cid_all)
    assert its_share is not None
    assert mq_set - pulled == set(its_share)


@given(st.sampled_from(["AVG", "AVG_BY_CIRCLE"]), counts, views)
def test_later_twins_slots_are_nobodys(strategy: str, count: int, cid_all: list[str]) -> None:
    mq_set, in_order = queues_of(count), sort_client_ids(cid_all)
    slots = [f"{index:02d}" for index in range(len(in_order))]
    whole = dict(zip(slots, shares(strategy, mq_set, slots), strict=True))
    lost = {mq for index, slot in enumerate(slots) if in_order.index(in_order[index]) != index for mq in whole[slot]}
    assert mq_set.difference(*shares(strategy, mq_set, cid_all)) == lost


@given(counts, views)
def test_broadcasting_takes_every_queue_whoever_else_is_there(count: int, cid_all: list[str]) -> None:
    mq_set = queues_of(count)
    for view in (cid_all, [], None):  # nobody is asked for the list
        assert rebalance_by_topic("BROADCASTING", "AVG", "g", "A", "orders", mq_set, view) == sorted(mq_set)


@pytest.mark.parametrize(
    ("message_model", "mq_set", "cid_all", "why"),
    [
        ("CLUSTERING", None, ["A"], "no route yet"),
        ("BROADCASTING", None, ["A"], "no route yet"),
        ("CLUSTERING", queues_of(4), None, "no broker answered"),
        ("CLUSTERING", None, None, "neither"),
        ("CLUSTERING", queues_of(4), [], "the strategy throws"),
        ("CLUSTERING", set(), ["A"], "no readable queue, and the strategy throws"),
    ],
)
def test_a_round_is_skipped_and_the_old_queues_are_kept(
    message_model: str, mq_set: set[MessageQueue] | None, cid_all: list[str] | None, why: str
) -> None:
    assert rebalance_by_topic(message_model, "AVG", "g", "A", "orders", mq_set, cid_all) is None, why


def test_a_client_that_is_not_listed_drops_everything() -> None:
    assert rebalance_by_topic("CLUSTERING", "AVG", "g", "C", "orders", queues_of(4), ["A", "B"]) == []


def test_an_unreadable_topic_is_dropped_by_broadcasting_only() -> None:
    assert rebalance_by_topic("BROADCASTING", "AVG", "g", "A", "orders", set(), ["A"]) == []


def test_a_strategy_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnknownStrategyError):
        rebalance_by_topic("CLUSTERING", "AVERAGE", "g", "A", "orders", queues_of(4), ["A"])


def test_options_reach_the_strategy() -> None:
    mq_set = queues_of(4)
    only = [MessageQueue("orders", "broker-a", 0)]
    assert rebalance_by_topic("CLUSTERING", "CONFIG", "g", "A", "orders", mq_set, ["A"], config_queues=only) == only


def test_client_ids_sort_by_utf_16_units() -> None:
    assert sort_client_ids(["b", "a", "\U0001f600", "\uff21", "a"]) == ["a", "a", "b", "\U0001f600", "\uff21"]
    assert sort_client_ids(["10.0.0.9@1", "10.0.0.10@1"]) == ["10.0.0.10@1", "10.0.0.9@1"]


def test_a_dropped_queue_does_not_count_as_held() -> None:
    mine, others = sorted(queues_of(2)), sorted(queues_of(2, "payments"))
    table = table_of(*mine, *others, dropped=(mine[0],))
    assert working_message_queues(table, "orders") == {mine[1]}


def test_a_topic_is_balanced_when_just_the_share_is_held() -> None:
    first, second = sorted(queues_of(2))
    both, view = {first, second}, ["A", "B"]
    assert is_balanced(table_of(first), "orders", "CLUSTERING", both, view, [first])
    assert not is_balanced(table_of(), "orders", "CLUSTERING", both, view, [first])
    assert not is_balanced(table_of(first, second), "orders", "CLUSTERING", both, view, [first])
    assert not is_balanced(table_of(first, dropped=(first,)), "orders", "CLUSTERING", both, view, [first])


def test_a_strategy_that_throws_is_unbalanced_and_a_missing_list_or_route_is_not() -> None:
    table, mq_set = table_of(), queues_of(2)
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


def test_queues_of_topics_no_longer_subscribed_are_dropped_and_removed_at_once() -> None:
    table = table_of(*queues_of(3), *queues_of(2, "payments"))
    gone = {mq: process_queue for mq, process_queue in table.items() if mq.topic == "orders"}
    assert set(truncate_message_queue_not_my_topic(table, {"payments"})) == queues_of(3)
    assert set(table) == queues_of(2, "payments")
    assert all(process_queue.dropped for process_queue in gone.values())


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
    table = table_of(*queues_of(1, "gone"))
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
