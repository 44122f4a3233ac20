"""A push consumer: it rebalances for itself (RebalanceImpl) and pulls its share, one long poll a queue."""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.events import PULLS
from streaming.ingest.simulator import scenario
from streaming.ingest.simulator.broker import Broker, Channel, Routes
from streaming.ingest.simulator.client import Client
from streaming.ingest.simulator.world import Alarm, Process, World
from udfs.allocation import allocate
from udfs.model import MessageQueue

REBALANCE_MS = 20_000
"""RebalanceService.waitInterval."""
LONG_POLL_MS = 15_000
"""DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS: an idle queue is pulled this often."""
PULL_BATCH = 32
"""DefaultMQPushConsumer.pullBatchSize."""


class ProcessQueue:
    """A queue the consumer holds. A dropped one is never pulled again."""

    __slots__ = ("alarm", "dropped")

    def __init__(self, world: World) -> None:
        self.alarm = Alarm(world.env, LONG_POLL_MS)
        self.dropped = False


class Consumer(Client):
    """One process of a consumer group."""

    def __init__(
        self,
        world: World,
        brokers: Mapping[str, Broker],
        routes: Routes,
        group: scenario.Group,
        of: scenario.Consumer,
        on_change: Callable[[str], None],
    ) -> None:
        self.consumer_group = group.consumer_group
        self.strategy = of.strategy or group.strategy
        self.subscriptions = of.subscriptions or group.subscriptions
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}
        self._pull_interval_ms = group.pull_interval_ms
        self._on_change = on_change
        self._is_notified = False
        self._rebalance_alarm = Alarm(world.env, REBALANCE_MS)
        super().__init__(world, brokers, routes, of)
        self._consumer_data = [_consumer_data(self, sub_version=world.now_ms)]
        world.env.process(self._rebalances())

    def on_members_changed(self) -> None:
        self._is_notified = True
        self._rebalance_alarm.ring()

    def _consumers(self) -> list[dict[str, Any]]:
        return self._consumer_data

    def _register(self, broker: Broker, channel: Channel) -> None:
        broker.register(self.consumer_group, channel)

    def _unregister(self, broker: Broker, channel: Channel) -> None:
        broker.unregister(self.consumer_group, channel)

    def _rebalances(self) -> Process:
        """RebalanceService: every 20 s, and at once when a broker says that the members changed."""
        while self.is_running:
            if not self._is_notified:
                yield self._rebalance_alarm.set()
            yield from self._sleep(self._world.network_ms())
            self._is_notified = False
            if self.is_running:
                self._rebalance()

    def _rebalance(self) -> None:
        """RebalanceImpl.rebalanceByTopic for each subscription, with one random broker's list of the group."""
        changed = False
        for topic in self.subscriptions:
            broker = self._world.random.choice(list(self._brokers.values()))
            cid_all = broker.client_ids(self.consumer_group)
            if cid_all:  # none: this round is skipped and the old queues are kept
                share = allocate(self.strategy, self.consumer_group, self.client_id, self._route[topic], cid_all)
                changed |= self._update_process_queues(topic, share)
        if changed:
            self._on_change(self.consumer_group)

    def _update_process_queues(self, topic: str, share: list[MessageQueue]) -> bool:
        """RebalanceImpl.updateProcessQueueTableInRebalance: drop what is no longer ours, pull what is new."""
        mine = set(share)
        lost = [mq for mq in self.process_queues if mq.topic == topic and mq not in mine]
        for mq in lost:
            self.process_queues.pop(mq).dropped = True
        gained = [mq for mq in share if mq not in self.process_queues]
        for mq in gained:
            process_queue = self.process_queues[mq] = ProcessQueue(self._world)
            self._world.env.process(self._pulls(mq, process_queue))
        return bool(lost or gained)

    def _pulls(self, mq: MessageQueue, process_queue: ProcessQueue) -> Process:
        """Ask, be held until a message comes or the long poll ends, take up to 32 messages, ask again."""
        env, queue, group = self._world.env, self._routes.queues[mq], self.consumer_group
        commit_offset = pull_offset = queue.committed.setdefault(group, queue.max_offset)
        while True:
            yield env.timeout(self._world.network_ms())
            while self.is_frozen:
                yield self._thawed
            if process_queue.dropped or not self.is_running:
                return
            has_messages = queue.max_offset > pull_offset
            self._say_pull(mq, pull_offset, commit_offset, queue.max_offset)
            queue.committed[group] = max(queue.committed[group], commit_offset)
            commit_offset = pull_offset
            if not has_messages:
                if process_queue.alarm not in queue.held:
                    queue.held.append(process_queue.alarm)
                yield process_queue.alarm.set()
            if queue.max_offset > pull_offset:
                pull_offset = min(queue.max_offset, pull_offset + PULL_BATCH)
                if self._pull_interval_ms:
                    yield env.timeout(self._pull_interval_ms)

    def _say_pull(self, mq: MessageQueue, pull_offset: int, commit_offset: int, max_offset: int) -> None:
        world = self._world
        world.say(
            PULLS,
            {
                "cluster": world.cluster,
                "broker_name": mq.broker_name,
                "broker_id": 0,
                "topic": mq.topic,
                "queue_id": mq.queue_id,
                "consumer_group": self.consumer_group,
                "client_addr": self._channel(mq.broker_name).client_addr,
                "client_id": self.client_id,
                "pull_offset": pull_offset,
                "commit_offset": commit_offset,
                "max_offset": max_offset,
                "pull_status": "FOUND" if max_offset > pull_offset else "NO_NEW_MSG",
                "suggest_broker_id": 0,
                "event_time_ms": world.now_ms,
            },
        )


def _consumer_data(consumer: Consumer, sub_version: int) -> dict[str, Any]:
    return {
        "consumer_group": consumer.consumer_group,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "strategy": consumer.strategy,
        "subscriptions": [
            {"topic": topic, "sub_string": "*", "sub_version": sub_version, "expression_type": "TAG"}
            for topic in consumer.subscriptions
        ],
    }
