"""Exact limits of a broker's lists and locks; tests/lab/oracle/test_membership.py plays the rest against RocketMQ."""

from streaming.simulator.consumer_manager import ClientChannelInfo, ConsumerManager, RebalanceLockManager
from udfs.rocketmq.model import MessageQueue

NOW = 1_700_000_000_000


def test_a_channel_expires_after_more_than_120_seconds_of_silence() -> None:
    lists = ConsumerManager()
    for group, address, client_id, at_ms in (("h", 1, "A", 0), ("g", 1, "A", 0), ("g", 2, "B", 60_000)):
        lists.register_consumer(group, ClientChannelInfo(address, client_id), [], NOW + at_ms)
    assert lists.scan_not_active_channel(NOW + 120_000) == []
    assert sorted(lists.scan_not_active_channel(NOW + 120_001)) == [("g", 1), ("h", 1)]
    assert lists.get_consumer_list_by_group("g") == ["B"]
    assert lists.get_consumer_list_by_group("h") is None


def test_a_lock_is_free_60_seconds_after_its_last_renewal_and_a_refused_request_renews_nothing() -> None:
    locks, mq = RebalanceLockManager(), MessageQueue("orders", "broker-a", 0)
    steps = [("A", 0), ("A", 40_000), ("B", 100_000), ("B", 100_001), ("A", 100_002), ("A", 160_002)]
    granted = [locks.try_lock("g", mq, client_id, NOW + at_ms) for client_id, at_ms in steps]
    assert granted == [True, True, False, True, False, True]
