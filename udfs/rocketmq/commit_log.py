"""What a send is answered, and after how long: CommitLog's append, flush and replication.

The message is in the page cache after the append; what follows only decides how long the producer waits and which
of four good answers it gets. Times are milliseconds.
"""

from dataclasses import dataclass

from udfs.rocketmq.version import NEWEST, ClientVersion

SEND_OK, FLUSH_DISK_TIMEOUT = "SEND_OK", "FLUSH_DISK_TIMEOUT"
FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE = "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"

SYNC_FLUSH_TIMEOUT_MS = 5_000
"""MessageStoreConfig.syncFlushTimeout; replication's too up to 4.9.2."""

SLAVE_TIMEOUT_MS = 3_000
"""MessageStoreConfig.slaveTimeout, from 4.9.3."""

HA_SLAVE_FALLBEHIND_MAX = 256 << 20
"""MessageStoreConfig.haSlaveFallbehindMax, bytes: a slave further behind does not count (4.x)."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """MessageStoreConfig. `in_sync_replicas` (5.0) counts the master: 1, the default, waits for no slave."""

    flush_disk_type: str = "ASYNC_FLUSH"
    broker_role: str = "ASYNC_MASTER"
    in_sync_replicas: int = 1


@dataclass(frozen=True, slots=True)
class Put:
    """A stored message's answer. All four statuses mean that the master has it; none isolates the broker."""

    send_status: str
    latency_ms: int


def put_message(
    config: StoreConfig,
    append_ms: int,
    flush_ms: int,
    replica_ms: int | None,
    *,
    wait_store_msg_ok: bool = True,
    broker_version: ClientVersion = NEWEST,
) -> Put:
    """CommitLog.asyncPutMessage and handleDiskFlushAndHA.

    `flush_ms`: how long forcing it to disk takes. `replica_ms`: how long until enough slaves have it, None if no
    slave is there, or none close enough. Flush and replication run side by side from 4.7.0, one after the other
    before; of two troubles replication's is reported. `wait_store_msg_ok` false (the message's WAIT property) waits for
    neither.

    A SYNC_MASTER without a slave answers SLAVE_NOT_AVAILABLE at once up to 4.9.8. From 5.0 it waits for nobody
    unless in_sync_replicas is above 1, and then waits the whole time in vain: FLUSH_SLAVE_TIMEOUT.
    """
    status, flush_wait_ms, replica_wait_ms = SEND_OK, 0, 0
    if wait_store_msg_ok and config.flush_disk_type == "SYNC_FLUSH":
        flush_wait_ms = min(flush_ms, SYNC_FLUSH_TIMEOUT_MS)
        status = SEND_OK if flush_ms <= SYNC_FLUSH_TIMEOUT_MS else FLUSH_DISK_TIMEOUT
    if wait_store_msg_ok and config.broker_role == "SYNC_MASTER":
        if broker_version < (5, 0, 0) and replica_ms is None:
            status = SLAVE_NOT_AVAILABLE
        elif broker_version < (5, 0, 0) or config.in_sync_replicas > 1:
            timeout_ms = SLAVE_TIMEOUT_MS if broker_version >= (4, 9, 3) else SYNC_FLUSH_TIMEOUT_MS
            is_late = replica_ms is None or replica_ms > timeout_ms
            replica_wait_ms = timeout_ms if replica_ms is None else min(replica_ms, timeout_ms)
            status = FLUSH_SLAVE_TIMEOUT if is_late else status
    is_parallel = broker_version >= (4, 7, 0)
    wait_ms = max(flush_wait_ms, replica_wait_ms) if is_parallel else flush_wait_ms + replica_wait_ms
    return Put(status, append_ms + wait_ms)
