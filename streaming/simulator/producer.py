"""A producer with MQFaultStrategy: it sends, remembers how long each broker took, and stays away from slow ones."""

from dataclasses import replace

from schemas.events import SEND_LATENCIES
from streaming.simulator import parts
from streaming.simulator.client import Client
from streaming.simulator.delivery import Delivery, deliver
from streaming.simulator.name_server import TopicRoute
from streaming.simulator.world import Event, Process
from udfs.rocketmq.fault import FaultItem, only_extends, update_fault_item
from udfs.rocketmq.fault_detector import DETECT_PERIOD_MS, detect_by_one_round
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.ordered_send import select_message_queue_by_hash, string_hash_code
from udfs.rocketmq.selection import TopicPublishInfo, select_one_message_queue
from udfs.rocketmq.send import SEND_OK, SEND_STATUSES, Outcome, Send, SendOptions, end_try, start_send, start_try

KEYS = 10_000
"""So many ordering keys are in use."""


class Producer:
    """One thread that sends in turn to its topics, synchronously."""

    def __init__(self, client: Client, of: parts.Producer) -> None:
        self.client = client
        self._of = of
        self._period_ms = 1000 / of.sends_per_second
        self._options = SendOptions(client.client_version, start_detector_enable=of.start_detector_enable)
        self._has_reachable = only_extends(client.client_version)
        self._items: dict[str, FaultItem] = {}
        self._check_stamps_ms: dict[str, int] = {}
        self._infos: dict[str, tuple[TopicRoute, TopicPublishInfo]] = {}
        self._index = client.world.random.randrange(1 << 16)
        self._which_item_worst = 0
        client.producer_groups.append(of.producer_group)

    def start(self) -> None:
        """Begin to send."""
        self.client.world.env.process(self._sends())
        if self._of.start_detector_enable and self._has_reachable:
            self.client.world.env.process(self._detects())

    def _sends(self) -> Process:
        client, env, random = self.client, self.client.world.env, self.client.world.random.random
        due_ms = float(env.now)
        while client.is_running:
            for topic in self._of.topics:
                due_ms = max(due_ms + self._period_ms * (0.5 + random()), env.now)
                yield env.timeout(max(1, int(due_ms) - env.now))
                while client.is_frozen:
                    yield client.thawed
                route = self._find_publish_info(topic)
                if route is not None:
                    yield from self._send_by_key(topic) if self._of.sends_by_key else self._send(topic)

    def _find_publish_info(self, topic: str) -> TopicRoute | None:
        """tryToFindTopicPublishInfo: the route known, the NameServer's, or TBW102's; None: the send fails."""
        route = self.client.routes.get(topic)
        if route is None or not route.publish_info.ok:
            route = self.client.update_route(topic)
            if route is None:
                route = self.client.cluster.name_server.default_route(topic)
                if route is None:
                    return None
                self.client.use_route(route)
        known = self._infos.get(topic)
        if known is None or known[0] is not route:
            self._infos[topic] = (route, route.publish_info)
        return route if self._infos[topic][1].ok else None

    def _send(self, topic: str) -> Process:
        """DefaultMQProducerImpl.sendDefaultImpl: up to three tries within sendMsgTimeout, the next elsewhere."""
        world = self.client.world
        begin_ms, begin_first_ms = world.now_ms, world.now_ms
        send: Send | None = None
        while True:
            mq = self._select(topic, send)
            if send is not None:
                begin_ms = world.now_ms
                send = start_try(send, mq.broker_name, begin_ms)
                if send.result is not None:
                    return
            timeout_ms = self._options.send_msg_timeout_ms if send is None else send.timeout_ms
            delivery = self._deliver(mq, timeout_ms)
            yield from self.client.sleep(delivery.latency_ms)
            self._store(mq, delivery)
            if send is None and delivery.outcome.name == SEND_OK:
                self._attempted(mq, world.now_ms - begin_ms, delivery.outcome, False, True)
                return
            if send is None:
                send = start_try(start_send(self._options, begin_first_ms), mq.broker_name, begin_ms)
            send, update = end_try(send, delivery.outcome, world.now_ms)
            self._attempted(mq, update.current_latency_ms, delivery.outcome, update.isolation, update.reachable)
            if send.result is not None:
                return

    def _select(self, topic: str, send: Send | None) -> MessageQueue:
        """MQFaultStrategy.selectOneMessageQueue. Older releases may leave their list of queues changed."""
        route, info = self._infos[topic]
        if send is not None and send.resets_index and self._of.send_latency_enable:
            self._index = self.client.world.random.randrange(1 << 16)
        selection = select_one_message_queue(
            info,
            send.last_broker_name if send is not None else None,
            self._index,
            self._items,
            self.client.world.now_ms,
            self.client.client_version,
            fault_avoidance=self._of.send_latency_enable,
            which_item_worst=self._which_item_worst,
        )
        self._index = selection.next_index
        self._which_item_worst = selection.next_which_item_worst
        self._items = dict(selection.items) if selection.items is not self._items else self._items
        if selection.info is not info:
            self._infos[topic] = (route, selection.info)
        return selection.message_queue

    def _send_by_key(self, topic: str) -> Process:
        """sendSelectImpl: the key's queue, one try, no FaultItem."""
        world, queues = self.client.world, self._infos[topic][1].message_queues
        key = string_hash_code(f"order-{world.random.randrange(KEYS)}")
        mq = select_message_queue_by_hash(queues, key, self.client.client_version)
        if mq is not None:
            delivery = self._deliver(mq, self._options.send_msg_timeout_ms)
            yield from self.client.sleep(delivery.latency_ms)
            self._store(mq, delivery)
            self._say(mq, delivery.latency_ms, delivery.outcome, False, True)

    def _deliver(self, mq: MessageQueue, timeout_ms: int) -> Delivery:
        delivery = deliver(self.client, mq, timeout_ms - self._of.distance_ms)
        return replace(delivery, latency_ms=delivery.latency_ms + self._of.distance_ms)

    def _store(self, mq: MessageQueue, delivery: Delivery) -> None:
        if delivery.is_stored:
            self.client.cluster.name_server.create(mq.topic, mq.broker_name)
            self.client.cluster.store.queue(mq).append()

    def _attempted(self, mq: MessageQueue, latency_ms: int, outcome: Outcome, isolation: bool, reachable: bool) -> None:
        """MQFaultStrategy.updateFaultItem, and the event of it."""
        if self._of.send_latency_enable:
            name = mq.broker_name
            self._items[name] = update_fault_item(
                self._items.get(name),
                name,
                latency_ms,
                isolation,
                reachable,
                self.client.world.now_ms,
                self.client.client_version,
            )
        self._say(mq, latency_ms, outcome, isolation, reachable)

    def _say(self, mq: MessageQueue, latency_ms: int, outcome: Outcome, isolation: bool, reachable: bool) -> None:
        event: Event = {
            "cluster": self.client.world.cluster,
            "client_id": self.client.client_id,
            "client_version": self._of.client_version,
            "topic": mq.topic,
            "broker_name": mq.broker_name,
            "queue_id": mq.queue_id,
            "latency_ms": latency_ms,
            "isolation": isolation,
            "event_time_ms": self.client.world.env.now,
        }
        if self._has_reachable:
            event["reachable"] = reachable
        if outcome.name in SEND_STATUSES:
            event["send_status"] = outcome.name
        self.client.world.say(SEND_LATENCIES, event)

    def _detects(self) -> Process:
        """LatencyFaultToleranceImpl.startDetector."""
        client = self.client
        while client.is_running:
            yield from client.sleep(DETECT_PERIOD_MS)
            masters = {name: master for name in client.broker_ids if (master := client.master(name)) is not None}
            answered = {
                name
                for name, master in masters.items()
                if client.connections.reaches(master) and client.cluster.brokers[name].error != "RemotingException"
            }
            self._items, self._check_stamps_ms = detect_by_one_round(
                self._items, self._check_stamps_ms, client.world.now_ms, masters, answered
            )
