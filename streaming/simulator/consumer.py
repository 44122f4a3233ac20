"""A member of a consumer group: its subscriptions, its rebalancing (RebalanceImpl) and its queue locks."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from streaming.simulator import parts
from streaming.simulator.broker import Beat, Node
from streaming.simulator.client import Client
from streaming.simulator.consumer_manager import SubscriptionData
from streaming.simulator.puller import Offsets, Puller, pops
from streaming.simulator.queue_lock import LOCK_ALL_FIRST_MS, LOCK_ALL_MS, lock_all
from streaming.simulator.slave_read import may_pull
from streaming.simulator.world import Alarm, Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import RETRY_GROUP_TOPIC_PREFIX
from udfs.rocketmq.process_queue import ProcessQueue, rebalance_rules, update_process_queue_table
from udfs.rocketmq.rebalance import (
    do_rebalance,
    is_balanced,
    rebalance_by_topic,
    rebalance_postponed_ms,
    rebalance_wait_ms,
)

FOR_EVER_MS = 1 << 60


class OrderLocks:
    """Queue locks of one ClientId in one group. Two processes with one ClientId both hold them."""

    def __init__(self, client: Client, consumer_group: str) -> None:
        self._client = client
        self._consumer_group = consumer_group

    def try_lock(self, mq: MessageQueue) -> bool:
        """Lock the queue; return whether this ClientId holds it."""
        return bool(self._lock_batch(mq.broker_name, {mq}))

    def unlock(self, mq: MessageQueue) -> None:
        """Release the lock (UNLOCK_BATCH_MQ)."""
        master = self._master(mq.broker_name)
        if master is not None:
            master.locks.unlock_batch(self._consumer_group, [mq], self._client.client_id)

    def renewing(self, table: Mapping[MessageQueue, ProcessQueue]) -> Process:
        """Renew all locks, as ConsumeMessageOrderlyService.lockMQPeriodically does."""
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
        """Send LOCK_BATCH_MQ; return None if no master answers."""
        master = self._master(broker_name)
        if master is None:
            return None
        now_ms = self._client.world.now_ms
        return master.locks.try_lock_batch(self._consumer_group, mqs, self._client.client_id, now_ms)

    def _master(self, broker_name: str) -> Node | None:
        master = self._client.master(broker_name)
        return master if master is not None and self._client.connections.reaches(master) else None


class SubscriptionTable:
    """The sub_version of each topic, and the ConsumerData of heartbeats."""

    def __init__(self, group: parts.Group, of: parts.Consumer, now_ms: int) -> None:
        self.sub_versions: dict[str, int] = dict.fromkeys(group.topics_of(of), now_ms)
        self._group = group
        self._of = of
        self._strategy = of.strategy or group.strategy
        self.beat: Beat
        self.consumer_data: dict[str, Any]
        self.consumer_data_without_sub: dict[str, Any]
        self.renew()

    def renew(self) -> None:
        """Rebuild ConsumerData after a change of `sub_versions`."""
        group, of = self._group, self._of
        versions = dict(self.sub_versions)
        if group.reports_retry_topic and versions:
            versions[f"{RETRY_GROUP_TOPIC_PREFIX}{group.consumer_group}"] = min(versions.values())
        datas = tuple(
            SubscriptionData(topic, "*" if topic.startswith(RETRY_GROUP_TOPIC_PREFIX) else of.sub_string, version)
            for topic, version in versions.items()
        )
        is_active = group.pull_consumers or bool(of.assigned_queues)
        consume_type = "CONSUME_ACTIVELY" if is_active else "CONSUME_PASSIVELY"
        if not group.client_rebalance:
            consume_type = "CONSUME_POP"
        self.beat = Beat(group.consumer_group, consume_type, group.message_model, datas)
        self.consumer_data = {
            "consumer_group": group.consumer_group,
            "consume_type": consume_type,
            "message_model": group.message_model,
            "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
            "subscriptions": [
                {
                    "topic": data.topic,
                    "sub_string": data.sub_string,
                    "sub_version": data.sub_version,
                    "expression_type": data.expression_type,
                }
                for data in datas
            ],
        }
        if not group.client_rebalance:
            self.consumer_data["client_rebalance"] = False
        elif of.reports_strategy and not of.assigned_queues:
            self.consumer_data["strategy"] = self._strategy
        if group.consume_orderly:
            self.consumer_data["consume_orderly"] = True
        self.consumer_data_without_sub = {**self.consumer_data, "subscriptions": []}


def strategy_options(group: parts.Group, of: parts.Consumer) -> dict[str, Any]:
    """Return the options of the member's strategy. Broker "room1@broker-a" is in room1."""
    family = (of.strategy or group.strategy).partition("-")[0]
    if family == "CONFIG":
        return {"config_queues": config_queues(group, of)}
    if family == "MACHINE_ROOM":
        return {"consumer_idcs": frozenset(group.consumer_idcs)}
    if family == "CONSISTENT_HASH":
        return {"virtual_nodes": group.virtual_nodes}
    if family == "MACHINE_ROOM_NEARBY":
        rooms = {consumer.client_id: consumer.room for consumer in group.consumers}
        return {"broker_room": lambda mq: mq.broker_name.partition("@")[0], "client_room": rooms.get}
    return {}


def config_queues(group: parts.Group, of: parts.Consumer) -> list[MessageQueue]:
    """Return the member's queues under CONFIG, all of the group's first topic."""
    names = (name.rpartition(":") for name in of.config_queues)
    return [MessageQueue(group.subscriptions[0], broker_name, int(queue_id)) for broker_name, _, queue_id in names]


class Consumer:
    """A member of a consumer group. It holds the queues in `table` and does not pull those in `stopped` (None: all)."""

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
        """The topics that it subscribes."""
        return self.subscriptions.sub_versions.keys()

    def start(self) -> None:
        """Start to rebalance, to pop, or to pull the assigned queues."""
        env = self.client.world.env
        if self.of.assigned_queues:
            self._assign()
        elif self.group.client_rebalance:
            env.process(self._rebalances())
        else:
            env.process(pops(self))
        if self.is_orderly:
            env.process(self._locks.renewing(self.table))
        env.process(self.offsets.persisting(self.table))

    def notify(self) -> None:
        """Handle NOTIFY_CONSUMER_IDS_CHANGED or rebalanceImmediately."""
        self._is_notified = True
        self._alarm.ring()

    def wake(self, broker_names: Iterable[str]) -> None:
        """End the pulls that these brokers hold, unanswered."""
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
        """Stop to pull these queues; None: all."""
        self.stopped = None if queues is None else (self.stopped or set()) | set(queues)
        self.may_hold_back = True

    def hang_listener(self, is_hung: bool) -> None:
        """Hang the listener, or let it return and continue with the cache."""
        self.is_hung = is_hung
        self.may_hold_back = True
        for process_queue in self.table.values():
            process_queue.consuming_until_ms = FOR_EVER_MS if is_hung else 0

    def suspend(self, is_suspended: bool) -> None:
        """DefaultMQPushConsumer.suspend and resume: a suspended consumer sends no pulls and does not rebalance."""
        self.is_suspended = is_suspended
        self.may_hold_back = True

    def slow_listener(self, consume_ms: int) -> None:
        """Set the time that each message of a queue takes, one after the other."""
        self.consume_ms = consume_ms
        self.may_hold_back = True

    def is_stopped(self, mq: MessageQueue) -> bool:
        """Return whether a client bug keeps it from pulling the queue."""
        return self.stopped is None or f"{mq.broker_name}:{mq.queue_id}" in self.stopped

    def pulls(self, mq: MessageQueue) -> bool:
        """Return whether nothing keeps it from pulling a queue that it holds."""
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
        """Commit all offsets and release all locks."""
        self.offsets.persist(self.table)
        for mq, process_queue in self.table.items():
            process_queue.dropped = True
            if self.is_orderly:
                self._locks.unlock(mq)

    def _assign(self) -> None:
        """Pull the queues of assign(), without rebalancing."""
        now_ms = self.client.world.now_ms
        for topic, names in self.of.assigned_queues.items():
            for broker_name, _, queue_id in (name.rpartition(":") for name in names):
                mq = MessageQueue(topic, broker_name, int(queue_id))
                next_offset = self.offsets.compute_pull_from_where(mq)
                self.table[mq] = ProcessQueue(now_ms, now_ms, next_offset, locked=True)
                self._start_puller(mq, 0)

    def _rebalances(self) -> Process:
        """Run RebalanceService: every 20 s, and at once when a broker reports a change of members."""
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
        """Run one round; return whether every topic is balanced. A heartbeat reports a change to every broker."""
        held, versions = set(self.table), dict(self.subscriptions.sub_versions)
        balanced = do_rebalance(list(self.topics), self._rebalance_topic, self.table, self.client.client_version)
        if self.subscriptions.sub_versions != versions:
            self.subscriptions.renew()
            self.client.beat_soon()
        if held != self.table.keys():
            self.client.cluster.on_change(self.consumer_group)
        return balanced

    def _rebalance_topic(self, topic: str) -> bool:
        """Run RebalanceImpl.rebalanceByTopic, with one random broker's list of the group."""
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
                world.later(removed.unlock_after_ms, partial(self._locks.unlock, removed.mq))
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
