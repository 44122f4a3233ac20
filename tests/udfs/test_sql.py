"""The rules as SQL functions: what they do with lists before they ask. In test_spark_views Spark asks them."""

from itertools import pairwise

import pytest

from udfs.rocketmq.allocation import allocate, allocate_all
from udfs.rocketmq.fault import RULES
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import release_of
from udfs.sql import FUNCTIONS, STRATEGIES, allocate_all_queues, allocate_queues

QUEUES = [("broker-b", 1), ("broker-a", 10), ("broker-a", 2), ("broker-b", 0), ("broker-a", 0)]
CLIENTS = ["10.0.0.2@9", "10.0.0.1@7", "10.0.0.3@1"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_lists_in_any_order_give_what_sorted_lists_give(strategy: str) -> None:
    """As RebalanceImpl sorts both before it asks."""
    sorted_queues = [MessageQueue("orders", *one) for one in sorted(QUEUES)]
    for cid in CLIENTS:
        expected = allocate(strategy, "g", cid, sorted_queues, sorted(CLIENTS))
        for queues, clients in ((QUEUES, CLIENTS), (QUEUES[::-1], CLIENTS[::-1])):
            given = allocate_queues(strategy, cid, queues, clients, "orders")
            assert given == [(mq.broker_name, mq.queue_id) for mq in expected]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_twins_have_one_entry_and_leave_a_share_to_nobody(strategy: str) -> None:
    twins = [*CLIENTS, CLIENTS[0]]
    given = allocate_all_queues(strategy, QUEUES, twins, "orders")
    expected = allocate_all(strategy, "g", [MessageQueue("orders", *one) for one in sorted(QUEUES)], sorted(twins))
    assert given is not None
    assert given.keys() == set(CLIENTS)
    assert sum(map(len, given.values())) == sum(map(len, expected.values()))


def test_the_same_client_keeps_its_queues_under_consistent_hash_only_by_the_topics_name() -> None:
    assert allocate_queues("CONSISTENT_HASH", CLIENTS[0], QUEUES, CLIENTS, "orders") != allocate_queues(
        "CONSISTENT_HASH", CLIENTS[0], QUEUES, CLIENTS, "payments"
    )
    with pytest.raises(ValueError, match="hashes the topic's name"):
        allocate_queues("CONSISTENT_HASH", CLIENTS[0], QUEUES, CLIENTS, "")


@pytest.mark.parametrize(
    ("mq_all", "cid_all", "share"),
    [([], CLIENTS, []), (QUEUES, [], []), (QUEUES, ["10.0.0.9@1"], []), (None, CLIENTS, None), (QUEUES, None, None)],
)
def test_without_queues_or_without_the_client_there_is_no_share_and_null_stays_null(
    mq_all: list[tuple[str, int]] | None, cid_all: list[str] | None, share: list[tuple[str, int]] | None
) -> None:
    assert allocate_queues("AVG", CLIENTS[0], mq_all, cid_all, "") == share


@pytest.mark.parametrize("strategy", ["AGV", "MACHINE_ROOM", "CONFIG", ""])
def test_a_strategy_that_lists_alone_do_not_decide_is_refused_with_those_that_they_do(strategy: str) -> None:
    with pytest.raises(ValueError, match=f"strategy '{strategy}' is not one of AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        allocate_queues(strategy, CLIENTS[0], QUEUES, CLIENTS, "orders")


def test_every_function_says_what_it_is_and_none_breaks_out_of_its_quotes() -> None:
    for function in FUNCTIONS:
        assert function.comment
        assert "'" not in function.comment


def test_the_native_functions_name_every_release_at_which_a_rule_changed() -> None:
    """A new row of RULES that changes what is_available says must show in its CASE."""
    is_available = next(one for one in FUNCTIONS if one.name == "is_available")
    changes = [new.since for old, new in pairwise(RULES) if old.needs_reachable != new.needs_reachable]
    assert [f"array({', '.join(map(str, release_of(one)))})" in is_available.body for one in changes] == [True, True]
