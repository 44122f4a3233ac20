"""A consumer of one group: it rebalances for itself (RebalanceImpl) and pulls what it holds."""

from collections.abc import Iterable

from streaming.simulator import parts
from streaming.simulator.client import Client
from streaming.simulator.offsets import Offsets
from streaming.simulator.order_locks import OrderLocks
from streaming.simulator.popper import Popper
from streaming.simulator.puller import Puller
from streaming.simulator.strategy_options import strategy_options
from streaming.simulator.subscription_table import SubscriptionTable
from streaming.simulator.world import Alarm, Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue, rebalance_rules, update_process_queue_table
from udfs.rocketmq.rebalance import (
    do_rebalance,
    is_balanced,
    rebalance_by_topic,
    rebalance_postponed_ms,
    rebalance_wait_ms,
)
from udfs.rocketmq.slave_read import may_pull

FOR_EVER_MS = 1 << 60


class Consumer:
    """One member of a consumer group. `table` is what it holds; `stopped` what it pulls no more, None for all."""

    def __init__(self, client: Client, group: parts.Group, of: parts.Consumer) -> None:
        self.client = client
        self.group = group
        self.of = of
        self.consumer_group = group.consumer_group
        self.strategy = of.strategy or group.strategy
        self.is_broadcasting = group.message_model == "BROADCASTING"
        self.is_orderly = group.consume_orderly and not self.is_broadcasting
        self.is_hung = False
        self.is_suspended = False
        self.consume_ms = 0
        self.stopped: set[str] | None = set()
        self.may_hold_back = self.is_orderly
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self.could_not_lock: dict[str, list[MessageQueue]] = {}
        self.subscriptions = SubscriptionTable(group, of, client.world.now_ms)
        is_local = self.is_broadcasting or group.pull_consumers
        self.offsets = Offsets(client, group.consumer_group, is_local=is_local)
        self._locks = OrderLocks(client, group.consumer_group)
        self._pullers: dict[MessageQueue, Puller] = {}
        self._options = strategy_options(group, of)
        self._rules = rebalance_rules(client.client_version)
        self._is_notified = True
        self._alarm = Alarm(client.world.env)
        self._last_rebalance_ms = 0
        client.consumers.append(self)
        client.topics.update(self.topics, of.assigned_queues)

    @property
    def topics(self) -> Iterable[str]:
        """What it subscribes."""
        return self.subscriptions.sub_versions.keys()

    def start(self) -> None:
        """Begin to rebalance, to pop, or to pull what is assigned."""
        env = self.client.world.env
        if self.of.assigned_queues:
            self._assign()
        elif self.group.client_rebalance:
            env.process(self._rebalances())
        else:
            env.process(Popper(self).run())
        if self.is_orderly:
            env.process(self._locks.renewing(self.table))
        env.process(self.offsets.persisting(self.table))

    def notify(self) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED, or rebalanceImmediately."""
        self._is_notified = True
        self._alarm.ring()

    def wake(self, broker_names: Iterable[str]) -> None:
        """What these brokers held for it is answered by nobody."""
        for mq, puller in self._pullers.items():
            if mq.broker_name in broker_names:
                puller.alarm.ring()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe these topics instead."""
        now_ms, known = self.client.world.now_ms, self.subscriptions.sub_versions
        self.subscriptions.sub_versions = {topic: known.get(topic, now_ms) for topic in topics}
        self.subscriptions.renew()
        for topic in self.topics:
            self.client.update_route(topic)
        self.client.beat_soon()

    def stop_pulling(self, queues: Iterable[str] | None) -> None:
        """Pull these no more; None for all."""
        self.stopped = None if queues is None else (self.stopped or set()) | set(queues)
        self.may_hold_back = True

    def resume_pulling(self) -> None:
        """Pull everything again."""
        self.stopped = set()

    def hang_listener(self, is_hung: bool) -> None:
        """The listener does not return; or it does, and goes on with what was cached."""
        self.is_hung = is_hung
        self.may_hold_back = True
        for process_queue in self.table.values():
            process_queue.consuming_until_ms = FOR_EVER_MS if is_hung else 0

    def suspend(self, is_suspended: bool) -> None:
        """DefaultMQPushConsumer.suspend and resume: pulls are made and not sent, and it does not rebalance."""
        self.is_suspended = is_suspended
        self.may_hold_back = True

    def slow_listener(self, consume_ms: int) -> None:
        """Each queue's messages take so long each, one after the other; 0: no time."""
        self.consume_ms = consume_ms
        self.may_hold_back = True

    @property
    def is_consuming(self) -> bool:
        """Whether messages of the queues it pulls get on."""
        return not self.is_hung

    def is_stopped(self, mq: MessageQueue) -> bool:
        """Whether it pulls the queue no more."""
        return self.stopped is None or f"{mq.broker_name}:{mq.queue_id}" in self.stopped

    def pulls(self, mq: MessageQueue) -> bool:
        """Whether it really consumes a queue it holds: nothing keeps it from pulling."""
        process_queue = self.table[mq]
        if process_queue.dropped or not self.client.is_live or self.is_stopped(mq) or self.is_suspended:
            return False
        if self.is_orderly and not process_queue.locked:
            return False
        node = self.client.find_node(mq.broker_name)
        if node is None or not (self.of.assigned_queues or node.has_subscription(self.consumer_group, mq.topic)):
            return False
        return may_pull(node.broker_id, node.broker.slave_read_config.slave_read_enable)

    def shut_down(self) -> None:
        """Commit everything and give the locks back."""
        self.offsets.persist(self.table)
        for mq, process_queue in self.table.items():
            process_queue.dropped = True
            if self.is_orderly:
                self._locks.unlock(mq)

    def _assign(self) -> None:
        """assign(): take what one is told to, and leave it at that."""
        now_ms = self.client.world.now_ms
        for topic, names in self.of.assigned_queues.items():
            for broker_name, _, queue_id in (name.rpartition(":") for name in names):
                mq = MessageQueue(topic, broker_name, int(queue_id))
                next_offset = self.offsets.compute_pull_from_where(mq)
                self.table[mq] = ProcessQueue(now_ms, now_ms, next_offset, locked=True)
                self._start_puller(mq, 0)

    def _rebalances(self) -> Process:
        """RebalanceService: every 20 s, and at once when a broker says that the members changed."""
        client, version, wait_ms = self.client, self.client.client_version, 0
        while True:
            if not self._is_notified:
                yield self._alarm.set(wait_ms)
            yield from client.sleep(client.world.network_ms())
            postponed_ms = rebalance_postponed_ms(self._last_rebalance_ms, client.world.now_ms, version)
            if postponed_ms:
                yield from client.sleep(postponed_ms)
            self._is_notified = False
            if not client.is_running:
                return
            balanced = not self.is_suspended and self._rebalance()
            self._last_rebalance_ms = client.world.now_ms
            wait_ms = rebalance_wait_ms(balanced, version)

    def _rebalance(self) -> bool:
        """One round: whether every topic is balanced. A change is told to every broker by a heartbeat."""
        held, versions = set(self.table), dict(self.subscriptions.sub_versions)
        balanced = do_rebalance(list(self.topics), self._rebalance_topic, self.table, self.client.client_version)
        if self.subscriptions.sub_versions != versions:
            self.subscriptions.renew()
            self.client.beat_soon()
        if held != self.table.keys():
            self.client.cluster.on_change(self.consumer_group)
        return balanced

    def _rebalance_topic(self, topic: str) -> bool:
        """RebalanceImpl.rebalanceByTopic, with one random broker's list of the group."""
        client, model = self.client, self.group.message_model
        route = client.routes.get(topic)
        mq_set = route.mq_all if route else None
        cid_all = None if self.is_broadcasting else client.find_consumer_ids(topic, self.consumer_group)
        share = rebalance_by_topic(
            model,
            self.strategy,
            self.consumer_group,
            client.client_id,
            topic,
            mq_set,
            cid_all,
            client_version=client.client_version,
            **self._options,
        )
        if share is not None:
            self._update(topic, share)
        return is_balanced(self.table, topic, model, mq_set, cid_all, share)

    def _update(self, topic: str, share: list[MessageQueue]) -> None:
        world = self.client.world
        update = update_process_queue_table(
            self.table,
            topic,
            share,
            world.now_ms,
            compute_pull_from_where=self.offsets.compute_pull_from_where,
            is_order=self.is_orderly,
            try_lock=self._locks.try_lock,
            client_version=self.client.client_version,
        )
        for removed in update.removed:
            self.offsets.remove(removed.mq)
            if removed.unlock_after_ms is not None:
                world.later(removed.unlock_after_ms, _Unlock(self._locks, removed.mq))
        for mq in update.added:
            self._start_puller(mq, self._rules.first_pull_delay_ms)
        if update.could_not_lock != self.could_not_lock.get(topic, []):
            self.could_not_lock[topic] = update.could_not_lock
            self.client.cluster.on_change(self.consumer_group)
        if update.could_not_lock and self._rules.lock_retry_ms is not None:
            world.later(self._rules.lock_retry_ms, self.notify)
        if update.changed:
            self.subscriptions.sub_versions[topic] = world.now_ms

    def _start_puller(self, mq: MessageQueue, delay_ms: int) -> None:
        process_queue = self.table[mq]
        if self.is_hung:
            process_queue.consuming_until_ms = FOR_EVER_MS
        puller = self._pullers[mq] = Puller(self, mq, process_queue)
        self.client.world.env.process(puller.run(delay_ms))


class _Unlock:
    """A lock to be given back a little later."""

    __slots__ = ("_locks", "_mq")

    def __init__(self, locks: OrderLocks, mq: MessageQueue) -> None:
        self._locks, self._mq = locks, mq

    def __call__(self) -> None:
        self._locks.unlock(self._mq)
