"""Where a group's progress is kept, and how much of it is consumed again after a move or a crash.

Clustering: the client counts in memory (RemoteBrokerOffsetStore), reports to the broker every 5 s and with each pull
from a master, the broker (ConsumerOffsetManager) writes it down every 5 s, and a slave copies the master's.
Broadcasting: each client keeps a separate file (LocalFileOffsetStore). An offset is the next message to consume.
"""

from collections.abc import Callable, Collection

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import OffsetError
from udfs.rocketmq.version import NEWEST, ClientVersion

PERSIST_CONSUMER_OFFSET_MS = 5_000
"""ClientConfig.persistConsumerOffsetInterval; the first time 10 s after the start."""

FLUSH_CONSUMER_OFFSET_MS = 5_000
"""BrokerConfig.flushConsumerOffsetInterval; the first time 10 s after the start."""

RETRY_GROUP_TOPIC_PREFIX = "%RETRY%"

NO_OFFSET, CANNOT_READ = -1, -2
"""OffsetStore.readOffset: nothing was ever committed; the broker could not be asked."""


class OffsetStore:
    """RocketMQ's OffsetStore: the offsets of one client for one group, in memory."""

    def __init__(self) -> None:
        self.offset_table: dict[MessageQueue, int] = {}

    def update_offset(self, mq: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """A batch was consumed. A concurrent consumer only goes forward; an orderly one may be set back."""
        known = self.offset_table.get(mq)
        if known is None or offset > known or not increase_only:
            self.offset_table[mq] = offset

    def remove_offset(self, mq: MessageQueue) -> None:
        """Forget a queue that is lost, or is taken anew."""
        self.offset_table.pop(mq, None)


class RemoteBrokerOffsetStore(OffsetStore):
    """A clustering client's offsets. Every one of them is lost with the process.

    `fetch` asks the broker, `commit` sends to it. `fetch` gives None for "not found", and OffsetError if it fails. Up
    to 4.9.8 an error that a broker answers is taken for "not found", so that the queue may start anew.
    """

    def __init__(
        self, fetch: Callable[[MessageQueue], int | None], commit: Callable[[MessageQueue, int], object]
    ) -> None:
        super().__init__()
        self._fetch, self._commit = fetch, commit

    def read_from_store(self, mq: MessageQueue) -> int:
        """Ask the broker, and remember the answer."""
        try:
            offset = self._fetch(mq)
        except OffsetError:
            return CANNOT_READ
        if offset is None:
            return NO_OFFSET
        self.update_offset(mq, offset)
        return offset

    def persist_all(self, mqs: Collection[MessageQueue]) -> None:
        """Report to the broker, every 5 s; `mqs` are those held, and the others are forgotten unreported. None held:
        nothing.
        """
        for mq in list(self.offset_table) if mqs else ():
            if mq in mqs:
                self.persist(mq)
            else:
                self.remove_offset(mq)

    def persist(self, mq: MessageQueue) -> None:
        """Report one queue to the broker: when it is lost, before another client reads it."""
        offset = self.offset_table.get(mq)
        if offset is not None:
            self._commit(mq, offset)


class LocalFileOffsetStore(OffsetStore):
    """A broadcasting client's offsets, in memory and in the file of its ClientId and group (`file`).

    A ClientId with a pid in it has a new file after each restart, and so no past; that is why broadcasting keeps
    `ip@DEFAULT`. Two clients with one ClientId on one machine overwrite each other's file.
    """

    def __init__(self, client_version: ClientVersion = NEWEST) -> None:
        """Up to 4.9.7, and from 5.0 up to 5.1.4, a write keeps only the queues held now; lost ones are not reported."""
        super().__init__()
        self.file: dict[MessageQueue, int] = {}
        self._keeps_others = client_version >= (5, 2, 0) or (4, 9, 8) <= client_version < (5, 0, 0)

    def load(self) -> None:
        """At the start: read the file."""
        self.offset_table.update(self.file)

    def read_from_store(self, mq: MessageQueue) -> int:
        """What the file says, which memory then says too; NO_OFFSET if nothing."""
        offset = self.file.get(mq)
        if offset is None:
            return NO_OFFSET
        self.update_offset(mq, offset)
        return offset

    def persist_all(self, mqs: Collection[MessageQueue]) -> None:
        """Write the file, every 5 s; `mqs` are those held. None held: nothing."""
        if not mqs:
            return
        if not self._keeps_others:
            self.file.clear()
        self.file.update((mq, offset) for mq, offset in self.offset_table.items() if mq in mqs)

    def persist(self, mq: MessageQueue) -> None:
        """Write one queue's offset when it is lost; older releases do not."""
        if self._keeps_others and mq in self.offset_table:
            self.file[mq] = self.offset_table[mq]

    def remove_offset(self, mq: MessageQueue) -> None:
        """Forget a lost queue in memory; older releases remember it."""
        if self._keeps_others:
            super().remove_offset(mq)


class ConsumerOffsetManager:
    """A broker's offsets: group → queue → offset in memory, and what of it was written down last (`file`)."""

    __slots__ = ("file", "offset_table")

    def __init__(self) -> None:
        self.offset_table: dict[str, dict[MessageQueue, int]] = {}
        self.file: dict[str, dict[MessageQueue, int]] = {}

    def commit_offset(self, consumer_group: str, mq: MessageQueue, offset: int) -> bool:
        """UPDATE_CONSUMER_OFFSET (15), or a pull's commitOffset: whether it went back. The last to speak wins."""
        offsets = self.offset_table.setdefault(consumer_group, {})
        known = offsets.get(mq)
        offsets[mq] = offset
        return known is not None and offset < known

    def query_offset(self, consumer_group: str, mq: MessageQueue) -> int:
        """What was committed; NO_OFFSET if nothing."""
        return self.offset_table.get(consumer_group, {}).get(mq, NO_OFFSET)

    def persist(self) -> None:
        """Write everything down: every 5 s, and at a clean shutdown."""
        self.file = {group: dict(offsets) for group, offsets in self.offset_table.items()}

    def load(self) -> None:
        """Start from what was written: after a crash up to 5 s of commits are gone until clients report them again."""
        self.offset_table = {group: dict(offsets) for group, offsets in self.file.items()}

    def sync_from(self, master: "ConsumerOffsetManager") -> None:
        """SlaveSynchronize.syncConsumerOffset: take the master's offsets, its groups replacing ours, and persist.

        Nothing flows back: a master that returns does not learn what was committed to its slave meanwhile.
        """
        self.offset_table.update({group: dict(offsets) for group, offsets in master.offset_table.items()})
        self.persist()


def slave_sync_ms(broker_version: ClientVersion = NEWEST) -> int:
    """BrokerController: how often a slave copies its master's offsets, and so what a failover may set back.

    10 s up to 4.9.8. From 5.0 a look every 3 s does it once 60 s have passed: every 63 s.
    """
    return 10_000 if broker_version < (5, 0, 0) else 63_000


def compute_pull_from_where(
    consume_from_where: str, topic: str, stored_offset: int, max_offset: int, timestamp_offset: int = 0
) -> int:
    """RebalancePushImpl.computePullFromWhere: the offset a client starts a new queue at.

    `stored_offset` as OffsetStore.readOffset gives it; `timestamp_offset` is what the broker finds for
    consumeTimestamp. Only a group without an offset uses `consume_from_where`: at %RETRY% queues it starts at
    their beginning, but with CONSUME_FROM_TIMESTAMP at their end. Raises OffsetError where the store could not be
    read, and the queue is not taken this round.
    """
    if stored_offset >= 0:
        return stored_offset
    if stored_offset != NO_OFFSET:
        raise OffsetError(f"offset of {topic} could not be read: {stored_offset}")
    if consume_from_where == "CONSUME_FROM_FIRST_OFFSET":
        return 0
    is_retry = topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    if consume_from_where == "CONSUME_FROM_TIMESTAMP":
        return max_offset if is_retry else timestamp_offset
    return 0 if is_retry else max_offset
