"""updateProcessQueueTableInRebalance: what is dropped, what stays with a busy listener, what cannot be taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
ELSEWHERE = MessageQueue("payments", "broker-a", 0)

releases = st.sampled_from([(4, 0, 0), (4, 7, 1), (4, 9, 8), (5, 0, 0), (5, 1, 4), (5, 2, 0), (5, 3, 3), NEWEST])
held = st.dictionaries(
    st.sampled_from([Q0, Q1, Q2, Q3, ELSEWHERE]), st.tuples(st.integers(0, 200_000), st.integers(-1_000, 40_000))
)
wanted = st.sets(st.sampled_from([Q0, Q1, Q2, Q3]))

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


@pytest.mark.parametrize(("version", "locked"), [((5, 1, 4), True), ((5, 2, 0), False)])
def test_a_queue_that_left_counts_as_unlocked_from_5_2_0(version: ClientVersion, locked: bool) -> None:
    table = table_of(Q0)
    table[Q0].locked = True
    (removed,) = update(table, set(), is_order=True, version=version).removed
    assert removed.process_queue.locked is locked
    assert not ProcessQueue(NOW, NOW).locked


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


@pytest.mark.parametrize("offset", [-1, -2])
def test_a_queue_whose_offset_is_not_known_is_not_taken(offset: int) -> None:
    table: Table = {}
    done = update(table, {Q0}, offset=offset)
    assert done.no_offset == [Q0]
    assert table == {}
    assert not done.changed


def test_an_orderly_consumer_without_a_broker_to_ask_takes_nothing() -> None:
    table: Table = {}
    done = update_process_queue_table(
        table, "orders", [Q0], NOW, compute_pull_from_where=lambda mq: 0, is_order=True, try_lock=None
    )
    assert done.could_not_lock == [Q0]


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
    ("version", "has_messages", "unlock_after_ms"),
    [((4, 7, 1), True, 20_000), ((4, 7, 1), False, 0), ((5, 1, 4), True, 20_000), ((5, 2, 0), True, 0)],
)
def test_unconsumed_messages_delay_the_unlock_up_to_5_1_4(
    version: ClientVersion, has_messages: bool, unlock_after_ms: int
) -> None:
    table = table_of(Q0)
    table[Q0].has_messages = has_messages
    removed = update(table, set(), is_order=True, version=version).removed
    assert [one.unlock_after_ms for one in removed] == [unlock_after_ms]


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


@given(held, wanted, releases)
def test_a_concurrent_consumer_ends_with_just_its_share_and_none_of_it_dropped(
    reported: dict[MessageQueue, tuple[int, int]], mq_set: set[MessageQueue], version: ClientVersion
) -> None:
    table = {mq: ProcessQueue(NOW - idle, NOW) for mq, (idle, _) in reported.items()}
    done = update(table, mq_set, version=version)
    assert {mq for mq in table if mq.topic == "orders"} == mq_set
    assert (ELSEWHERE in table) == (ELSEWHERE in reported)
    assert not any(process_queue.dropped for process_queue in table.values())
    assert done.changed == any(
        (mq in mq_set) != (mq in reported) or (mq in mq_set and reported[mq][0] > 120_000) for mq in {Q0, Q1, Q2, Q3}
    )


@given(held, wanted, releases)
def test_an_orderly_consumer_drops_what_it_lost_whether_it_leaves_or_stays(
    reported: dict[MessageQueue, tuple[int, int]], mq_set: set[MessageQueue], version: ClientVersion
) -> None:
    table = {mq: ProcessQueue(NOW, NOW, consuming_until_ms=NOW + busy) for mq, (_, busy) in reported.items()}
    before = dict(table)
    done = update(table, mq_set, is_order=True, version=version)
    lost = {mq for mq in reported if mq.topic == "orders" and mq not in mq_set}
    assert {removed.mq for removed in done.removed} | set(done.kept) == lost
    assert all(before[mq].dropped for mq in lost)
    assert {mq for mq in table if mq.topic == "orders"} == mq_set | set(done.kept)


def test_a_lock_is_trusted_for_30_seconds() -> None:
    process_queue = ProcessQueue(NOW, NOW)
    assert not process_queue.is_lock_expired(NOW + 30_000)
    assert process_queue.is_lock_expired(NOW + 30_001)


def test_each_release_follows_the_newest_row_not_above_it() -> None:
    assert [rebalance_rules(rules.since) for rules in RULES] == list(RULES)
    assert rebalance_rules((4, 9, 4)) is RULES[0]
    assert rebalance_rules(NEWEST) is RULES[-1]
