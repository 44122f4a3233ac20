"""The answer to a send: four statuses, and how long flush and replication make the producer wait."""

import pytest

from streaming.simulator.broker import Put, put_message
from streaming.simulator.scenario import Broker

OLD = "4.9.8"


def stored(
    flush_ms: int, replica_ms: int | None, version: str = "5.5.0", *, flushes: bool = False, replicates: bool = False
) -> Put:
    """A message that the master appended after 1 ms."""
    broker = Broker(
        broker_name="broker-a",
        broker_version=version,
        flush_disk_type="SYNC_FLUSH" if flushes else "ASYNC_FLUSH",
        broker_role="SYNC_MASTER" if replicates else "ASYNC_MASTER",
    )
    return put_message(broker, 1, flush_ms, replica_ms)


def test_an_asynchronous_broker_answers_after_the_append() -> None:
    assert stored(4_000, None) == Put("SEND_OK", 1)


@pytest.mark.parametrize(
    ("flush_ms", "put"),
    [(7, Put("SEND_OK", 8)), (5_000, Put("SEND_OK", 5_001)), (5_001, Put("FLUSH_DISK_TIMEOUT", 5_001))],
)
def test_a_synchronous_flush_is_waited_for_5_seconds(flush_ms: int, put: Put) -> None:
    assert stored(flush_ms, None, flushes=True) == put


@pytest.mark.parametrize(
    ("version", "replica_ms", "put"),
    [
        (OLD, None, Put("SLAVE_NOT_AVAILABLE", 1)),
        (OLD, 40, Put("SEND_OK", 41)),
        (OLD, 3_000, Put("SEND_OK", 3_001)),
        (OLD, 3_001, Put("FLUSH_SLAVE_TIMEOUT", 3_001)),
        ("4.9.3", 3_001, Put("FLUSH_SLAVE_TIMEOUT", 3_001)),
        ("4.9.2", 3_001, Put("SEND_OK", 3_002)),
        ("4.9.2", 5_001, Put("FLUSH_SLAVE_TIMEOUT", 5_001)),
        ("5.0.0", None, Put("SEND_OK", 1)),
        ("5.5.0", 40, Put("SEND_OK", 1)),
    ],
)
def test_replication_is_waited_for_3_seconds_5_up_to_4_9_2_and_not_from_5_0(
    version: str, replica_ms: int | None, put: Put
) -> None:
    assert stored(0, replica_ms, version, replicates=True) == put


def test_flush_and_replication_run_side_by_side_from_4_7() -> None:
    waits = [stored(20, 30, version, flushes=True, replicates=True).latency_ms for version in ("4.6.1", "4.7.0")]
    assert waits == [51, 31]


@pytest.mark.parametrize(
    ("replica_ms", "status"), [(6_000, "FLUSH_SLAVE_TIMEOUT"), (2, "FLUSH_DISK_TIMEOUT"), (None, "SLAVE_NOT_AVAILABLE")]
)
def test_of_two_failures_replications_is_reported(replica_ms: int | None, status: str) -> None:
    assert stored(6_000, replica_ms, OLD, flushes=True, replicates=True).send_status == status
