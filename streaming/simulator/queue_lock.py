"""Locks of ordered consumption: the broker's RebalanceLockManager, and the client's lockAll.

A lock belongs to a group's ClientId, not to a channel: two processes with one ClientId both hold it, and an order
that looks locked is broken. Only masters are asked; a slave read never renews a lock. Mirrors 4.0 to 5.5.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue, rebalance_rules
from udfs.rocketmq.version import NEWEST, ClientVersion

REBALANCE_LOCK_MAX_LIVE_MS = 60_000
"""RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME: time after which an unrenewed lock expires."""

LOCK_ALL_MS = 20_000
"""ProcessQueue.REBALANCE_LOCK_INTERVAL: period in which an orderly consumer renews its locks."""

LOCK_ALL_FIRST_MS = 1_000
"""ConsumeMessageOrderlyService.start: time from the start to the first renewal."""


@dataclass(slots=True, eq=False)
class LockEntry:
    """The holder of a queue, and the time of its last request (epoch ms)."""

    client_id: str
    last_update_ms: int


class RebalanceLockManager:
    """One broker's locks: group → queue → entry."""

    __slots__ = ("mq_lock_table",)

    def __init__(self) -> None:
        self.mq_lock_table: dict[str, dict[MessageQueue, LockEntry]] = {}

    def try_lock(self, consumer_group: str, mq: MessageQueue, client_id: str, now_ms: int) -> bool:
        """Return whether `client_id` holds the queue now. A request renews a held lock and takes an expired one."""
        entries = self.mq_lock_table.setdefault(consumer_group, {})
        entry = entries.setdefault(mq, LockEntry(client_id, now_ms))
        if entry.client_id != client_id and now_ms - entry.last_update_ms <= REBALANCE_LOCK_MAX_LIVE_MS:
            return False
        entry.client_id, entry.last_update_ms = client_id, now_ms
        return True

    def try_lock_batch(
        self, consumer_group: str, mqs: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> set[MessageQueue]:
        """LOCK_BATCH_MQ (41): return those of `mqs` that `client_id` holds now."""
        return {mq for mq in mqs if self.try_lock(consumer_group, mq, client_id, now_ms)}

    def unlock_batch(self, consumer_group: str, mqs: Iterable[MessageQueue], client_id: str) -> None:
        """UNLOCK_BATCH_MQ (42): release. Locks of another ClientId stay, expired or not."""
        entries = self.mq_lock_table.get(consumer_group, {})
        for mq in mqs:
            entry = entries.get(mq)
            if entry is not None and entry.client_id == client_id:
                del entries[mq]


def lock_all(
    table: Mapping[MessageQueue, ProcessQueue],
    lock_batch: Callable[[str, set[MessageQueue]], set[MessageQueue] | None],
    now_ms: int,
    client_version: ClientVersion = NEWEST,
) -> None:
    """RebalanceImpl.lockAll: request all queues of each broker at once.

    `lock_batch(broker_name, mqs)` returns None if the broker has no master or does not answer: its queues keep their
    flag, and `is_lock_expired` stops them 30 s after the last lock. A refused queue is not consumed until a later round
    gets it. Up to 4.9.8 dropped queues are requested too.
    """
    asks_for_dropped = rebalance_rules(client_version).locks_dropped_queues
    by_broker: dict[str, set[MessageQueue]] = {}
    for mq, process_queue in table.items():
        if asks_for_dropped or not process_queue.dropped:
            by_broker.setdefault(mq.broker_name, set()).add(mq)
    for broker_name, mqs in by_broker.items():
        locked_mqs = lock_batch(broker_name, mqs)
        if locked_mqs is None:
            continue
        for mq in mqs:
            table[mq].locked = mq in locked_mqs
            if table[mq].locked:
                table[mq].last_lock_ms = now_ms


def may_pull_orderly(process_queue: ProcessQueue) -> bool:
    """DefaultMQPushConsumerImpl.pullMessage: an orderly consumer pulls only locked queues, else retries after 3 s."""
    return process_queue.locked and not process_queue.dropped
