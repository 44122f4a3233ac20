"""Progress: which offsets clients and brokers keep, and what a crash or a failover loses.

tests/lab/oracle/test_rebalance.py plays the clients' stores and first offsets against RocketMQ.
"""

import pytest

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import (
    CANNOT_READ,
    NO_OFFSET,
    ConsumerOffsetManager,
    LocalFileOffsetStore,
    RemoteBrokerOffsetStore,
    slave_sync_ms,
)
from udfs.rocketmq.process_queue import OffsetError
from udfs.rocketmq.version import NEWEST, ClientVersion

Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def broker_with(offset: int, mq: MessageQueue = Q0) -> ConsumerOffsetManager:
    broker = ConsumerOffsetManager()
    broker.commit_offset("g", mq, offset)
    return broker


def test_a_broker_without_an_offset_and_one_that_cannot_be_asked_are_told_apart() -> None:
    def fails(mq: MessageQueue) -> int | None:
        raise OffsetError(str(mq))

    for fetch, found in ((lambda mq: None, NO_OFFSET), (fails, CANNOT_READ)):
        store = RemoteBrokerOffsetStore(fetch, print)
        assert store.read_from_store(Q0) == found
        assert store.offset_table == {}
    store = RemoteBrokerOffsetStore(lambda mq: 30, print)
    assert store.read_from_store(Q0) == store.offset_table[Q0] == 30


def test_a_broker_takes_a_smaller_offset_and_says_so() -> None:
    broker = broker_with(10)
    assert not broker.commit_offset("g", Q0, 10)
    assert broker.commit_offset("g", Q0, 4)
    assert broker.query_offset("g", Q0) == 4
    assert broker.query_offset("g", Q1) == broker.query_offset("h", Q0) == NO_OFFSET
    broker.persist()
    broker.commit_offset("g", Q0, 50)
    broker.load()  # a crash loses what was committed since the last flush
    assert broker.query_offset("g", Q0) == 4


def test_a_master_that_returns_does_not_know_what_its_slave_was_reported() -> None:
    master = broker_with(10)
    slave = ConsumerOffsetManager()
    slave.sync_from(master)
    slave.commit_offset("g", Q0, 70)
    assert master.query_offset("g", Q0) == 10
    slave.sync_from(master)
    assert slave.query_offset("g", Q0) == 10


@pytest.mark.parametrize(("version", "every_ms"), [((4, 9, 8), 10_000), ((5, 0, 0), 63_000), (NEWEST, 63_000)])
def test_a_slave_copies_every_10_seconds_and_from_5_0_every_63(version: ClientVersion, every_ms: int) -> None:
    assert slave_sync_ms(version) == every_ms


@pytest.mark.parametrize(
    ("version", "keeps"),
    [((4, 9, 7), False), ((4, 9, 8), True), ((5, 0, 0), False), ((5, 1, 4), False), ((5, 2, 0), True), (NEWEST, True)],
)
def test_a_broadcasting_clients_file_keeps_queues_that_it_lost(version: ClientVersion, keeps: bool) -> None:
    store = LocalFileOffsetStore(version)
    store.update_offset(Q0, 5)
    store.persist_all({Q0})
    store.remove_offset(Q0)
    store.update_offset(Q1, 8)
    store.persist_all({Q1})
    assert store.file == ({Q0: 5, Q1: 8} if keeps else {Q1: 8})
