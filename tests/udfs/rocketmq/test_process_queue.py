"""updateProcessQueueTableInRebalance: its exact limits, and the releases that changed it.

tests/lab/oracle/test_rebalance.py plays the rest against RocketMQ.
"""

import pytest

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import (
    RULES,
    ProcessQueue,
    Update,
    needs_lock,
    rebalance_rules,
    update_process_queue_table,
)
from udfs.rocketmq.version import NEWEST, ClientVersion

NOW = 1_700_000_000_000
Q0, Q1, Q2, Q3 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4))
Table = dict[MessageQueue, ProcessQueue]


def table_of(*queues: MessageQueue, idle_ms: int = 0) -> Table:
    return {mq: ProcessQueue(NOW - idle_ms, NOW - idle_ms) for mq in queues}


def update(
    table: Table,
    mq_set: set[MessageQueue],
    *,
    offset: int = 7,
    is_order: bool = False,
    version: ClientVersion = NEWEST,
) -> Update:
    return update_process_queue_table(
        table,
        "orders",
        mq_set,
        NOW,
        compute_pull_from_where=lambda mq: offset,
        is_order=is_order,
        try_lock=lambda mq: True,
        client_version=version,
    )


def test_a_queue_not_pulled_for_more_than_120_seconds_is_given_up_and_taken_anew() -> None:
    table = table_of(Q0, idle_ms=120_001)
    stuck = table[Q0]
    done = update(table, {Q0}, offset=9)
    assert [(removed.mq, removed.is_pull_expired) for removed in done.removed] == [(Q0, True)]
    assert done.added == [Q0]
    assert stuck.dropped
    assert table[Q0] is not stuck
    assert table[Q0].next_offset == 9
    assert not update(table_of(Q0, idle_ms=120_000), {Q0}).changed


@pytest.mark.parametrize(("version", "wait_ms"), [((4, 7, 1), 1_000), ((5, 1, 4), 1_000), ((5, 2, 0), 500)])
def test_a_busy_listener_keeps_a_lost_queue_in_the_table_dropped(version: ClientVersion, wait_ms: int) -> None:
    table = table_of(Q0)
    table[Q0].consuming_until_ms = NOW + wait_ms + 1
    done = update(table, set(), is_order=True, version=version)
    assert done.kept == [Q0]
    assert not done.changed
    assert table[Q0].dropped
    table[Q0].consuming_until_ms = NOW + wait_ms
    assert [removed.mq for removed in update(table, set(), is_order=True, version=version).removed] == [Q0]


def test_from_5_2_0_a_queue_is_forced_out_20_seconds_after_its_last_lock() -> None:
    table = table_of(Q0)
    table[Q0].consuming_until_ms = NOW + 60_000
    table[Q0].last_lock_ms = NOW - 20_000
    assert update(table, set(), is_order=True).kept == [Q0]
    table[Q0].last_lock_ms = NOW - 20_001
    assert update(table, set(), is_order=True, version=(5, 1, 4)).kept == [Q0]
    assert [removed.mq for removed in update(table, set(), is_order=True).removed] == [Q0]


@pytest.mark.parametrize(
    ("version", "has_messages", "unlock_after_ms", "locked"),
    [
        ((4, 7, 1), True, 20_000, True),
        ((4, 7, 1), False, 0, True),
        ((5, 1, 4), True, 20_000, True),
        ((5, 2, 0), True, 0, False),
    ],
)
def test_up_to_5_1_4_unconsumed_messages_delay_the_unlock_and_a_queue_that_left_counts_as_locked(
    version: ClientVersion, has_messages: bool, unlock_after_ms: int, locked: bool
) -> None:
    table = table_of(Q0)
    table[Q0].has_messages, table[Q0].locked = has_messages, True
    (removed,) = update(table, set(), is_order=True, version=version).removed
    assert (removed.unlock_after_ms, removed.process_queue.locked) == (unlock_after_ms, locked)
    assert not ProcessQueue(NOW, NOW).locked


@pytest.mark.parametrize(("version", "locked"), [((4, 9, 4), False), ((4, 9, 5), True), ((5, 0, 0), True)])
def test_a_queue_just_taken_counts_as_locked_from_4_9_5(version: ClientVersion, locked: bool) -> None:
    table: Table = {}
    update(table, {Q0}, is_order=True, version=version)
    assert table[Q0].locked is locked


@pytest.mark.parametrize(
    ("message_model", "is_order", "version", "needed"),
    [
        ("CLUSTERING", True, NEWEST, True),
        ("CLUSTERING", False, NEWEST, False),
        ("BROADCASTING", True, (5, 3, 1), True),
        ("BROADCASTING", True, (5, 3, 2), False),
        ("BROADCASTING", False, (4, 7, 1), False),
    ],
)
def test_an_orderly_broadcasting_consumer_wants_a_lock_up_to_5_3_1(
    message_model: str, is_order: bool, version: ClientVersion, needed: bool
) -> None:
    assert needs_lock(message_model, is_order, version) is needed


def test_a_lock_is_trusted_for_30_seconds() -> None:
    process_queue = ProcessQueue(NOW, NOW)
    assert not process_queue.is_lock_expired(NOW + 30_000)
    assert process_queue.is_lock_expired(NOW + 30_001)


def test_each_release_follows_the_newest_row_not_above_it() -> None:
    assert [rebalance_rules(rules.since) for rules in RULES] == list(RULES)
    assert rebalance_rules((4, 9, 4)) is RULES[0]
    assert rebalance_rules(NEWEST) is RULES[-1]
