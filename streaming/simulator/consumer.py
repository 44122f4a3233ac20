"""A member of a consumer group: subscriptions, rebalancing (RebalanceImpl), queue locks, and pulls of each queue."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from schemas.events import PULLS
from streaming.simulator import scenario as parts
from streaming.simulator.broker import MASTER_ID, NO_MATCHED_MSG, REFUSED, Beat, Broker, Node, wants
from streaming.simulator.client import Client, Offsets
from streaming.simulator.consumer_manager import (
    LOCK_ALL_FIRST_MS,
    LOCK_ALL_MS,
    SubscriptionData,
    lock_all,
    may_pull_orderly,
)
from streaming.simulator.world import Alarm, Event, Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import PERSIST_CONSUMER_OFFSET_MS, RETRY_GROUP_TOPIC_PREFIX
from udfs.rocketmq.process_queue import ProcessQueue, rebalance_rules, update_process_queue_table
from udfs.rocketmq.rebalance import (
    do_rebalance,
    is_balanced,
    rebalance_by_topic,
    rebalance_postponed_ms,
    rebalance_wait_ms,
)
from udfs.rocketmq.version import NEWEST, ClientVersion

FOR_EVER_MS = 1 << 60
POP_EVERY_MS = 1_000
"""Period of POP_MESSAGE per topic; a real one is held for up to 15 s."""
POP_BATCH = 32
LONG_POLL_MS = 15_000
"""DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS: the pull period of an idle queue."""
PULL_BATCH = 32
"""DefaultMQPushConsumer.pullBatchSize."""
PULL_DELAY_WHEN_EXCEPTION_MS = 3_000
"""DefaultMQPushConsumerImpl.pullTimeDelayMillsWhenException."""
PULL_THRESHOLD_FOR_QUEUE = 1_000
"""DefaultMQPushConsumer.pullThresholdForQueue: unconsumed messages of a queue above which pulling pauses."""
OFFSET_ILLEGAL_MS = 10_000
"""DefaultMQPushConsumerImpl: an offset beyond the queue's end becomes the first after this time; until then commits are
wrong."""
FLOW_CONTROL_MS = 1_000
"""Period of pulls that are made but not sent (50 ms in RocketMQ)."""


class SubscriptionTable:
    """The sub_version of each topic, and the ConsumerData of heartbeats."""

    def __init__(self, group: parts.Group, of: parts.Consumer, now_ms: int) -> None:
        self.sub_versions: dict[str, int] = dict.fromkeys(group.topics_of(of), now_ms)
        self._group = group
        self._of = of
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
            "subscriptions": [asdict(data) for data in datas],
        }
        if not group.client_rebalance:
            self.consumer_data["client_rebalance"] = False
        elif of.reports_strategy and not of.assigned_queues:
            self.consumer_data["strategy"] = of.strategy or group.strategy
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
    """A member of a consumer group. It holds the queues in `table` and does not pull those in `stopped` (None: all).

    `is_suspended` (DefaultMQPushConsumer.suspend): it sends no pulls and does not rebalance. `consume_ms` is the time
    that each message of a queue takes, one after the other; 0: none.
    """

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
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self.could_not_lock: dict[str, list[MessageQueue]] = {}
        self.subscriptions = SubscriptionTable(group, of, client.world.now_ms)
        is_local = self.is_broadcasting or group.pull_consumers
        self.offsets = Offsets(client, group.consumer_group, is_local=is_local)
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
        return self.subscriptions.sub_versions.keys()

    def start(self) -> None:
        env = self.client.world.env
        if self.of.assigned_queues:
            self._assign()
        elif self.group.client_rebalance:
            env.process(self._rebalances())
        else:
            env.process(pops(self))
        if self.is_orderly:
            env.process(self.client.repeat(LOCK_ALL_FIRST_MS, LOCK_ALL_MS, self._renew_locks))
        every_ms = PERSIST_CONSUMER_OFFSET_MS  # MQClientInstance.persistAllConsumerOffset
        env.process(self.client.repeat(2 * every_ms, every_ms, partial(self.offsets.persist, self.table)))

    def notify(self) -> None:
        """Handle NOTIFY_CONSUMER_IDS_CHANGED or rebalanceImmediately."""
        self._is_notified = True
        self._alarm.ring()

    def wake(self, broker_names: Iterable[str]) -> None:
        """End the pulls that these brokers hold, unanswered."""
        for mq, puller in self._pullers.items():
            if mq.broker_name in broker_names:
                puller.alarm.ring()

    def stop_pulling(self, queues: Iterable[str] | None) -> None:
        """Stop to pull these queues; None: all."""
        self.stopped = None if queues is None else (self.stopped or set()) | set(queues)

    def hang_listener(self, is_hung: bool) -> None:
        """Hang the listener, or let it return and continue with the cache."""
        self.is_hung = is_hung
        for process_queue in self.table.values():
            process_queue.consuming_until_ms = FOR_EVER_MS if is_hung else 0

    @property
    def may_hold_back(self) -> bool:
        """Whether a request may be made and not sent (`Puller`)."""
        return bool(self.is_orderly or self.is_hung or self.is_suspended or self.consume_ms or self.stopped != set())

    def is_stopped(self, mq: MessageQueue) -> bool:
        """Return whether a client bug keeps it from pulling the queue."""
        return self.stopped is None or f"{mq.broker_name}:{mq.queue_id}" in self.stopped

    def shut_down(self) -> None:
        self.offsets.persist(self.table)
        for mq, process_queue in self.table.items():
            process_queue.dropped = True
            if self.is_orderly:
                self._unlock(mq)

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
            self.client.world.on_change(self.consumer_group)
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
            try_lock=lambda mq: bool(self._lock_batch(mq.broker_name, {mq})),
            client_version=self.client.client_version,
        )
        for removed in update.removed:
            self.offsets.remove(removed.mq)
            if removed.unlock_after_ms is not None:
                world.later(removed.unlock_after_ms, partial(self._unlock, removed.mq))
        for mq in update.added:
            self._start_puller(mq, self._rules.first_pull_delay_ms)
        if update.could_not_lock != self.could_not_lock.get(topic, []):
            self.could_not_lock[topic] = update.could_not_lock
            self.client.world.on_change(self.consumer_group)
        if update.could_not_lock and self._rules.lock_retry_ms is not None:
            world.later(self._rules.lock_retry_ms, self.notify)
        if update.changed:
            self.subscriptions.sub_versions[topic] = world.now_ms

    def _lock_batch(self, broker_name: str, mqs: set[MessageQueue]) -> set[MessageQueue] | None:
        """Send LOCK_BATCH_MQ; return None if no master answers. Two processes with one ClientId both get the locks."""
        master, client = self.client.master(broker_name), self.client
        if master is None or not client.reaches(master):
            return None
        return master.locks.try_lock_batch(self.consumer_group, mqs, client.client_id, client.world.now_ms)

    def _unlock(self, mq: MessageQueue) -> None:
        """Send UNLOCK_BATCH_MQ."""
        master = self.client.master(mq.broker_name)
        if master is not None and self.client.reaches(master):
            master.locks.unlock_batch(self.consumer_group, [mq], self.client.client_id)

    def _renew_locks(self) -> None:
        """Run ConsumeMessageOrderlyService.lockMQPeriodically."""
        before = {mq: process_queue.locked for mq, process_queue in self.table.items()}
        lock_all(self.table, self._lock_batch, self.client.world.now_ms, self.client.client_version)
        if before != {mq: process_queue.locked for mq, process_queue in self.table.items()}:
            self.client.world.on_change(self.consumer_group)

    def _start_puller(self, mq: MessageQueue, delay_ms: int) -> None:
        process_queue = self.table[mq]
        if self.is_hung:
            process_queue.consuming_until_ms = FOR_EVER_MS
        puller = self._pullers[mq] = Puller(self, mq, process_queue)
        self.client.world.env.process(puller.run(delay_ms))


def recalculate_pull_from_which_node(
    suggested_broker_id: int, broker_ids: Collection[int], client_version: ClientVersion = NEWEST
) -> int | None:
    """PullAPIWrapper and findBrokerAddressInSubscribe: the id of the broker the client asks; None: there is none.

    `suggested_broker_id` is the last answer's, MASTER_ID before the first; `broker_ids` those in the route. A missing
    slave is replaced by the one with the next id (4.8.0), any other missing broker by the one with the lowest: without
    a master a client asks the slave, and there it commits nothing with its pulls.
    """
    if suggested_broker_id in broker_ids:
        return suggested_broker_id
    knows_next = suggested_broker_id != MASTER_ID and client_version >= (4, 8, 0)
    if knows_next and suggested_broker_id + 1 in broker_ids:
        return suggested_broker_id + 1
    return min(broker_ids, default=None)


def _pull_event(consumer: Consumer, node: Node, mq: MessageQueue, **fields: Any) -> Event:
    client = consumer.client
    return {
        "cluster": client.world.cluster,
        "broker_name": mq.broker_name,
        "broker_id": node.broker_id,
        "topic": mq.topic,
        "queue_id": mq.queue_id,
        "consumer_group": consumer.consumer_group,
        "client_addr": client.open_channel(node).client_addr,
        "client_id": client.client_id,
        **fields,
        "event_time_ms": client.world.env.now,
    }


class Puller:
    """A ProcessQueue's PullRequest. `suggested` is the broker id that the last answer suggested."""

    def __init__(self, consumer: Consumer, mq: MessageQueue, process_queue: ProcessQueue) -> None:
        cluster = consumer.client.cluster
        self.alarm = Alarm(cluster.world.env)
        self.suggested = MASTER_ID
        self._consumer = consumer
        self._mq = mq
        self._process_queue = process_queue
        self._queue = cluster.store.queue(mq)
        self._slow_since_ms = 0
        self._is_dropping = False
        self._broker: Broker = cluster.brokers[mq.broker_name]

    def run(self, delay_ms: int) -> Process:
        consumer, process_queue, queue = self._consumer, self._process_queue, self._queue
        client, world, env = consumer.client, consumer.client.world, consumer.client.world.env
        consumed = process_queue.next_offset
        if delay_ms:
            yield env.timeout(delay_ms)
        while True:
            yield env.timeout(world.network_ms())
            while client.is_frozen:
                yield client.thawed
            if process_queue.dropped or not client.is_running:
                return
            process_queue.last_pull_ms = env.now
            pull_offset = process_queue.next_offset
            consumed = self._consume_slowly(consumed) if consumer.consume_ms else consumed
            if consumer.may_hold_back and self._is_held_back(consumed):
                consumed = self._consume_rest(consumed)
                yield env.timeout(FLOW_CONTROL_MS)
                continue
            if pull_offset > queue.max_offset:
                yield env.timeout(OFFSET_ILLEGAL_MS)
                self._note(0)
                consumed = process_queue.next_offset = 0
                continue
            node = self._find_node()
            if node is None or not self._request(node, pull_offset):
                consumed = self._consume_rest(consumed)
                yield env.timeout(PULL_DELAY_WHEN_EXCEPTION_MS)
                continue
            if consumed != pull_offset and not consumer.is_hung and not consumer.consume_ms:
                self._note(consumed)
                consumed = pull_offset
            if queue.max_offset <= pull_offset:
                yield from self._hold(pull_offset, consumed)
            if not client.reaches(node):  # it went down or out of reach while it held the request
                yield env.timeout(PULL_DELAY_WHEN_EXCEPTION_MS)
            elif queue.max_offset > pull_offset:
                process_queue.next_offset = min(queue.max_offset, pull_offset + PULL_BATCH)
                consumed = self._filter(node, consumed) if queue.tag else consumed
                if consumer.group.pull_interval_ms:
                    yield env.timeout(consumer.group.pull_interval_ms)

    def _hold(self, pull_offset: int, consumed: int) -> Process:
        """The broker holds the request until a message comes, or it is answered with NO_NEW_MSG."""
        if self.alarm not in self._queue.held:
            self._queue.held.append(self.alarm)
        if not self._is_dropping:
            self._note(consumed)
        yield self.alarm.set(LONG_POLL_MS)
        if self._is_dropping and self._queue.max_offset <= pull_offset:
            self._note(consumed)

    def _filter(self, node: Node, consumed: int) -> int:
        """Filter by the group's newest expression at the broker, then by the client's own.

        The client commits messages that the broker filters out (correctTagsOffset), but not those it drops itself.
        """
        consumer, next_offset = self._consumer, self._process_queue.next_offset
        is_given = node.gives(consumer.consumer_group, self._mq.topic, self._queue.tag)
        self._is_dropping = is_given and not wants(consumer.of.sub_string, self._queue.tag)
        if is_given and not self._is_dropping:
            return consumed
        if not is_given:
            self._note(next_offset)
        return next_offset

    def _is_held_back(self, consumed: int) -> bool:
        """Return whether the request is made, so that the queue never looks idle, but not sent."""
        if self._consumer.is_orderly and not may_pull_orderly(self._process_queue):
            return True
        is_full = self._process_queue.next_offset - consumed > PULL_THRESHOLD_FOR_QUEUE
        if is_full and (self._consumer.is_hung or self._consumer.consume_ms):
            return True
        return self._consumer.is_suspended or self._consumer.is_stopped(self._mq)

    def _consume_slowly(self, consumed: int) -> int:
        """Return the offset consumed by now, at `consume_ms` per message."""
        now_ms, consume_ms = self._consumer.client.world.now_ms, self._consumer.consume_ms
        if self._process_queue.next_offset == consumed or not self._slow_since_ms:
            self._slow_since_ms = now_ms
        done = min((now_ms - self._slow_since_ms) // consume_ms, self._process_queue.next_offset - consumed)
        if done and not self._consumer.is_hung:
            self._slow_since_ms += done * consume_ms
            consumed += done
            self._note(consumed)
        return consumed

    def _consume_rest(self, consumed: int) -> int:
        """Consume the cache although no message arrives, if the listener may and returns."""
        consumer, process_queue = self._consumer, self._process_queue
        is_kept = consumer.is_orderly and not may_pull_orderly(process_queue)
        if is_kept or consumer.is_hung or consumer.consume_ms or consumed == process_queue.next_offset:
            return consumed
        self._note(process_queue.next_offset)
        return process_queue.next_offset

    def _note(self, consumed: int) -> None:
        """Store the consumed offset, unless the queue was dropped: another client may hold it."""
        if not self._process_queue.dropped:
            self._consumer.offsets.consumed(self._mq, consumed)

    def _find_node(self) -> Node | None:
        """Return the node to pull from (PullAPIWrapper.pullKernelImpl): the suggested one, else one of the route."""
        client = self._consumer.client
        broker_ids = client.broker_ids.get(self._mq.broker_name, ())
        if self._broker.is_intact and not client.cut and MASTER_ID in broker_ids:
            return self._broker.nodes[MASTER_ID]
        broker_id = recalculate_pull_from_which_node(self.suggested, broker_ids)
        if broker_id is None:
            return None
        node = self._broker.nodes[broker_id]
        return node if node.may_pull and client.reaches(node) else None

    def _request(self, node: Node, pull_offset: int) -> bool:
        """Send PULL_MESSAGE to a node; return whether it is served."""
        consumer, mq, max_offset = self._consumer, self._mq, self._queue.max_offset
        refusal = self._broker.refusal(
            node, consumer.consumer_group, mq, has_assigned=bool(consumer.of.assigned_queues)
        )
        if refusal == REFUSED:
            return False
        self.suggested = MASTER_ID if self._broker.is_intact else self._broker.suggested_broker_id
        status = refusal or ("FOUND" if max_offset > pull_offset else "NO_NEW_MSG")
        if status == "FOUND" and self._queue.tag:
            is_given = node.gives(consumer.consumer_group, mq.topic, self._queue.tag)
            status = status if is_given else NO_MATCHED_MSG
        event = _pull_event(
            consumer,
            node,
            mq,
            pull_offset=pull_offset,
            max_offset=max_offset,
            pull_status=status,
            suggest_broker_id=self.suggested,
        )
        commit_offset = consumer.offsets.to_commit(mq)
        if commit_offset > 0:
            event["commit_offset"] = commit_offset
            if node.broker_id == MASTER_ID and refusal is None:
                node.offsets.commit_offset(consumer.consumer_group, mq, commit_offset)
        consumer.client.world.emit(PULLS, event)
        return refusal is None


def pops(consumer: Consumer) -> Process:
    """Run a POP consumer, which holds no queue: brokers hand out messages of any queue, until the process ends."""
    client = consumer.client
    while True:
        yield from client.sleep(POP_EVERY_MS + client.world.network_ms())
        if not client.is_running:
            return
        for topic in consumer.topics:
            route = client.routes.get(topic)
            if route is not None and route.broker_ids:
                _pop(consumer, route.mq_all, client.world.random.choice(list(route.broker_ids)))


def _pop(consumer: Consumer, mq_all: Iterable[MessageQueue], broker_name: str) -> None:
    """Send POP_MESSAGE to one broker: the first queue that has messages for the group answers."""
    client, group = consumer.client, consumer.consumer_group
    node = client.find_node(broker_name)
    for mq in mq_all:
        if mq.broker_name == broker_name and node is not None:
            max_offset = client.cluster.store.queue(mq).max_offset
            offset = node.offsets.query_offset(group, mq)
            if offset < 0:
                node.offsets.commit_offset(group, mq, max_offset)
            elif offset < max_offset:
                fields = {"pull_offset": offset, "commit_offset": offset, "max_offset": max_offset}
                client.world.emit(PULLS, _pull_event(consumer, node, mq, **fields, pull_status="FOUND"))
                node.offsets.commit_offset(group, mq, min(max_offset, offset + POP_BATCH))
                return
