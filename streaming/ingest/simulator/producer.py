"""A producer with MQFaultStrategy: it sends, remembers how long each broker took, and stays away from slow ones."""

from collections.abc import Iterator, Mapping

from schemas.events import SEND_LATENCIES
from streaming.ingest.simulator import scenario
from streaming.ingest.simulator.broker import Broker, Routes
from streaming.ingest.simulator.client import Client
from streaming.ingest.simulator.world import Process, World
from udfs.fault import FaultItem, is_available, only_extends, order_fault_items, update_fault_item
from udfs.model import MessageQueue
from udfs.version import parse_client_version

ATTEMPTS = 3
"""DefaultMQProducer.retryTimesWhenSendFailed + 1."""
SEND_TIMEOUT_MS = 3_000
"""DefaultMQProducer.sendMsgTimeout."""


class Producer(Client):
    """One thread that sends in turn to its topics, with sendLatencyEnable and without the detector."""

    def __init__(self, world: World, brokers: Mapping[str, Broker], routes: Routes, of: scenario.Producer) -> None:
        super().__init__(world, brokers, routes, of)
        self._producer_group = of.producer_group
        self._topics = of.topics
        self._period_ms = 1000 / of.sends_per_second
        self._version_text = of.client_version
        self._version = parse_client_version(of.client_version)
        self._only_extends = only_extends(self._version)
        self._fault_items: dict[str, FaultItem] = {}
        self._index = world.random.randrange(1 << 16)
        world.env.process(self._sends())

    def _producer_groups(self) -> list[str]:
        return [self._producer_group]

    def _sends(self) -> Process:
        world, due_ms = self._world, float(self._world.now_ms)
        while self.is_running:
            for topic in self._topics:
                due_ms = max(due_ms + self._period_ms * (0.5 + world.random.random()), world.now_ms)
                yield from self._sleep(max(1, int(due_ms) - world.now_ms))
                yield from self._send(topic)

    def _send(self, topic: str) -> Process:
        """DefaultMQProducerImpl.sendDefaultImpl: up to three attempts, the next at another broker."""
        last_broker: str | None = None
        for _ in range(ATTEMPTS):
            mq = self._select(topic, last_broker)
            broker = self._brokers[mq.broker_name]
            latency_ms = self._latency_ms(broker)
            yield from self._sleep(latency_ms)
            self._attempted(mq, latency_ms, broker.error)
            if broker.error is None:
                self._routes.queues[mq].append()
                return
            last_broker = mq.broker_name

    def _latency_ms(self, broker: Broker) -> int:
        random = self._world.random
        if broker.error == "RemotingException":
            return SEND_TIMEOUT_MS
        spread = 0.8 + 0.4 * random.random()
        return 1 + int(random.expovariate(0.25)) + int(broker.extra_latency_ms * spread)

    def _attempted(self, mq: MessageQueue, latency_ms: int, error: str | None) -> None:
        """MQFaultStrategy.updateFaultItem as DefaultMQProducerImpl calls it, and the event of it."""
        now_ms, failed = self._world.now_ms, error is not None
        reachable = error != "MQBrokerException"
        self._fault_items[mq.broker_name] = update_fault_item(
            self._fault_items.get(mq.broker_name),
            mq.broker_name,
            latency_ms,
            failed,
            reachable,
            now_ms,
            self._version,
        )
        event = {
            "cluster": self._world.cluster,
            "client_id": self.client_id,
            "client_version": self._version_text,
            "topic": mq.topic,
            "broker_name": mq.broker_name,
            "queue_id": mq.queue_id,
            "latency_ms": latency_ms,
            "isolation": failed,
            "event_time_ms": now_ms,
        }
        if self._only_extends:
            event["reachable"] = reachable
        if not failed:
            event["send_status"] = "SEND_OK"
        self._world.say(SEND_LATENCIES, event)

    def _select(self, topic: str, last_broker: str | None) -> MessageQueue:
        """MQFaultStrategy.selectOneMessageQueue: round robin over the queues of available brokers.

        When there is none: from 5.1.4 a reachable broker, then any; before, pickOneAtLeast, a broker of the better
        half. A retry skips the broker that has just failed, which only some releases do.
        """
        now_ms, items = self._world.now_ms, self._fault_items
        shut_out = {name for name, item in items.items() if not is_available(item, now_ms, self._version)} | {
            last_broker
        }
        if mq := self._next(topic, shut_out):
            return mq
        if not self._only_extends:
            ordered = order_fault_items(items.values(), now_ms, self._version)
            better = {item.name for item in ordered[: max(1, len(ordered) // 2)]}
            return self._next(topic, set(self._brokers) - better) or self._any(topic)
        unreachable = {name for name, item in items.items() if not item.reachable} | {last_broker}
        return self._next(topic, unreachable) or self._any(topic)

    def _next(self, topic: str, shut_out: set[str | None] | set[str]) -> MessageQueue | None:
        return next((mq for mq in self._round(topic) if mq.broker_name not in shut_out), None)

    def _any(self, topic: str) -> MessageQueue:
        return next(self._round(topic))

    def _round(self, topic: str) -> Iterator[MessageQueue]:
        """Each queue of the topic once, from where the last selection ended (TopicPublishInfo)."""
        mq_all = self._route[topic]
        for _ in mq_all:
            self._index += 1
            yield mq_all[self._index % len(mq_all)]
