"""Queue locks: who gets one, for how long, and what a client does with those it was refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.queue_lock import RebalanceLockManager, lock_all, may_consume_orderly, may_pull_orderly
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue
from udfs.rocketmq.version import NEWEST, ClientVersion

NOW = 1_700_000_000_000
Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
ON_B = MessageQueue("orders", "broker-b", 0)

clients = st.sampled_from("AB")
steps = st.lists(
    st.tuples(st.sampled_from(["lock", "unlock"]), st.sampled_from([Q0, Q1]), clients, st.integers(0, 50_000)),
    max_size=20,
)


def test_a_lock_goes_to_the_first_and_nobody_else() -> None:
    locks = RebalanceLockManager()
    assert locks.try_lock("g", Q0, "A", NOW)
    assert locks.try_lock("g", Q0, "A", NOW + 1)
    assert not locks.try_lock("g", Q0, "B", NOW + 2)
    assert locks.holder("g", Q0, NOW + 2) == "A"


def test_another_group_and_another_queue_are_other_locks() -> None:
    locks = RebalanceLockManager()
    assert locks.try_lock("g", Q0, "A", NOW)
    assert locks.try_lock("h", Q0, "B", NOW)
    assert locks.try_lock("g", Q1, "B", NOW)


def test_a_lock_is_free_60_seconds_after_it_was_last_asked_for() -> None:
    locks = RebalanceLockManager()
    locks.try_lock("g", Q0, "A", NOW)
    locks.try_lock("g", Q0, "A", NOW + 40_000)
    assert not locks.try_lock("g", Q0, "B", NOW + 100_000)
    assert locks.holder("g", Q0, NOW + 100_001) is None
    assert locks.try_lock("g", Q0, "B", NOW + 100_001)
    assert not locks.try_lock("g", Q0, "A", NOW + 100_002)


def test_a_refused_request_does_not_renew_the_lock() -> None:
    locks = RebalanceLockManager()
    locks.try_lock("g", Q0, "A", NOW)
    assert not locks.try_lock("g", Q0, "B", NOW + 59_000)
    assert locks.try_lock("g", Q0, "B", NOW + 60_001)


def test_two_processes_with_one_client_id_hold_the_same_lock() -> None:
    locks = RebalanceLockManager()
    twins = ["A", "A"]
    assert [locks.try_lock("g", Q0, client_id, NOW) for client_id in twins] == [True, True]


def test_only_the_holder_gives_back() -> None:
    locks = RebalanceLockManager()
    locks.try_lock_batch("g", [Q0, Q1], "A", NOW)
    locks.unlock_batch("g", [Q0], "B")
    locks.unlock_batch("unknown", [Q0], "A")
    assert locks.holder("g", Q0, NOW) == "A"
    locks.unlock_batch("g", [Q0], "A")
    assert locks.try_lock_batch("g", [Q0, Q1], "B", NOW + 1) == {Q0}


def test_a_group_is_unlocked_when_every_lock_is_expired_or_given_back() -> None:
    locks = RebalanceLockManager()
    assert locks.is_lock_all_expired("g", NOW)
    locks.try_lock("g", Q0, "A", NOW)
    locks.try_lock("g", Q1, "A", NOW + 10)
    assert not locks.is_lock_all_expired("g", NOW + 60_010)
    assert locks.is_lock_all_expired("g", NOW + 60_011)


@given(steps)
def test_whoever_was_granted_a_lock_keeps_it_60_seconds_unless_it_gives_back(
    played: list[tuple[str, MessageQueue, str, int]],
) -> None:
    locks, now = RebalanceLockManager(), NOW
    granted: dict[MessageQueue, tuple[str, int]] = {}
    for step, mq, client_id, later_ms in played:
        now += later_ms
        holder = granted.get(mq)
        is_held = holder is not None and now - holder[1] <= 60_000
        if step == "unlock":
            locks.unlock_batch("g", [mq], client_id)
            if holder is not None and holder[0] == client_id:
                del granted[mq]
            continue
        may_have_it = holder is None or not is_held or holder[0] == client_id
        assert locks.try_lock("g", mq, client_id, now) is may_have_it
        if may_have_it:
            granted[mq] = (client_id, now)


def table_of(*queues: MessageQueue, locked: bool = True) -> dict[MessageQueue, ProcessQueue]:
    return {mq: ProcessQueue(NOW, NOW, locked=locked) for mq in queues}


def test_every_broker_is_asked_once_for_all_its_queues() -> None:
    asked: dict[str, set[MessageQueue]] = {}

    def lock_batch(broker_name: str, mqs: set[MessageQueue]) -> set[MessageQueue]:
        asked[broker_name] = mqs
        return mqs

    table = table_of(Q0, Q1, ON_B, locked=False)
    assert lock_all(table, lock_batch, NOW + 20_000) == []
    assert asked == {"broker-a": {Q0, Q1}, "broker-b": {ON_B}}
    assert all(one.locked and one.last_lock_ms == NOW + 20_000 for one in table.values())


def test_a_refused_queue_loses_its_flag_and_one_of_a_silent_broker_keeps_it_until_30_seconds() -> None:
    table = table_of(Q0, Q1, ON_B)
    answers = {"broker-a": {Q1}, "broker-b": None}
    assert lock_all(table, lambda broker_name, mqs: answers[broker_name], NOW + 20_000) == [Q0]
    assert not may_consume_orderly(table[Q0], "CLUSTERING", NOW + 20_000)
    assert may_consume_orderly(table[Q1], "CLUSTERING", NOW + 50_000)
    assert may_consume_orderly(table[ON_B], "CLUSTERING", NOW + 30_000)
    assert not may_consume_orderly(table[ON_B], "CLUSTERING", NOW + 30_001)
    assert may_pull_orderly(table[ON_B])
    assert not may_pull_orderly(table[Q0])


@pytest.mark.parametrize(("version", "asked"), [((4, 9, 8), {Q0, Q1}), ((5, 0, 0), {Q1}), (NEWEST, {Q1})])
def test_a_dropped_queues_lock_is_renewed_up_to_4_9_8(version: ClientVersion, asked: set[MessageQueue]) -> None:
    table = table_of(Q0, Q1)
    table[Q0].dropped = True
    seen: set[MessageQueue] = set()

    def lock_batch(broker_name: str, mqs: set[MessageQueue]) -> set[MessageQueue]:
        seen.update(mqs)
        return mqs

    lock_all(table, lock_batch, NOW, version)
    assert seen == asked


def test_a_dropped_queue_is_neither_pulled_nor_consumed() -> None:
    process_queue = ProcessQueue(NOW, NOW, locked=True, dropped=True)
    assert not may_pull_orderly(process_queue)
    assert not may_consume_orderly(process_queue, "BROADCASTING", NOW)


def test_a_broadcasting_listener_needs_no_lock() -> None:
    assert may_consume_orderly(ProcessQueue(NOW, NOW), "BROADCASTING", NOW + 10**6)
