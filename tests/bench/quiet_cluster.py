"""A healthy cluster on which hardly anything happens: what goes on is that clients say they are there.

16 groups of 2 clients at 2 brokers, 64 channels with a heartbeat each 30 s; 16 queues a group, each pulled every 15 s,
as a long poll without messages is; a route each 30 s; 2 sends a second; a clock event every 5 s. 22 events/s.
"""

import heapq
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from conf.settings import Kafka
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.kafka_io.publisher import Publisher
from tests.bench.events import BROKERS, CLUSTER
from tests.bench.pacer import clock, heartbeat

GROUPS, CLIENTS, QUEUES_PER_BROKER = 16, 2, 8
QUIET_BROKERS = BROKERS[:2]
HEARTBEAT_SECONDS, ROUTE_SECONDS, PULL_SECONDS, SEND_SECONDS, TICK_SECONDS = 30.0, 30.0, 15.0, 0.5, 5.0

Event = tuple[str, dict[str, Any]]
Make = Callable[[int], Event]
"""Topic and event of a moment, epoch ms."""


def pace_quiet(kafka: Kafka, seconds: float) -> None:
    """Publish for `seconds`. A Ctrl-C is whoever started us to decide on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Publisher(kafka, max_unconfirmed=1 << 30) as publisher:
        for number in range(GROUPS):
            publisher.publish(*_route(number, _now_ms()))
        for group, client, broker_name in _channels():
            publisher.publish(*_heartbeat(group, client, broker_name, _now_ms()))
        shard_index = [(at, number, every, make) for number, (at, every, make) in enumerate(_plan())]
        heapq.heapify(shard_index)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            while shard_index[0][0] <= elapsed:
                at, number, every, make = shard_index[0]
                publisher.publish(*make(_now_ms()))
                heapq.heapreplace(shard_index, (at + every, number, every, make))
            time.sleep(0.01)
        publisher.flush()


def events_per_second() -> float:
    return sum(1 / every for _, every, _ in _plan())


def _plan() -> Iterator[tuple[float, float, Make]]:
    """(first, every, event), seconds; spread evenly, as clients that were started one after the other."""
    yield 0.0, TICK_SECONDS, lambda now_ms: (CLOCKS, clock(CLUSTER, QUIET_BROKERS, now_ms))
    yield 0.1, SEND_SECONDS, _send
    channels = list(_channels())
    for number, place in enumerate(channels):
        yield number / len(channels) * HEARTBEAT_SECONDS, HEARTBEAT_SECONDS, _heartbeats_of(*place)
    for group in range(GROUPS):
        yield group / GROUPS * ROUTE_SECONDS, ROUTE_SECONDS, _routes_of(group)
    queues = [(group, queue) for group in range(GROUPS) for queue in range(QUEUES_PER_BROKER * len(QUIET_BROKERS))]
    for number, (group, queue) in enumerate(queues):
        yield number / len(queues) * PULL_SECONDS, PULL_SECONDS, _pulls_of(group, queue)


def _channels() -> Iterator[tuple[int, int, str]]:
    for group in range(GROUPS):
        for client in range(CLIENTS):
            for broker_name in QUIET_BROKERS:
                yield group, client, broker_name


def _heartbeats_of(group: int, client: int, broker_name: str) -> Make:
    return lambda now_ms: _heartbeat(group, client, broker_name, now_ms)


def _routes_of(group: int) -> Make:
    return lambda now_ms: _route(group, now_ms)


def _pulls_of(group: int, queue: int) -> Make:
    return lambda now_ms: _pull(group, queue, now_ms)


def _heartbeat(group: int, client: int, broker_name: str, now_ms: int) -> Event:
    client_id = f"10.2.{group}.{client}@{4000 + client}"
    return HEARTBEATS, heartbeat(f"quiet-{group}", f"quiet-{group}", client_id, 40_000 + client, broker_name, now_ms)


def _route(group: int, now_ms: int) -> Event:
    nums = {"read_queue_nums": QUEUES_PER_BROKER, "write_queue_nums": QUEUES_PER_BROKER, "perm": 6}
    return ROUTES, {
        "cluster": CLUSTER,
        "topic": f"quiet-{group}",
        "queues": [{"broker_name": name, **nums} for name in QUIET_BROKERS],
        "brokers": [{"broker_name": name, "broker_ids": [0]} for name in QUIET_BROKERS],
        "event_time_ms": now_ms,
    }


def _pull(group: int, queue: int, now_ms: int) -> Event:
    """By the queue's owner under AVG; nothing new to consume."""
    client = queue * CLIENTS // (QUEUES_PER_BROKER * len(QUIET_BROKERS))
    return PULLS, {
        "cluster": CLUSTER,
        "broker_name": QUIET_BROKERS[queue // QUEUES_PER_BROKER],
        "broker_id": 0,
        "topic": f"quiet-{group}",
        "queue_id": queue % QUEUES_PER_BROKER,
        "consumer_group": f"quiet-{group}",
        "client_addr": f"10.2.{group}.{client}:{40_000 + client}",
        "client_id": f"10.2.{group}.{client}@{4000 + client}",
        "pull_offset": 1_000,
        "commit_offset": 1_000,
        "max_offset": 1_000,
        "pull_status": "NO_NEW_MSG",
        "event_time_ms": now_ms,
    }


def _send(now_ms: int) -> Event:
    return SEND_LATENCIES, {
        "cluster": CLUSTER,
        "client_id": "10.3.0.1@7000",
        "client_version": "5.5.0",
        "topic": "quiet-0",
        "broker_name": QUIET_BROKERS[now_ms // 500 % len(QUIET_BROKERS)],
        "queue_id": 0,
        "latency_ms": 5,
        "isolation": False,
        "send_status": "SEND_OK",
        "event_time_ms": now_ms,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
