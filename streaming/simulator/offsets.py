"""A consumer's offsets: in memory and at the brokers when it is clustering, else in a file of its own."""

from collections.abc import Collection

from streaming.simulator.client import Client
from streaming.simulator.world import Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import (
    NO_OFFSET,
    PERSIST_CONSUMER_OFFSET_MS,
    RemoteBrokerOffsetStore,
    compute_pull_from_where,
)
from udfs.rocketmq.process_queue import OffsetError


class Offsets:
    """The OffsetStore of one member of a group."""

    def __init__(self, client: Client, consumer_group: str, *, is_local: bool) -> None:
        self._client = client
        self._consumer_group = consumer_group
        self._is_local = is_local
        self._memory = RemoteBrokerOffsetStore()
        self._file = client.cluster.local_offsets(client.host, client.client_id, consumer_group, client.client_version)
        self._file.load()

    def consumed(self, mq: MessageQueue, offset: int) -> None:
        """Everything before `offset` is consumed."""
        if self._is_local:
            self._file.update_offset(mq, offset)
        else:
            self._memory.offset_table[mq] = offset

    def to_commit(self, mq: MessageQueue) -> int:
        """What the next pull commits on its way; a local store commits nothing."""
        return NO_OFFSET if self._is_local else self._memory.offset_table.get(mq, NO_OFFSET)

    def compute_pull_from_where(self, mq: MessageQueue) -> int:
        """Where to begin with a queue just taken. Raises OffsetError when the broker does not answer."""
        if self._is_local:
            stored_offset = self._file.read_from_store(mq)
        else:
            self._memory.remove_offset(mq)
            stored_offset = self._memory.read_from_store(mq, self._fetch)
        max_offset = self._client.cluster.store.queue(mq).max_offset
        return compute_pull_from_where("CONSUME_FROM_LAST_OFFSET", mq.topic, stored_offset, max_offset)

    def remove(self, mq: MessageQueue) -> None:
        """A queue is given up: commit it a last time, and forget it."""
        if self._is_local:
            self._file.persist(mq)
            self._file.remove_offset(mq)
        else:
            self._memory.persist(mq, self._commit)
            self._memory.remove_offset(mq)

    def persist(self, mqs: Collection[MessageQueue]) -> None:
        """Commit everything held."""
        if self._is_local:
            self._file.persist_all(mqs)
        else:
            self._memory.persist_all(mqs, self._commit)

    def persisting(self, mqs: Collection[MessageQueue]) -> Process:
        """MQClientInstance.persistAllConsumerOffset: every 5 s, the first time 10 s after the start."""
        delay_ms = 2 * PERSIST_CONSUMER_OFFSET_MS
        while True:
            yield from self._client.sleep(delay_ms)
            delay_ms = PERSIST_CONSUMER_OFFSET_MS
            if not self._client.is_running:
                return
            self.persist(mqs)

    def _commit(self, mq: MessageQueue, offset: int) -> None:
        """UPDATE_CONSUMER_OFFSET at the master, or without one at a slave; lost when it does not answer."""
        node = self._client.find_node(mq.broker_name)
        if node is not None:
            node.offsets.commit_offset(self._consumer_group, mq, offset)

    def _fetch(self, mq: MessageQueue) -> int | None:
        """QUERY_CONSUMER_OFFSET."""
        node = self._client.find_node(mq.broker_name)
        if node is None:
            raise OffsetError(mq.broker_name)
        offset = node.offsets.query_offset(self._consumer_group, mq)
        return None if offset == NO_OFFSET else offset
