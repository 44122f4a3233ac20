"""Queue locks: the exact limits of their times, and what a client does with those it was refused.

tests/lab/oracle plays the rest against RocketMQ's own classes: sessions of locks at a broker (test_membership.py), and
whose locks a client renews (test_rebalance.py).
"""

from streaming.simulator.consumer_manager import RebalanceLockManager, lock_all, may_pull_orderly
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue

NOW = 1_700_000_000_000
Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
ON_B = MessageQueue("orders", "broker-b", 0)


def test_a_lock_is_free_60_seconds_after_its_last_renewal_and_a_refused_request_renews_nothing() -> None:
    locks = RebalanceLockManager()
    steps = [("A", 0), ("A", 40_000), ("B", 100_000), ("B", 100_001), ("A", 100_002), ("A", 160_002)]
    granted = [locks.try_lock("g", Q0, client_id, NOW + at_ms) for client_id, at_ms in steps]
    assert granted == [True, True, False, True, False, True]


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
