"""Queue locks: who gets one, for how long, and what a client does with those it was refused.

tests/lab/oracle/test_membership.py plays sessions of locks and releases against RocketMQ's own classes.
"""

import pytest

from streaming.simulator.queue_lock import RebalanceLockManager, lock_all, may_pull_orderly
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue
from udfs.rocketmq.version import NEWEST, ClientVersion

NOW = 1_700_000_000_000
Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
ON_B = MessageQueue("orders", "broker-b", 0)


@pytest.mark.parametrize(
    ("why", "requests"),
    [
        ("the first has it", [("g", Q0, "A", 0, True), ("g", Q0, "A", 1, True), ("g", Q0, "B", 2, False)]),
        ("groups are apart", [("g", Q0, "A", 0, True), ("h", Q0, "B", 0, True)]),
        ("queues are apart", [("g", Q0, "A", 0, True), ("g", Q1, "B", 0, True)]),
        ("two processes with one ClientId hold it", [("g", Q0, "A", 0, True), ("g", Q0, "A", 0, True)]),
        (
            "it is free 60 seconds after its last renewal",
            [
                ("g", Q0, "A", 0, True),
                ("g", Q0, "A", 40_000, True),
                ("g", Q0, "B", 100_000, False),
                ("g", Q0, "B", 100_001, True),
                ("g", Q0, "A", 100_002, False),
            ],
        ),
        (
            "a refused request renews nothing",
            [("g", Q0, "A", 0, True), ("g", Q0, "B", 59_000, False), ("g", Q0, "B", 60_001, True)],
        ),
    ],
)
def test_requests_for_locks(why: str, requests: list[tuple[str, MessageQueue, str, int, bool]]) -> None:
    locks = RebalanceLockManager()
    granted = [locks.try_lock(group, mq, client_id, NOW + at_ms) for group, mq, client_id, at_ms, _ in requests]
    assert granted == [expected for *_, expected in requests], why


def table_of(*queues: MessageQueue, locked: bool = True) -> dict[MessageQueue, ProcessQueue]:
    return {mq: ProcessQueue(NOW, NOW, locked=locked) for mq in queues}


def test_every_broker_is_asked_once_for_all_its_queues() -> None:
    asked: dict[str, set[MessageQueue]] = {}

    def lock_batch(broker_name: str, mqs: set[MessageQueue]) -> set[MessageQueue]:
        asked[broker_name] = mqs
        return mqs

    table = table_of(Q0, Q1, ON_B, locked=False)
    lock_all(table, lock_batch, NOW + 20_000)
    assert asked == {"broker-a": {Q0, Q1}, "broker-b": {ON_B}}
    assert all(held.locked and held.last_lock_ms == NOW + 20_000 for held in table.values())


def test_a_refused_queue_loses_its_flag_and_one_of_a_silent_broker_keeps_it_until_30_seconds() -> None:
    table = table_of(Q0, Q1, ON_B)
    answers = {"broker-a": {Q1}, "broker-b": None}
    lock_all(table, lambda broker_name, mqs: answers[broker_name], NOW + 20_000)
    assert [may_pull_orderly(table[mq]) for mq in (Q0, Q1, ON_B)] == [False, True, True]
    assert [table[mq].is_lock_expired(NOW + 30_001) for mq in (Q1, ON_B)] == [False, True]
    assert not table[ON_B].is_lock_expired(NOW + 30_000)


@pytest.mark.parametrize(("version", "asked"), [((4, 9, 8), {Q0, Q1}), ((5, 0, 0), {Q1}), (NEWEST, {Q1})])
def test_a_dropped_queues_lock_is_renewed_up_to_4_9_8(version: ClientVersion, asked: set[MessageQueue]) -> None:
    table = table_of(Q0, Q1)
    table[Q0].dropped = True
    seen: set[MessageQueue] = set()
    lock_all(table, lambda _, mqs: seen.update(mqs), NOW, version)
    assert seen == asked
    assert not may_pull_orderly(table[Q0])
