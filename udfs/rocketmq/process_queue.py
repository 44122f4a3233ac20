"""The queues a client holds: ProcessQueue, and RebalanceImpl.updateProcessQueueTableInRebalance.

A queue is dropped by a flag first: its pull request dies at the next turn and its results are thrown away. Only
then does it leave the table, and an orderly consumer must first get the listener's consume lock. The clock is the
caller's; one row a range of client releases, in RULES.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, field, replace

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import NEWEST, ClientVersion

PULL_MAX_IDLE_MS = 120_000
"""ProcessQueue.PULL_MAX_IDLE_TIME. A push consumer with a longer pullInterval drops its queues repeatedly (#653)."""

REBALANCE_LOCK_MAX_LIVE_MS = 30_000
"""ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME: how long a client trusts a lock it was given."""

UNLOCK_DELAY_MS = 20_000
"""RebalancePushImpl.UNLOCK_DELAY_TIME_MILLS."""


@dataclass(frozen=True, slots=True)
class RebalanceRules:
    """How the releases from `since` on, up to the next row, move queues.

    new_queue_is_locked        a queue just taken counts as locked; before, lockAll must come round first (≤ 20 s)
    locks_dropped_queues       lockAll renews the locks of dropped queues too, while their listener is busy
    lock_retry_ms              after a queue could not be locked, the next rebalance comes this soon; None: as ever
    first_pull_delay_ms        from taking a queue to the first pull
    consume_lock_wait_ms       how long an orderly consumer waits for its listener before it keeps a lost queue
    forces_unlock              a dropped queue goes after UNLOCK_DELAY_MS without a lock, listener busy or not;
                               before, a queue with unconsumed messages left at once and its lock UNLOCK_DELAY_MS later
    retry_ms                   the next rebalance after an unbalanced one; None: the usual wait
    locks_broadcasting         an orderly consumer wants a broker's lock although every client takes every queue
    skips_empty                a clustering client takes an empty route or list for one that it has not got
    """

    since: ClientVersion
    new_queue_is_locked: bool
    locks_dropped_queues: bool
    lock_retry_ms: int | None
    first_pull_delay_ms: int
    consume_lock_wait_ms: int
    forces_unlock: bool
    retry_ms: int | None
    locks_broadcasting: bool
    skips_empty: bool


_4_0_0 = RebalanceRules(
    since=(0, 0, 0),
    new_queue_is_locked=False,
    locks_dropped_queues=True,
    lock_retry_ms=None,
    first_pull_delay_ms=0,
    consume_lock_wait_ms=1_000,
    forces_unlock=False,
    retry_ms=None,
    locks_broadcasting=True,
    skips_empty=False,
)
_4_9_5 = replace(_4_0_0, since=(4, 9, 5), new_queue_is_locked=True)
_5_0_0 = replace(_4_9_5, since=(5, 0, 0), locks_dropped_queues=False, lock_retry_ms=500, first_pull_delay_ms=500)
_5_2_0 = replace(_5_0_0, since=(5, 2, 0), consume_lock_wait_ms=500, forces_unlock=True, retry_ms=1_000)
_5_3_2 = replace(_5_2_0, since=(5, 3, 2), locks_broadcasting=False)
_5_5_0 = replace(_5_3_2, since=(5, 5, 0), skips_empty=True)

RULES = (_4_0_0, _4_9_5, _5_0_0, _5_2_0, _5_3_2, _5_5_0)
"""Oldest first, read in RebalanceImpl, RebalancePushImpl and RebalanceService."""

_SINCE = [rules.since for rules in RULES]


def rebalance_rules(client_version: ClientVersion) -> RebalanceRules:
    return RULES[bisect_right(_SINCE, client_version) - 1]


@dataclass(slots=True, eq=False)
class ProcessQueue:
    """One queue of a client. Times are epoch ms.

    last_pull_ms        set when a pull request is made, not when it is answered
    last_lock_ms        when the broker last granted the lock; when it was taken, before the first time
    consuming_until_ms  until then the listener holds the consume lock of an orderly consumer; 0 for idle
    has_messages        messages are pulled and not yet consumed (msgTreeMap)
    next_offset         where its pull request continues
    """

    last_pull_ms: int
    last_lock_ms: int
    next_offset: int = 0
    dropped: bool = False
    locked: bool = False
    consuming_until_ms: int = 0
    has_messages: bool = False

    def is_pull_expired(self, now_ms: int) -> bool:
        """ProcessQueue.isPullExpired: nothing was asked for too long."""
        return now_ms - self.last_pull_ms > PULL_MAX_IDLE_MS

    def is_lock_expired(self, now_ms: int) -> bool:
        """ProcessQueue.isLockExpired: an orderly listener gets no messages until the lock is renewed."""
        return now_ms - self.last_lock_ms > REBALANCE_LOCK_MAX_LIVE_MS


ProcessQueueTable = MutableMapping[MessageQueue, ProcessQueue]


@dataclass(frozen=True, slots=True)
class Removed:
    """A queue that left the table. Its offset is committed; `unlock_after_ms` None: there is no lock to give back."""

    mq: MessageQueue
    process_queue: ProcessQueue
    is_pull_expired: bool
    unlock_after_ms: int | None


@dataclass(slots=True)
class Update:
    """What one round did to the queues of one topic. A pull-expired queue is removed and added at once.

    kept: dropped, yet still in the table because the listener is busy; the next round tries again.
    could_not_lock, no_offset: mine, and not taken this round.
    """

    removed: list[Removed] = field(default_factory=list)
    kept: list[MessageQueue] = field(default_factory=list)
    added: list[MessageQueue] = field(default_factory=list)
    could_not_lock: list[MessageQueue] = field(default_factory=list)
    no_offset: list[MessageQueue] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """A push consumer then gives its subscription a new sub_version and sends a heartbeat to every broker."""
        return bool(self.removed or self.added)


def update_process_queue_table(
    table: ProcessQueueTable,
    topic: str,
    mq_set: Collection[MessageQueue],
    now_ms: int,
    *,
    compute_pull_from_where: Callable[[MessageQueue], int],
    is_order: bool = False,
    needs_lock: bool | None = None,
    try_lock: Callable[[MessageQueue], bool] | None = None,
    client_version: ClientVersion = NEWEST,
) -> Update:
    """Make `table` hold the queues `mq_set` of `topic`; other topics' queues are left alone.

    `compute_pull_from_where` gives the first offset to pull; below 0, or an OffsetError, the queue is not taken.
    `is_order`: an orderly consumer of a clustering group, whose lost queues wait for the listener. `needs_lock`
    (as `is_order` if not said; see `needs_lock`): a new queue is taken only if `try_lock` says that the broker
    granted it.

    Mirrors 4.0 to 5.5. A queue whose removal is refused stays dropped, and because it is in the table it is not
    taken anew either: until its listener returns no client pulls it, though it is assigned and locked.
    """
    rules = rebalance_rules(client_version)
    update = Update()
    mine = mq_set if isinstance(mq_set, set | frozenset) else frozenset(mq_set)
    lost: list[tuple[MessageQueue, ProcessQueue, bool]] = []
    for mq, process_queue in table.items():
        if mq.topic != topic:
            continue
        if mq not in mine:
            lost.append((mq, process_queue, False))
        elif process_queue.is_pull_expired(now_ms):
            lost.append((mq, process_queue, True))
    for mq, process_queue, is_pull_expired in lost:
        process_queue.dropped = True
        is_returned = process_queue.consuming_until_ms <= now_ms + rules.consume_lock_wait_ms
        is_forced = rules.forces_unlock and now_ms > process_queue.last_lock_ms + UNLOCK_DELAY_MS
        if is_order and not (is_returned or is_forced):  # RebalancePushImpl.removeUnnecessaryMessageQueue
            update.kept.append(mq)
            continue
        unlock_after_ms = None
        if is_order:
            unlock_after_ms = UNLOCK_DELAY_MS if process_queue.has_messages and not rules.forces_unlock else 0
            process_queue.locked = process_queue.locked and not rules.forces_unlock
        del table[mq]
        update.removed.append(Removed(mq, process_queue, is_pull_expired, unlock_after_ms))
    is_lock_needed = is_order if needs_lock is None else needs_lock
    for mq in mq_set:
        if mq in table:
            continue
        if is_lock_needed and not (try_lock and try_lock(mq)):
            update.could_not_lock.append(mq)
            continue
        try:
            next_offset = compute_pull_from_where(mq)
        except OffsetError:
            next_offset = -1
        if next_offset < 0:
            update.no_offset.append(mq)
            continue
        table[mq] = ProcessQueue(now_ms, now_ms, next_offset, locked=rules.new_queue_is_locked)
        update.added.append(mq)
    return update


class OffsetError(Exception):
    """MQClientException of computePullFromWhereWithException: the first offset could not be learnt."""


def needs_lock(message_model: str, is_order: bool, client_version: ClientVersion = NEWEST) -> bool:
    """Whether a new queue needs the broker's lock: an orderly consumer's.

    Up to 5.3.1 also in a broadcasting group, where one client's lock shuts out every other.
    """
    return is_order and (message_model == "CLUSTERING" or rebalance_rules(client_version).locks_broadcasting)
