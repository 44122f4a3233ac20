"""What a send is answered: four statuses, and how long flush and replication make the producer wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.broker import Put, StoreConfig, put_message
from udfs.rocketmq.version import NEWEST, ClientVersion

OLD: ClientVersion = (4, 9, 8)
ASYNC = StoreConfig()
FLUSHED = StoreConfig("SYNC_FLUSH")
REPLICATED = StoreConfig(broker_role="SYNC_MASTER", in_sync_replicas=2)
BOTH = StoreConfig("SYNC_FLUSH", "SYNC_MASTER", 2)

configs = st.sampled_from([ASYNC, FLUSHED, REPLICATED, BOTH])
releases = st.sampled_from([(4, 6, 1), (4, 7, 0), (4, 9, 2), OLD, (5, 0, 0), NEWEST])


def test_an_asynchronous_broker_answers_after_the_append() -> None:
    assert put_message(ASYNC, 1, 4_000, None) == Put("SEND_OK", 1)


@pytest.mark.parametrize(
    ("flush_ms", "put"),
    [(7, Put("SEND_OK", 8)), (5_000, Put("SEND_OK", 5_001)), (5_001, Put("FLUSH_DISK_TIMEOUT", 5_001))],
)
def test_a_synchronous_flush_is_waited_for_5_seconds(flush_ms: int, put: Put) -> None:
    assert put_message(FLUSHED, 1, flush_ms, None) == put


@pytest.mark.parametrize(
    ("version", "replica_ms", "put"),
    [
        (NEWEST, 3_000, Put("SEND_OK", 3_001)),
        (NEWEST, 3_001, Put("FLUSH_SLAVE_TIMEOUT", 3_001)),
        ((4, 9, 2), 3_001, Put("SEND_OK", 3_002)),
        ((4, 9, 2), 5_001, Put("FLUSH_SLAVE_TIMEOUT", 5_001)),
        ((4, 9, 3), 3_001, Put("FLUSH_SLAVE_TIMEOUT", 3_001)),
    ],
)
def test_replication_is_waited_for_3_seconds_and_5_up_to_4_9_2(
    version: ClientVersion, replica_ms: int, put: Put
) -> None:
    assert put_message(REPLICATED, 1, 0, replica_ms, broker_version=version) == put


def test_a_master_without_a_slave_says_so_at_once_up_to_4_9_8_and_waits_in_vain_from_5_0() -> None:
    assert put_message(REPLICATED, 1, 0, None, broker_version=OLD) == Put("SLAVE_NOT_AVAILABLE", 1)
    for version in ((5, 0, 0), NEWEST):
        assert put_message(REPLICATED, 1, 0, None, broker_version=version) == Put("FLUSH_SLAVE_TIMEOUT", 3_001)


def test_from_5_0_a_synchronous_master_waits_for_nobody_by_default() -> None:
    config = StoreConfig(broker_role="SYNC_MASTER")
    for version in ((5, 0, 0), NEWEST):
        assert put_message(config, 1, 0, 40, broker_version=version) == Put("SEND_OK", 1)
    assert put_message(config, 1, 0, 40, broker_version=OLD) == Put("SEND_OK", 41)


def test_flush_and_replication_run_side_by_side_from_4_7() -> None:
    assert put_message(BOTH, 1, 20, 30, broker_version=(4, 6, 1)).latency_ms == 51
    assert put_message(BOTH, 1, 20, 30, broker_version=(4, 7, 0)).latency_ms == 31


def test_of_two_troubles_replications_is_reported() -> None:
    assert put_message(BOTH, 1, 6_000, 6_000).send_status == "FLUSH_SLAVE_TIMEOUT"
    assert put_message(BOTH, 1, 6_000, 2).send_status == "FLUSH_DISK_TIMEOUT"
    assert put_message(BOTH, 1, 6_000, None, broker_version=OLD).send_status == "SLAVE_NOT_AVAILABLE"


@given(configs, st.integers(0, 50), st.integers(0, 10_000), st.none() | st.integers(0, 10_000), releases)
def test_a_message_that_does_not_wait_is_answered_after_the_append(
    config: StoreConfig, append_ms: int, flush_ms: int, replica_ms: int | None, version: ClientVersion
) -> None:
    put = put_message(config, append_ms, flush_ms, replica_ms, wait_store_msg_ok=False, broker_version=version)
    assert put == Put("SEND_OK", append_ms)
    waited = put_message(config, append_ms, flush_ms, replica_ms, broker_version=version)
    assert append_ms <= waited.latency_ms <= append_ms + 10_000
