"""A producer with MQFaultStrategy: it sends, records the latency of each broker, and avoids slow brokers."""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.events import SEND_LATENCIES
from streaming.simulator import scenario as parts
from streaming.simulator.client import Client
from streaming.simulator.name_server import TopicRoute
from streaming.simulator.world import Event, Process
from udfs.rocketmq.fault import FaultItem, only_extends, update_fault_item
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import PERM_WRITE, TopicPublishInfo
from udfs.rocketmq.selection import select_one_message_queue
from udfs.rocketmq.send import (
    MQ_BROKER_EXCEPTION,
    MQ_CLIENT_EXCEPTION,
    SEND_STATUSES,
    Outcome,
    Send,
    SendOptions,
    end_try,
    start_send,
    start_try,
)
from udfs.rocketmq.thread_local_index import absolute, remainder, wrap
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

KEYS = 10_000
"""Number of ordering keys."""
SYSTEM_ERROR, NO_PERMISSION = 1, 16
DETECT_PERIOD_MS = 3_000
"""startDetector: a round every three seconds, the first after three."""
DETECT_INTERVAL_MS = 2_000
"""ClientConfig.detectInterval: least interval between requests to one broker."""


def detect_by_one_round(
    items: Mapping[str, FaultItem],
    check_stamps_ms: Mapping[str, int],
    now_ms: int,
    addresses: Collection[str],
    answered: Collection[str],
) -> tuple[dict[str, FaultItem], dict[str, int]]:
    """Run LatencyFaultToleranceImpl.detectByOneRound (5.1.4+); return the FaultItems and check stamps.

    Success makes an item reachable; failure never makes it unreachable. `addresses`: brokers with a known master; other
    items are dropped. `answered`: those that answered in time.
    """
    asked = {name for name in items if now_ms >= check_stamps_ms.get(name, 0)}
    kept = {name: item for name, item in items.items() if name in addresses or name not in asked}
    detected = {
        name: replace(item, reachable=True) if name in asked and name in answered else item
        for name, item in kept.items()
    }
    asked_again_ms = now_ms + DETECT_INTERVAL_MS
    return detected, {name: asked_again_ms if name in asked else check_stamps_ms.get(name, 0) for name in kept}


def string_hash_code(text: str) -> int:
    """Java's String.hashCode, over UTF-16 units: the hash of the usual ordering key."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    return wrap(code)


def select_message_queue_by_hash(
    message_queues: Sequence[MessageQueue], hash_code: int, client_version: ClientVersion | str = NEWEST
) -> MessageQueue | None:
    """SelectMessageQueueByHash: the queue of a key. None where it throws, which sends nothing: no queue in the list,
    or up to 4.7.1 the hash code Integer.MIN_VALUE, unless that divides.
    """
    if not message_queues:
        return None
    size = len(message_queues)
    if release_of(client_version) >= (4, 8, 0):
        return message_queues[abs(remainder(hash_code, size))]
    place = remainder(absolute(hash_code), size)
    return message_queues[place] if place >= 0 else None


class Producer:
    """A thread that sends to its topics in turn, synchronously."""

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
        self.client.world.env.process(self._sends())
        if self._of.start_detector_enable and self._has_reachable:
            self.client.world.env.process(self.client.repeat(DETECT_PERIOD_MS, DETECT_PERIOD_MS, self._detect))

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
        """tryToFindTopicPublishInfo: return the known route, the NameServer's or TBW102's; None: the send fails."""
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
        """DefaultMQProducerImpl.sendDefaultImpl: up to three tries within sendMsgTimeout, each at another broker."""
        world = self.client.world
        send = start_send(self._options, world.now_ms)
        while True:
            mq = self._select(topic, send)
            send = start_try(send, mq.broker_name, world.now_ms)
            if send.result is not None:
                return
            outcome, _ = yield from self._deliver(mq, send.timeout_ms)
            send, update = end_try(send, outcome, world.now_ms)
            self._attempted(mq, update.current_latency_ms, outcome, update.isolation, update.reachable)
            if send.result is not None:
                return

    def _select(self, topic: str, send: Send) -> MessageQueue:
        """Run MQFaultStrategy.selectOneMessageQueue. Older releases may change their list of queues."""
        route, info = self._infos[topic]
        if send.resets_index and self._of.send_latency_enable:
            self._index = self.client.world.random.randrange(1 << 16)
        selection = select_one_message_queue(
            info,
            send.last_broker_name,
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
        """DefaultMQProducerImpl.sendSelectImpl: the key's queue, one try, no FaultItem."""
        world, queues = self.client.world, self._infos[topic][1].message_queues
        key = string_hash_code(f"order-{world.random.randrange(KEYS)}")
        mq = select_message_queue_by_hash(queues, key, self.client.client_version)
        if mq is not None:
            outcome, latency_ms = yield from self._deliver(mq, self._options.send_msg_timeout_ms)
            self._emit(mq, latency_ms, outcome, False, True)

    def _deliver(self, mq: MessageQueue, timeout_ms: int) -> Generator[Any, Any, tuple[Outcome, int]]:
        """Send a message, and return its outcome and latency when it is answered; then it is stored.

        It may be stored although the producer timed out.
        """
        distance_ms, cluster = self._of.distance_ms, self.client.cluster
        outcome, latency_ms, is_stored = self._answer(mq, timeout_ms - distance_ms)
        yield from self.client.sleep(latency_ms + distance_ms)
        if is_stored:
            cluster.name_server.create(mq.topic, mq.broker_name)
            cluster.store.queue(mq).append()
        return outcome, latency_ms + distance_ms

    def _answer(self, mq: MessageQueue, timeout_ms: int) -> tuple[Outcome, int, bool]:
        """Return the outcome of a request sent now, its latency, and whether the message is stored."""
        client, world, cluster = self.client, self.client.world, self.client.cluster
        broker, master = cluster.brokers[mq.broker_name], client.master(mq.broker_name)
        if master is None:
            return Outcome(MQ_CLIENT_EXCEPTION), 0, False
        if mq.broker_name in client.cut or master.is_lost or broker.error == "RemotingException":
            return Outcome("RemotingTimeoutException"), timeout_ms + 1, False
        if not master.is_up:
            return Outcome("RemotingConnectException"), world.network_ms(), False
        data = cluster.name_server.table[mq.topic].get(mq.broker_name)
        if data is not None and not data.perm & PERM_WRITE:
            return Outcome(MQ_BROKER_EXCEPTION, NO_PERMISSION), world.network_ms(), False
        status, latency_ms = broker.put()
        if broker.error is not None:
            return Outcome(MQ_BROKER_EXCEPTION, SYSTEM_ERROR), min(latency_ms, timeout_ms), False
        is_late = latency_ms > timeout_ms
        return Outcome("RemotingTimeoutException" if is_late else status), min(latency_ms, timeout_ms + 1), True

    def _attempted(self, mq: MessageQueue, latency_ms: int, outcome: Outcome, isolation: bool, reachable: bool) -> None:
        """Run MQFaultStrategy.updateFaultItem and emit the event."""
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
        self._emit(mq, latency_ms, outcome, isolation, reachable)

    def _emit(self, mq: MessageQueue, latency_ms: int, outcome: Outcome, isolation: bool, reachable: bool) -> None:
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
        self.client.world.emit(SEND_LATENCIES, event)

    def _detect(self) -> None:
        """Run a round of LatencyFaultToleranceImpl.startDetector."""
        client = self.client
        masters = {name: master for name in client.broker_ids if (master := client.master(name)) is not None}
        answered = {
            name
            for name, master in masters.items()
            if client.reaches(master) and client.cluster.brokers[name].error != "RemotingException"
        }
        self._items, self._check_stamps_ms = detect_by_one_round(
            self._items, self._check_stamps_ms, client.world.now_ms, masters, answered
        )
