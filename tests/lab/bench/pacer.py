"""Live events from a process of their own, so that neither side waits for the other's interpreter.

`pace`: 1,000 events/s. A second has 700 send latencies, 250 pulls, 43 heartbeats, 5 routes, 2 clock events, and the
life of one pair of twins, whose duplicate ClientId makes an alert fire and resolve.

`pace_quiet`: 22 events/s of a healthy cluster. 16 groups of 2 clients at 2 brokers, 64 channels with a heartbeat each
30 s; 16 queues a group, each pulled every 15 s, as a long poll without messages is; a route each 30 s; 2 sends a
second; a clock event every 5 s.
"""

import heapq
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess

from conf.settings import Kafka
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.kafka_io.publisher import Publisher
from streaming.text.times import wall_ms
from tests.lab.bench.events import (
    BROKERS,
    CLUSTER,
    PRODUCERS,
    QUEUES_PER_BROKER,
    Event,
    clock,
    heartbeat,
    pull,
    route,
    send,
)
from udfs.rocketmq.fault import compute_not_available_duration
from udfs.rocketmq.version import parse_client_version

GROUPS = 16
SLOW_ONE_IN = 150
TWIN_GROUPS = 8
TWIN_BEATS = (
    (0.0, 40_001, False),
    (0.1, 40_002, False),
    (0.2, 40_001, False),
    (3.0, 40_001, True),
    (3.0, 40_002, True),
)
"""Seconds, port and whether it leaves: three heartbeats prove two channels with one ClientId, 3 s later both leave."""

Message = tuple[str, Event]
Make = Callable[[int, int], Message]
"""The message of a number, which counts up, at a time in epoch ms."""

Plan = Iterator[tuple[float, float, Make]]
"""(first, every, message), seconds."""


@contextmanager
def publishing(pace: Callable[[Kafka, float], None], kafka: Kafka, seconds: float) -> Iterator[BaseProcess]:
    """A process that publishes for `seconds`, at most until the context ends."""
    process = multiprocessing.get_context("spawn").Process(target=pace, args=(kafka, seconds), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.terminate()


@dataclass(frozen=True)
class Fleet:
    """GROUPS healthy groups, one topic each, whose `clients` push consumers pull by AVG; `is_busy`: with messages."""

    group: str
    topic: str
    network: str
    brokers: tuple[str, ...]
    queues_per_broker: int
    clients: int
    is_busy: bool

    @property
    def channels(self) -> int:
        return GROUPS * self.clients * len(self.brokers)

    @property
    def queues(self) -> int:
        return self.queues_per_broker * len(self.brokers)

    def route(self, number: int, now_ms: int) -> Message:
        return ROUTES, route(f"{self.topic}-{number % GROUPS}", self.brokers, self.queues_per_broker, now_ms)

    def heartbeat(self, number: int, now_ms: int) -> Message:
        """Each client of each group at each broker in turn."""
        broker_name = self.brokers[number % len(self.brokers)]
        number //= len(self.brokers)
        return HEARTBEATS, heartbeat(*self._member(number // self.clients, number % self.clients), broker_name, now_ms)

    def pull(self, number: int, now_ms: int) -> Message:
        """Each queue of each group in turn, by its owner."""
        queue = number % self.queues
        member = self._member(number // self.queues, queue * self.clients // self.queues)
        broker_name, queue_id = self.brokers[queue // self.queues_per_broker], queue % self.queues_per_broker
        return PULLS, pull(*member, broker_name, queue_id, now_ms, found_offset=number if self.is_busy else None)

    def clock(self, _: int, now_ms: int) -> Message:
        return CLOCKS, clock(CLUSTER, self.brokers, now_ms)

    def _member(self, group: int, client: int) -> tuple[str, str, str, str]:
        """Group, topic, ClientId, address."""
        group %= GROUPS
        host = f"{self.network}.{group}.{client}"
        return f"{self.group}-{group}", f"{self.topic}-{group}", f"{host}@{4000 + client}", f"{host}:{40_000 + client}"


LIVE = Fleet("group", "orders", "10.1", BROKERS, QUEUES_PER_BROKER, 4, is_busy=True)
QUIET = Fleet("quiet", "quiet", "10.2", BROKERS[:2], 8, 2, is_busy=False)


def pace(kafka: Kafka, seconds: float) -> None:
    _publish(kafka, LIVE, _live_plan(), seconds)


def pace_quiet(kafka: Kafka, seconds: float) -> None:
    _publish(kafka, QUIET, _quiet_plan(), seconds)


def quiet_events_per_second() -> float:
    return sum(1 / every for _, every, _ in _quiet_plan())


def _live_plan() -> Plan:
    rng = random.Random(1)
    sender = Sender(rng)
    second = [sender.send] * 700 + [LIVE.pull] * 250 + [LIVE.heartbeat] * 43 + [LIVE.route] * 5
    rng.shuffle(second)
    yield from _spread([LIVE.clock] * 2, 1.0)
    yield from _spread(second, 1.0)
    for delay, port, is_leaving in TWIN_BEATS:
        yield delay, 1.0, partial(_twin, port, is_leaving)


def _quiet_plan() -> Plan:
    yield from _spread([QUIET.clock], 5.0)
    yield from _spread([_quiet_send], 0.5)
    yield from _spread([QUIET.heartbeat] * QUIET.channels, 30.0)
    yield from _spread([QUIET.route] * GROUPS, 30.0)
    yield from _spread([QUIET.pull] * GROUPS * QUIET.queues, 15.0)


def _spread(makes: Sequence[Make], every: float) -> Plan:
    """Messages at even distances, all again after `every` seconds; those of one maker are numbered through."""
    total, seen = Counter(makes), Counter[Make]()
    for index, make in enumerate(makes):
        yield index / len(makes) * every, every, partial(_numbered, make, seen[make], total[make])
        seen[make] += 1


def _numbered(make: Make, first: int, step: int, number: int, now_ms: int) -> Message:
    return make(first + number * step, now_ms)


def _publish(kafka: Kafka, fleet: Fleet, plan: Plan, seconds: float) -> None:
    """Publish the fleet's routes and heartbeats, then each message of the plan when it is due.

    Ctrl-C is left to the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Publisher(kafka, max_unconfirmed=1 << 30) as publisher:
        for number in range(GROUPS):
            publisher.publish(*fleet.route(number, wall_ms()))
        for number in range(fleet.channels):
            publisher.publish(*fleet.heartbeat(number, wall_ms()))
        due = [(first, order, 0, every, make) for order, (first, every, make) in enumerate(plan)]
        heapq.heapify(due)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            while due[0][0] <= elapsed:
                at, order, number, every, make = due[0]
                publisher.publish(*make(number, wall_ms()))
                heapq.heapreplace(due, (at + every, order, number + 1, every, make))
            time.sleep(0.002)
        publisher.flush()


class Sender:
    """Producers that avoid a broker after a slow send."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._avoided_until: dict[tuple[int, str], int] = {}

    def send(self, number: int, now_ms: int) -> Message:
        producer = number % PRODUCERS
        client_version = "4.9.8" if producer % 2 == 0 else "5.5.0"
        willing = [name for name in BROKERS if self._avoided_until.get((producer, name), 0) <= now_ms]
        broker_name = self._rng.choice(willing or BROKERS)
        is_slow = self._rng.randrange(SLOW_ONE_IN) == 0
        latency_ms = self._rng.randrange(600, 900) if is_slow else self._rng.randrange(1, 40)
        if is_slow:
            away_ms = compute_not_available_duration(latency_ms, parse_client_version(client_version))
            self._avoided_until[producer, broker_name] = now_ms + away_ms + 200
        client_id, topic = f"10.0.{producer % 4}.{producer}@{7000 + producer}", f"orders-{producer % GROUPS}"
        queue_id = number % QUEUES_PER_BROKER
        return SEND_LATENCIES, send(client_id, client_version, topic, broker_name, queue_id, latency_ms, now_ms)


def _quiet_send(number: int, now_ms: int) -> Message:
    broker_name = QUIET.brokers[number % len(QUIET.brokers)]
    return SEND_LATENCIES, send("10.3.0.1@7000", "5.5.0", "quiet-0", broker_name, 0, 5, now_ms)


def _twin(port: int, is_leaving: bool, number: int, now_ms: int) -> Message:
    """A channel of the pair that starts in second `number`."""
    group = f"twins-{number % TWIN_GROUPS}"
    event = heartbeat(group, "orders-0", "10.9.0.1@DEFAULT", f"10.9.0.1:{port}", BROKERS[0], now_ms)
    return HEARTBEATS, event | {"leaving": is_leaving}
