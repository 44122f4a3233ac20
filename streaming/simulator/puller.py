"""One queue's pull requests, one after the other: held by the broker until a message comes, refused, or unanswered."""

from collections.abc import Generator
from typing import Any, Protocol

from schemas.events import PULLS
from streaming.simulator import parts
from streaming.simulator.broker import NO_MATCHED_MSG, NO_PERMISSION, Broker
from streaming.simulator.client import Client
from streaming.simulator.node import Node, wants
from streaming.simulator.offsets import Offsets
from streaming.simulator.world import Alarm, Event, Process
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.process_queue import ProcessQueue
from udfs.rocketmq.queue_lock import may_pull_orderly
from udfs.rocketmq.slave_read import MASTER_ID, may_pull, recalculate_pull_from_which_node

LONG_POLL_MS = 15_000
"""DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS: an idle queue is pulled this often."""
PULL_BATCH = 32
"""DefaultMQPushConsumer.pullBatchSize."""
PULL_DELAY_WHEN_EXCEPTION_MS = 3_000
"""DefaultMQPushConsumerImpl.pullTimeDelayMillsWhenException."""
PULL_THRESHOLD_FOR_QUEUE = 1_000
"""DefaultMQPushConsumer.pullThresholdForQueue: with so many messages unconsumed nothing more is pulled."""
OFFSET_ILLEGAL_MS = 10_000
"""DefaultMQPushConsumerImpl: an offset beyond the queue's end is corrected after this time."""
FLOW_CONTROL_MS = 1_000
"""How often a pull is made and not sent while it is held back (50 ms there)."""


class Pulling(Protocol):
    """A consumer, as its pull requests know it."""

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

    def is_stopped(self, mq: MessageQueue) -> bool:
        """Whether it pulls the queue no more."""
        ...


class Puller:
    """A ProcessQueue's PullRequest. `suggested` is the broker id the last answer named for the next."""

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
        """The broker filters by the group's newest expression, then the client by its own: what does not match here is
        passed over without a commit, and what does not match there with one (correctTagsOffset).
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
        """The request is made, so that it never looks idle, and not sent."""
        if self._consumer.is_orderly and not may_pull_orderly(self._process_queue):
            return True
        is_full = self._process_queue.next_offset - consumed > PULL_THRESHOLD_FOR_QUEUE
        if is_full and (self._consumer.is_hung or self._consumer.consume_ms):
            return True
        return self._consumer.is_suspended or self._consumer.is_stopped(self._mq)

    def _consume_slowly(self, consumed: int) -> int:
        """What is consumed by now, committed by the clock; the messages still cached have not begun."""
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
        """Nothing new comes; what is cached is consumed all the same, where the listener may and returns."""
        consumer, process_queue = self._consumer, self._process_queue
        is_kept = consumer.is_orderly and not may_pull_orderly(process_queue)
        if is_kept or consumer.is_hung or consumer.consume_ms or consumed == process_queue.next_offset:
            return consumed
        self._note(process_queue.next_offset)
        return process_queue.next_offset

    def _note(self, consumed: int) -> None:
        """Everything before this offset is consumed. A dropped queue's results count no more: another may hold it."""
        if not self._process_queue.dropped:
            self._consumer.offsets.consumed(self._mq, consumed)

    def _find_node(self) -> Node | None:
        """PullAPIWrapper.pullKernelImpl: the suggested node, or who else is in the route; None: nobody answers."""
        client = self._consumer.client
        broker_ids = client.broker_ids.get(self._mq.broker_name, ())
        if self._broker.is_whole and not client.connections.cut and MASTER_ID in broker_ids:
            return self._broker.master
        broker_id = recalculate_pull_from_which_node(self.suggested, broker_ids)
        if broker_id is None:
            return None
        node = self._broker.nodes[broker_id]
        is_served = may_pull(broker_id, self._broker.slave_read_config.slave_read_enable)
        return node if is_served and client.connections.reaches(node) else None

    def _is_unanswered(self, node: Node) -> bool:
        """The node went down, or out of reach, while it held the request."""
        connections = self._consumer.client.connections
        return not (self._broker.is_whole and not connections.cut) and not connections.reaches(node)

    def _request(self, node: Node, pull_offset: int) -> bool:
        """PULL_MESSAGE reaches a node: whether it is served."""
        consumer, mq, max_offset = self._consumer, self._mq, self._queue.max_offset
        refusal = self._broker.refusal(
            node, consumer.consumer_group, mq, posts_subscription=bool(consumer.of.assigned_queues)
        )
        if refusal is not None and refusal != NO_PERMISSION:
            return False
        self.suggested = 0 if self._broker.is_whole else self._broker.suggest_broker_id(node)
        status = refusal or ("FOUND" if max_offset > pull_offset else "NO_NEW_MSG")
        if status == "FOUND" and self._queue.tag:
            is_given = node.gives(consumer.consumer_group, mq.topic, self._queue.tag)
            status = status if is_given else NO_MATCHED_MSG
        world = consumer.client.world
        event: Event = {
            "cluster": world.cluster,
            "broker_name": mq.broker_name,
            "broker_id": node.broker_id,
            "topic": mq.topic,
            "queue_id": mq.queue_id,
            "consumer_group": consumer.consumer_group,
            "client_addr": consumer.client.connections[node].client_addr,
            "client_id": consumer.client.client_id,
            "pull_offset": pull_offset,
            "max_offset": max_offset,
            "pull_status": status,
            "suggest_broker_id": self.suggested,
            "event_time_ms": world.env.now,
        }
        commit_offset = consumer.offsets.to_commit(mq)
        if commit_offset > 0:
            event["commit_offset"] = commit_offset
            if node.broker_id == MASTER_ID and refusal is None:
                node.offsets.commit_offset(consumer.consumer_group, mq, commit_offset)
        world.say(PULLS, event)
        return refusal is None
