"""The answer to a send: four statuses, and how long flush and replication make the producer wait."""

from typing import Literal

import pytest

from streaming.simulator.broker import put_message
from streaming.simulator.scenario import Broker

FLUSH, REPLICATE = "SYNC_FLUSH", "SYNC_MASTER"

# Why; the broker's release and what it waits for; how long flush and replication take (None: no slave); the answer.
ANSWERS: list[tuple[str, str, str, int, int | None, str, int]] = [
    ("asynchronous: after the append", "5.5.0", "", 4_000, None, "SEND_OK", 1),
    ("a flush is waited for", "5.5.0", FLUSH, 7, None, "SEND_OK", 8),
    ("for 5 s", "5.5.0", FLUSH, 5_000, None, "SEND_OK", 5_001),
    ("and no longer", "5.5.0", FLUSH, 5_001, None, "FLUSH_DISK_TIMEOUT", 5_001),
    ("no slave", "4.9.8", REPLICATE, 0, None, "SLAVE_NOT_AVAILABLE", 1),
    ("a slave is waited for", "4.9.8", REPLICATE, 0, 40, "SEND_OK", 41),
    ("for 3 s", "4.9.8", REPLICATE, 0, 3_000, "SEND_OK", 3_001),
    ("and no longer", "4.9.8", REPLICATE, 0, 3_001, "FLUSH_SLAVE_TIMEOUT", 3_001),
    ("since 4.9.3", "4.9.3", REPLICATE, 0, 3_001, "FLUSH_SLAVE_TIMEOUT", 3_001),
    ("before, for 5 s", "4.9.2", REPLICATE, 0, 3_001, "SEND_OK", 3_002),
    ("and no longer", "4.9.2", REPLICATE, 0, 5_001, "FLUSH_SLAVE_TIMEOUT", 5_001),
    ("from 5.0 no slave is needed", "5.0.0", REPLICATE, 0, None, "SEND_OK", 1),
    ("nor waited for", "5.5.0", REPLICATE, 0, 40, "SEND_OK", 1),
    ("one after the other up to 4.6", "4.6.1", FLUSH + REPLICATE, 20, 30, "SEND_OK", 51),
    ("side by side from 4.7", "4.7.0", FLUSH + REPLICATE, 20, 30, "SEND_OK", 31),
    ("of two failures, replication's", "4.9.8", FLUSH + REPLICATE, 6_000, 6_000, "FLUSH_SLAVE_TIMEOUT", 5_001),
    ("of the flush alone, the flush's", "4.9.8", FLUSH + REPLICATE, 6_000, 2, "FLUSH_DISK_TIMEOUT", 5_001),
    ("a missing slave before a failed flush", "4.9.8", FLUSH + REPLICATE, 6_000, None, "SLAVE_NOT_AVAILABLE", 5_001),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "version", "waits_for", "flush_ms", "replica_ms", "status", "latency_ms"), ANSWERS)
def test_a_message_that_the_master_appended_after_1_ms_is_answered(
    reason: str, version: str, waits_for: str, flush_ms: int, replica_ms: int | None, status: str, latency_ms: int
) -> None:
    flushes: Literal["SYNC_FLUSH", "ASYNC_FLUSH"] = "SYNC_FLUSH" if FLUSH in waits_for else "ASYNC_FLUSH"
    broker = Broker(
        broker_name="broker-a",
        broker_version=version,
        flush_disk_type=flushes,
        broker_role="SYNC_MASTER" if REPLICATE in waits_for else "ASYNC_MASTER",
    )
    assert put_message(broker, 1, flush_ms, replica_ms) == (status, latency_ms), reason
