"""Pulls of one consumer: its pull requests per queue, its POP requests and its offsets."""

from collections.abc import Collection, Generator, Iterable
from typing import Any, Protocol

from schemas.events import PULLS
from streaming.simulator import parts
from streaming.simulator.broker import NO_MATCHED_MSG, NO_PERMISSION, Broker, Node, wants
from streaming.simulator.client import Client
from streaming.simulator.queue_lock import may_pull_orderly
from streaming.simulator.slave_read import MASTER_ID, may_pull, recalculate_pull_from_which_node
from streaming.simulator.world import Alarm, Event, Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.offset_store import (
    NO_OFFSET,
    PERSIST_CONSUMER_OFFSET_MS,
    RemoteBrokerOffsetStore,
    compute_pull_from_where,
)
from udfs.rocketmq.process_queue import OffsetError, ProcessQueue


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
        """Store the queue's offset: everything before it is consumed."""
        if self._is_local:
            self._file.update_offset(mq, offset)
        else:
            self._memory.offset_table[mq] = offset

    def to_commit(self, mq: MessageQueue) -> int:
        """Return the offset that the next pull commits, or NO_OFFSET."""
        return NO_OFFSET if self._is_local else self._memory.offset_table.get(mq, NO_OFFSET)

    def compute_pull_from_where(self, mq: MessageQueue) -> int:
        """Return the first offset of a new queue. Raises OffsetError if the broker does not answer."""
        if self._is_local:
            stored_offset = self._file.read_from_store(mq)
        else:
            self._memory.remove_offset(mq)
            stored_offset = self._memory.read_from_store(mq, self._fetch)
        max_offset = self._client.cluster.store.queue(mq).max_offset
        return compute_pull_from_where("CONSUME_FROM_LAST_OFFSET", mq.topic, stored_offset, max_offset)

    def remove(self, mq: MessageQueue) -> None:
        """Commit a queue a last time and forget it."""
        if self._is_local:
            self._file.persist(mq)
            self._file.remove_offset(mq)
        else:
            self._memory.persist(mq, self._commit)
            self._memory.remove_offset(mq)

    def persist(self, mqs: Collection[MessageQueue]) -> None:
        """Commit the offsets of these queues."""
        if self._is_local:
            self._file.persist_all(mqs)
        else:
            self._memory.persist_all(mqs, self._commit)

    def persisting(self, mqs: Collection[MessageQueue]) -> Process:
        """Run MQClientInstance.persistAllConsumerOffset every 5 s, first 10 s after the start."""
        delay_ms = 2 * PERSIST_CONSUMER_OFFSET_MS
        while True:
            yield from self._client.sleep(delay_ms)
            delay_ms = PERSIST_CONSUMER_OFFSET_MS
            if not self._client.is_running:
                return
            self.persist(mqs)

    def _commit(self, mq: MessageQueue, offset: int) -> None:
        """Send UPDATE_CONSUMER_OFFSET to the master, else to a slave; lost without an answer."""
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
"""DefaultMQPushConsumerImpl: an offset beyond the queue's end is corrected after this time."""
FLOW_CONTROL_MS = 1_000
"""Period of pulls that are made but not sent (50 ms in RocketMQ)."""


class Pulling(Protocol):
    """A consumer as its pulls know it."""

    client: Client
    group: parts.Group
    of: parts.Consumer
    consumer_group: str
    offsets: Offsets
    consume_ms: int
    is_hung: bool
    is_orderly: bool
    is_suspended: bool
    may_hold_back: bool

    @property
    def topics(self) -> Iterable[str]: ...
    def is_stopped(self, mq: MessageQueue) -> bool: ...


def _pull_event(consumer: Pulling, node: Node, mq: MessageQueue, **fields: Any) -> Event:
    client = consumer.client
    return {
        "cluster": client.world.cluster,
        "broker_name": mq.broker_name,
        "broker_id": node.broker_id,
        "topic": mq.topic,
        "queue_id": mq.queue_id,
        "consumer_group": consumer.consumer_group,
        "client_addr": client.connections[node].client_addr,
        "client_id": client.client_id,
        **fields,
        "event_time_ms": client.world.env.now,
    }


class Puller:
    """A ProcessQueue's PullRequest. `suggested` is the broker id that the last answer suggested."""

    __slots__ = (
        "_broker",
        "_consumer",
        "_is_dropping",
        "_mq",
        "_process_queue",
        "_queue",
        "_slow_since_ms",
        "alarm",
        "suggested",
    )

    def __init__(self, consumer: Pulling, mq: MessageQueue, process_queue: ProcessQueue) -> None:
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
        """Pull until the queue is dropped or the process ends."""
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
                consumed = process_queue.next_offset = yield from self._correct()
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
            if self._is_unanswered(node):
                yield env.timeout(PULL_DELAY_WHEN_EXCEPTION_MS)
            elif queue.max_offset > pull_offset:
                process_queue.next_offset = min(queue.max_offset, pull_offset + PULL_BATCH)
                consumed = self._filter(node, consumed) if queue.tag else consumed
                if consumer.group.pull_interval_ms:
                    yield env.timeout(consumer.group.pull_interval_ms)

    def _correct(self) -> Generator[Any, Any, int]:
        """Continue at the queue's first offset, ten seconds after OFFSET_ILLEGAL. Commits are wrong until then."""
        yield self._consumer.client.world.env.timeout(OFFSET_ILLEGAL_MS)
        self._note(0)
        return 0

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
        if self._broker.is_intact and not client.connections.cut and MASTER_ID in broker_ids:
            return self._broker.master
        broker_id = recalculate_pull_from_which_node(self.suggested, broker_ids)
        if broker_id is None:
            return None
        node = self._broker.nodes[broker_id]
        is_served = may_pull(broker_id, self._broker.slave_read_config.slave_read_enable)
        return node if is_served and client.connections.reaches(node) else None

    def _is_unanswered(self, node: Node) -> bool:
        """Return whether the node went down or out of reach while it held the request."""
        connections = self._consumer.client.connections
        return not (self._broker.is_intact and not connections.cut) and not connections.reaches(node)

    def _request(self, node: Node, pull_offset: int) -> bool:
        """Send PULL_MESSAGE to a node; return whether it is served."""
        consumer, mq, max_offset = self._consumer, self._mq, self._queue.max_offset
        refusal = self._broker.refusal(
            node, consumer.consumer_group, mq, posts_subscription=bool(consumer.of.assigned_queues)
        )
        if refusal is not None and refusal != NO_PERMISSION:
            return False
        self.suggested = 0 if self._broker.is_intact else self._broker.suggest_broker_id(node)
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


def pops(consumer: Pulling) -> Process:
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


def _pop(consumer: Pulling, mq_all: Iterable[MessageQueue], broker_name: str) -> None:
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
