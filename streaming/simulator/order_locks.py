"""The queue locks of an orderly consumer: asked of each broker's master, renewed every 20 s, given back."""

from collections.abc import Mapping

from streaming.simulator.client import Client
from streaming.simulator.node import Node
from streaming.simulator.world import Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue
from udfs.rocketmq.queue_lock import LOCK_ALL_FIRST_MS, LOCK_ALL_MS, lock_all


class OrderLocks:
    """One ClientId's locks in one group; of two processes with one ClientId both hold them."""

    def __init__(self, client: Client, consumer_group: str) -> None:
        self._client = client
        self._consumer_group = consumer_group

    def try_lock(self, mq: MessageQueue) -> bool:
        """Whether the queue is locked for us from now on."""
        return bool(self._lock_batch(mq.broker_name, {mq}))

    def unlock(self, mq: MessageQueue) -> None:
        """UNLOCK_BATCH_MQ."""
        master = self._master(mq.broker_name)
        if master is not None:
            master.locks.unlock_batch(self._consumer_group, [mq], self._client.client_id)

    def renewing(self, table: Mapping[MessageQueue, ProcessQueue]) -> Process:
        """ConsumeMessageOrderlyService.lockMQPeriodically."""
        client, delay_ms = self._client, LOCK_ALL_FIRST_MS
        while True:
            yield from client.sleep(delay_ms)
            delay_ms = LOCK_ALL_MS
            if not client.is_running:
                return
            before = {mq: process_queue.locked for mq, process_queue in table.items()}
            lock_all(table, self._lock_batch, client.world.now_ms, client.client_version)
            if before != {mq: process_queue.locked for mq, process_queue in table.items()}:
                client.cluster.on_change(self._consumer_group)

    def _lock_batch(self, broker_name: str, mqs: set[MessageQueue]) -> set[MessageQueue] | None:
        """LOCK_BATCH_MQ; None where no master answers."""
        master = self._master(broker_name)
        if master is None:
            return None
        now_ms = self._client.world.now_ms
        return master.locks.try_lock_batch(self._consumer_group, mqs, self._client.client_id, now_ms)

    def _master(self, broker_name: str) -> Node | None:
        master = self._client.master(broker_name)
        return master if master is not None and self._client.connections.reaches(master) else None
