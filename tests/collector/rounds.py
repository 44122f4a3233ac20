"""Rounds of a collector without RocketMQ: readings of brokers and clients, and an admin that fails as a test sets."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any

import msgspec

from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.collector.reading import CLIENT_INNER_PRODUCER, BrokerReading, Reading
from streaming.collector.rocketmq_admin import RequestRate, RocketMQAdmin
from streaming.collector.rocketmq_answers import (
    Broker,
    Connection,
    ConsumerConnection,
    OffsetWrapper,
    ProcessQueue,
    RunningInfo,
    Subscription,
    TopicRoute,
)
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_events import clock_event, compute_round
from streaming.collector.round_memory import Memory
from udfs.rocketmq.own_names import REVIVE_GROUP
from udfs.rocketmq.route import QueueData

NOW = 1_790_000_000_000
GROUP, TOPIC, TWIN = "orders_group", "orders", "10.0.0.1@same"
BROKER_A, BROKER_B = Broker("broker-a", 0, "10.0.1.1:10911"), Broker("broker-b", 0, "10.0.1.2:10911")
ORDERS = Subscription(TOPIC, "*", NOW - 90_000, "TAG")


def connection(client_addr: str, client_id: str = TWIN, heartbeat_ms: int | None = None) -> Connection:
    return Connection(client_id, client_addr, "JAVA", "5.5.0", heartbeat_ms)


def view(broker: Broker, *channels: tuple[str, str, int], group: str = GROUP, **producers: Any) -> BrokerReading:
    """A broker with one group whose members are (client_id, client_addr, last heartbeat)."""
    members = tuple(connection(addr, client_id) for client_id, addr, _ in channels)
    consumers = ConsumerConnection(
        group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (ORDERS,), members
    )
    inner = tuple(connection(addr, client_id, at) for client_id, addr, at in channels)
    return BrokerReading(broker, (consumers,) if members else (), {CLIENT_INNER_PRODUCER: inner, **producers})


def reading(*views: BrokerReading, **fields: Any) -> Reading:
    brokers = {each.broker.broker_name: each for each in views}
    return Reading(**{"cluster": "c", "brokers_asked": tuple(brokers), "brokers": brokers, **fields})


def process_queue(queue_id: int, at: int, *, broker_name: str = "broker-a", **fields: Any) -> ProcessQueue:
    queue = ProcessQueue(TOPIC, broker_name, queue_id, -1, 0, 0, at, is_dropped=False)
    return replace(queue, **fields)


def running(*queues: ProcessQueue, strategy: str | None = "AVG") -> RunningInfo:
    return RunningInfo(strategy, None, None, (ORDERS,), queues)


def of(topic: str, events: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events of one topic; each is one the contract accepts."""
    for name, event in events:
        assert decode(name, msgspec.json.encode(event), event["event_time_ms"])[1] == []
    return [event for name, event in events if name == topic]


def events_of(topic: str, *readings: Reading, step_ms: int = 1_000) -> list[list[dict[str, Any]]]:
    """The events of one topic, round by round; the first round is at NOW."""
    memory, found = Memory(), []
    for number, each in enumerate(readings):
        events, memory = compute_round(memory, each, NOW + number * step_ms)
        found.append(of(topic, events))
    return found


SOLO = ("10.0.0.2@solo", "10.0.0.2:41", NOW - 5_000)
TWINS = ((TWIN, "10.0.0.1:51", NOW - 4_000), (TWIN, "10.0.0.1:52", NOW - 70_000))


ROUTE = TopicRoute(TOPIC, (QueueData("broker-a", 4, 4, 6),), (("broker-a", (0,)),), order_topic=False)


def routed(route: TopicRoute | None = ROUTE, **fields: Any) -> Reading:
    routes = (route,) if route else ()
    topics = frozenset(each.topic for each in routes)
    return reading(**{"routes": routes, "topics": topics, "registered": frozenset(["broker-a"]), **fields})


SOURCE: Mapping[str, Any] = {"collector": "host/ns:9876", "interval_ms": 10_000, "groups": []}


def round_clock(
    reading: Reading, at: int, before: Memory | None = None, source: Mapping[str, Any] = SOURCE
) -> dict[str, Any]:
    """The clock event of a round that followed those `before` remembers."""
    known = before or Memory()
    _, after = compute_round(known, reading, at)
    (clock,) = of(CLOCKS, [clock_event(source, reading, known, after, at)])
    return clock


def refused(code: int = 16) -> RocketMQError:
    return RocketMQError("MQBrokerException: no permission", code)


def timed_out() -> RocketMQError:
    return RocketMQError("RemotingTimeoutException", is_timeout=True)


class Clock:
    """time.monotonic, moved on by the test, and by real time while something is waited for."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


class FakeAdmin(RocketMQAdmin):
    """Two brokers and one client; `fail` takes answers away. Every question is counted in `asked`."""

    client_version = "5.5.0"
    client_ids = frozenset(["us"])

    def __init__(self) -> None:  # without a JVM
        self.running = running(process_queue(0, NOW))
        self.has_name_server = True
        self.dead: set[str] = set()
        self.groups = {GROUP: True}
        self.revive_logs: set[str] = set()
        self.routes = [ROUTE]
        self.asked: Counter[tuple[str, ...]] = Counter()
        self.rate = RequestRate(1_000_000)
        self._failures: dict[tuple[str, ...], Iterator[RocketMQError]] = {}

    def fail(self, error: RocketMQError | None, *question: str, times: int | None = None) -> None:
        """The question (the method's name, the broker's, the group's, ...) ends so, always or so many times."""
        self._failures[question] = iter(()) if error is None else repeat(error, times) if times else repeat(error)

    def read_clusters(self) -> dict[str, tuple[Broker, ...]]:
        if not self.has_name_server:
            raise RocketMQError("RemotingConnectException")
        return {"c": tuple(b for b in (BROKER_A, BROKER_B) if b.broker_name not in self.dead)}

    def ask_name_server(self, name_server: str) -> None:
        self._ask("ask_name_server", name_server)
        if not self.has_name_server:
            raise RocketMQError("RemotingConnectException")

    def read_topics(self) -> list[str]:
        return [*(route.topic for route in self.routes), "balancewatch_probe"]

    def read_route(self, topic: str) -> TopicRoute | None:
        self._ask("read_route", topic)
        return next((route for route in self.routes if route.topic == topic), None)

    def read_groups(self, broker: Broker) -> dict[str, bool]:
        self._ask("read_groups", broker.broker_name)
        return self.groups

    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None:
        self._ask("read_consumer_connection", broker.broker_name, group)
        return view(broker, SOLO, group=group).groups[0]

    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None:
        self._ask("read_producers", broker.broker_name)
        return dict(view(broker, SOLO).producers)

    def read_running_info(self, broker: Broker, group: str, client_id: str) -> RunningInfo:
        self._ask("read_running_info", broker.broker_name, group)
        return self.running

    def read_offsets(self, broker: Broker, group: str) -> dict[tuple[str, str, int], OffsetWrapper]:
        self._ask("read_offsets", broker.broker_name, group)
        if group == REVIVE_GROUP:
            log = ("rmq_sys_REVIVE_LOG_c", broker.broker_name, 0)
            return {log: OffsetWrapper(1, 0, -1)} if broker.broker_name in self.revive_logs else {}
        return {(TOPIC, broker.broker_name, 0): OffsetWrapper(1, 1, 1)}

    def start_producer(self, group: str) -> str:
        return "us"

    def prepare_send(self, broker: Broker, topic: str) -> bool:
        return True

    def send(self, broker_name: str, topic: str, body: bytes) -> tuple[str, float]:
        if broker_name in self.dead:
            raise RocketMQError("RemotingConnectException")
        return "SEND_OK", 0.004

    def _ask(self, *question: str) -> None:
        self.asked[question] += 1
        if question[1] in self.dead:
            raise RocketMQError("RemotingConnectException")
        if error := next(self._failures.get(question, iter(())), None):
            raise error
