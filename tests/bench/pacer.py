"""Live events at a steady rate from a process of its own, so that neither side waits for the other's interpreter.

A second of it: 700 send latencies, 250 pulls, 43 heartbeats, 5 routes, 2 clock events, and the life of one pair of
twins, whose duplicate ClientId makes an alert fire and resolve.
"""

import heapq
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from conf.settings import Kafka
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.kafka_io.publisher import Publisher
from tests.bench.events import BROKERS, CLUSTER, PRODUCERS, QUEUES, QUEUES_PER_BROKER
from udfs.rocketmq.fault import compute_not_available_duration
from udfs.rocketmq.version import parse_client_version

KINDS = {SEND_LATENCIES: 700, PULLS: 250, HEARTBEATS: 43, ROUTES: 5}
"""Events a second, 2 clock events apart."""

GROUPS, CLIENTS = 16, 4
SLOW_ONE_IN = 150
TICK_SECONDS = 0.5
TWIN_GROUPS = 8

Publish = Callable[[str, dict[str, Any]], None]


def pace(kafka: Kafka, seconds: float, seed: int = 1) -> None:
    """Publish for `seconds`, each event at its own moment. A Ctrl-C is whoever started us to decide on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Publisher(kafka, max_unconfirmed=1 << 30) as publisher:
        Pacer(publisher.publish, seed).run(seconds)
        publisher.flush()


class Pacer:
    """The modelled cluster: producers that avoid slow brokers, groups that are well, and twins that come and go."""

    def __init__(self, publish: Publish, seed: int) -> None:
        self._publish = publish
        self._rng = random.Random(seed)
        self._avoided_until: dict[tuple[int, str], int] = {}
        self._counts = dict.fromkeys(KINDS, 0)
        self._shard_index: list[tuple[float, int, Callable[[int], None]]] = []
        self._order = 0

    def run(self, seconds: float) -> None:
        second = [kind for kind, count in KINDS.items() for _ in range(count)]
        self._rng.shuffle(second)
        for number in range(GROUPS):
            self._send_route(number, _now_ms())
        for number in range(GROUPS * CLIENTS * len(BROKERS)):
            self._send_heartbeat(number, _now_ms())
        began, sent = time.monotonic(), 0
        self._at(0.0, lambda now_ms: self._tick(0.0, now_ms))
        self._at(0.0, lambda now_ms: self._start_twins(0, now_ms))
        while (elapsed := time.monotonic() - began) < seconds:
            while self._shard_index and self._shard_index[0][0] <= elapsed:
                heapq.heappop(self._shard_index)[2](_now_ms())
            while sent < elapsed * len(second):
                self._send(second[sent % len(second)], _now_ms())
                sent += 1
            time.sleep(0.002)

    def _at(self, seconds: float, act: Callable[[int], None]) -> None:
        self._order += 1
        heapq.heappush(self._shard_index, (seconds, self._order, act))

    def _tick(self, at: float, now_ms: int) -> None:
        self._publish(CLOCKS, clock(CLUSTER, BROKERS, now_ms))
        self._at(at + TICK_SECONDS, lambda later_ms: self._tick(at + TICK_SECONDS, later_ms))

    def _start_twins(self, number: int, now_ms: int) -> None:
        """Each second two channels with one ClientId: three heartbeats prove them, and 3 s later both are gone."""
        group, at = f"twins-{number % TWIN_GROUPS}", float(number)
        self._publish(HEARTBEATS, heartbeat(group, "orders-0", "10.9.0.1@DEFAULT", 40_001, BROKERS[0], now_ms))
        for delay, port, is_leaving in ((0.1, 40_002, False), (0.2, 40_001, False), (3.0, 40_001, True)):
            self._at(at + delay, self._twin(group, port, is_leaving))
        self._at(at + 3.0, self._twin(group, 40_002, True))
        self._at(at + 1.0, lambda later_ms: self._start_twins(number + 1, later_ms))

    def _twin(self, group: str, port: int, is_leaving: bool) -> Callable[[int], None]:
        def act(now_ms: int) -> None:
            event = heartbeat(group, "orders-0", "10.9.0.1@DEFAULT", port, BROKERS[0], now_ms)
            self._publish(HEARTBEATS, event | {"leaving": is_leaving})

        return act

    def _send(self, kind: str, now_ms: int) -> None:
        number = self._counts[kind]
        self._counts[kind] += 1
        if kind == SEND_LATENCIES:
            self._send_latency(number, now_ms)
        elif kind == PULLS:
            self._send_pull(number, now_ms)
        elif kind == HEARTBEATS:
            self._send_heartbeat(number, now_ms)
        else:
            self._send_route(number, now_ms)

    def _send_latency(self, number: int, now_ms: int) -> None:
        producer = number % PRODUCERS
        client_version = "4.9.8" if producer % 2 == 0 else "5.5.0"
        willing = [name for name in BROKERS if self._avoided_until.get((producer, name), 0) <= now_ms]
        broker_name = self._rng.choice(willing or BROKERS)
        is_slow = self._rng.randrange(SLOW_ONE_IN) == 0
        latency_ms = self._rng.randrange(600, 900) if is_slow else self._rng.randrange(1, 40)
        if is_slow:
            away_ms = compute_not_available_duration(latency_ms, parse_client_version(client_version))
            self._avoided_until[producer, broker_name] = now_ms + away_ms + 200
        event = {
            "cluster": CLUSTER,
            "client_id": f"10.0.{producer % 4}.{producer}@{7000 + producer}",
            "client_version": client_version,
            "topic": f"orders-{producer % GROUPS}",
            "broker_name": broker_name,
            "queue_id": number % QUEUES_PER_BROKER,
            "latency_ms": latency_ms,
            "isolation": False,
            "send_status": "SEND_OK",
            "event_time_ms": now_ms,
        }
        self._publish(SEND_LATENCIES, event)

    def _send_pull(self, number: int, now_ms: int) -> None:
        """Each queue of each group in turn, by its owner under AVG."""
        queue, group = number % QUEUES, number // QUEUES % GROUPS
        client = queue * CLIENTS // QUEUES
        event = {
            "cluster": CLUSTER,
            "broker_name": BROKERS[queue // QUEUES_PER_BROKER],
            "broker_id": 0,
            "topic": f"orders-{group}",
            "queue_id": queue % QUEUES_PER_BROKER,
            "consumer_group": f"group-{group}",
            "client_addr": f"10.1.{group}.{client}:{40_000 + client}",
            "client_id": f"10.1.{group}.{client}@{4000 + client}",
            "pull_offset": number,
            "commit_offset": number,
            "max_offset": number,
            "pull_status": "FOUND",
            "event_time_ms": now_ms,
        }
        self._publish(PULLS, event)

    def _send_heartbeat(self, number: int, now_ms: int) -> None:
        """Each client of each group at each broker in turn."""
        broker_name = BROKERS[number % len(BROKERS)]
        client, group = number // len(BROKERS) % CLIENTS, number // len(BROKERS) // CLIENTS % GROUPS
        event = heartbeat(
            f"group-{group}",
            f"orders-{group}",
            f"10.1.{group}.{client}@{4000 + client}",
            40_000 + client,
            broker_name,
            now_ms,
        )
        self._publish(HEARTBEATS, event)

    def _send_route(self, number: int, now_ms: int) -> None:
        queues = [
            {"broker_name": name, "read_queue_nums": nums, "write_queue_nums": nums, "perm": 6}
            for name, nums in zip(BROKERS, [QUEUES_PER_BROKER] * len(BROKERS), strict=True)
        ]
        event = {
            "cluster": CLUSTER,
            "topic": f"orders-{number % GROUPS}",
            "queues": queues,
            "brokers": [{"broker_name": name, "broker_ids": [0]} for name in BROKERS],
            "event_time_ms": now_ms,
        }
        self._publish(ROUTES, event)


def clock(cluster: str, brokers: tuple[str, ...], now_ms: int) -> dict[str, Any]:
    """A tick of the bench, so that the service sends none itself."""
    return {
        "cluster": cluster,
        "source": "bench",
        "brokers_asked": list(brokers),
        "brokers_answered": list(brokers),
        "event_time_ms": now_ms,
    }


def heartbeat(
    consumer_group: str, topic: str, client_id: str, port: int, broker_name: str, now_ms: int
) -> dict[str, Any]:
    """What a broker received of a push consumer of one topic."""
    subscription = {"topic": topic, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}
    consumer = {
        "consumer_group": consumer_group,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "strategy": "AVG",
        "subscriptions": [subscription],
    }
    return {
        "cluster": CLUSTER,
        "broker_name": broker_name,
        "client_id": client_id,
        "client_addr": f"{client_id.partition('@')[0]}:{port}",
        "language": "JAVA",
        "client_version": "5.5.0",
        "producer_groups": [],
        "consumers": [consumer],
        "event_time_ms": now_ms,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
