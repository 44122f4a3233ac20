"""Events of the benches: a fleet of healthy groups, and producers that avoid slow brokers.

`python -m tests.lab.bench.events GROUPS` works through three batches that touch a fleet, by the query's code without
Spark and Kafka: for a profiler.
"""

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from conf.settings import Kafka
from schemas.events import CLOCKS, ROUTES, key_of
from tests.queries import events
from tests.support.engine import Stream
from udfs.rocketmq.fault import compute_not_available_duration
from udfs.rocketmq.version import parse_client_version

CLUSTER = "bench"
BROKERS = ("broker-0", "broker-1", "broker-2", "broker-3")
"""Two of them to each of the two partitions, by Kafka's hash of the message key."""

PRODUCERS = 100
QUEUES_PER_BROKER = 4
CHUNK = 100_000

Event = dict[str, Any]
Message = tuple[str, Event]


def clock(cluster: str, brokers: Sequence[str], at_ms: int) -> Message:
    """A clock event of the bench, so that the service sends none itself."""
    polled = {"brokers_asked": list(brokers), "brokers_answered": list(brokers)}
    return CLOCKS, {"cluster": cluster, "source": "bench", **polled, "event_time_ms": at_ms}


def heartbeat(group: str, topic: str, client_id: str, client_addr: str, broker_name: str, at_ms: int) -> Message:
    """A push consumer of one topic, as a broker knows it, that allocates by AVG."""
    kafka_topic, event = events.beat(0, client_id, client_addr, group, topic, broker_name=broker_name)
    event["consumers"][0]["strategy"] = "AVG"
    return kafka_topic, event | {"cluster": CLUSTER, "client_version": "5.5.0", "event_time_ms": at_ms}


def send(client_id: str, version: str, topic: str, broker_name: str, queue_id: int, ms: int, at_ms: int) -> Message:
    """An attempt that took `ms`."""
    kafka_topic, event = events.send(0, client_id, broker_name, client_version=version, topic=topic, latency_ms=ms)
    return kafka_topic, event | {
        "cluster": CLUSTER,
        "queue_id": queue_id,
        "send_status": "SEND_OK",
        "event_time_ms": at_ms,
    }


@dataclass(frozen=True)
class Fleet:
    """Healthy groups whose `clients` push consumers pull by AVG; group N consumes topic N modulo `topics`.

    `is_busy`: each pull finds a message.
    """

    name: str
    topic: str
    network: str
    brokers: tuple[str, ...]
    queues_per_broker: int
    clients: int
    topics: int
    is_busy: bool = False

    @property
    def queues(self) -> int:
        """Of a group."""
        return self.queues_per_broker * len(self.brokers)

    @cached_property
    def owners(self) -> list[int]:
        """The client of each queue; the ClientIds of a group sort by number."""
        shares = [self.queues // self.clients + (number < self.queues % self.clients) for number in range(self.clients)]
        return [client for client, share in enumerate(shares) for _ in range(share)]

    def route(self, number: int, at_ms: int) -> Message:
        """The topic of a number."""
        nums = {"read_queue_nums": self.queues_per_broker, "write_queue_nums": self.queues_per_broker, "perm": 6}
        return ROUTES, {
            "cluster": CLUSTER,
            "topic": f"{self.topic}-{number % self.topics}",
            "queues": [{"broker_name": name, **nums} for name in self.brokers],
            "brokers": [{"broker_name": name, "broker_ids": [0]} for name in self.brokers],
            "event_time_ms": at_ms,
        }

    def heartbeat(self, group: int, client: int, broker_name: str, at_ms: int) -> Message:
        return heartbeat(*self._member(group, client), broker_name, at_ms)

    def pull(self, group: int, queue: int, offset: int, at_ms: int) -> Message:
        """A pull of one of the group's queues by its owner, at `offset` where messages are found."""
        consumer_group, topic, client_id, client_addr = self._member(group, self.owners[queue])
        broker, queue_id = divmod(queue, self.queues_per_broker)
        found, offset = ("FOUND", offset) if self.is_busy else ("NO_NEW_MSG", 1_000)
        kafka_topic, event = events.pull(0, queue_id, client_id, client_addr, consumer_group, topic=topic)
        event |= {"cluster": CLUSTER, "broker_name": self.brokers[broker], "event_time_ms": at_ms}
        offsets = dict.fromkeys(("pull_offset", "commit_offset", "max_offset"), offset)
        return kafka_topic, event | offsets | {"pull_status": found}

    def touch(self, groups: Iterable[int], at_ms: int) -> Iterator[Message]:
        """Yield the routes, then a heartbeat of each client at one broker and a pull of each queue of these groups."""
        yield from (self.route(number, at_ms) for number in range(self.topics))
        for group in groups:
            for client in range(self.clients):
                yield self.heartbeat(group, client, self.brokers[0], at_ms)
            for queue in range(self.queues):
                yield self.pull(group, queue, 0, at_ms)

    def _member(self, group: int, client: int) -> tuple[str, str, str, str]:
        """Group, topic, ClientId, address."""
        host = f"{self.network}.{group // 250}.{group % 250}"
        name, topic = f"{self.name}-{group}", f"{self.topic}-{group % self.topics}"
        return name, topic, f"{host}@{4_000 + client}", f"{host}:{40_000 + client}"


SMALL = Fleet("group", "orders", "10.1", BROKERS, QUEUES_PER_BROKER, 5, 1)
LARGE = Fleet("large", "delivery_log", "10.2", BROKERS, 1_024, 500, 1)


class Sender:
    """Producers that avoid a broker after a slow send. Half of them follow the latency table up to 5.1.3."""

    def __init__(self, seed: int, slow_one_in: int) -> None:
        self._random, self._slow_one_in = random.Random(seed), slow_one_in
        self._avoided_until: dict[tuple[int, str], int] = {}

    def send(self, number: int, at_ms: int) -> Message:
        producer, draw = number % PRODUCERS, self._random
        client_version = "4.9.8" if producer % 2 == 0 else "5.5.0"
        willing = [name for name in BROKERS if self._avoided_until.get((producer, name), 0) <= at_ms]
        broker_name = draw.choice(willing or BROKERS)
        is_slow = draw.randrange(self._slow_one_in) == 0
        latency_ms = draw.randrange(600, 900) if is_slow else draw.randrange(1, 40)
        if is_slow:
            away_ms = compute_not_available_duration(latency_ms, parse_client_version(client_version))
            self._avoided_until[producer, broker_name] = at_ms + away_ms + 200
        client_id, topic = f"10.0.{producer % 4}.{producer}@{7000 + producer}", f"orders-{producer % 16}"
        return send(client_id, client_version, topic, broker_name, number % QUEUES_PER_BROKER, latency_ms, at_ms)


def write_messages(spark: SparkSession, messages: Iterable[Message], kafka: Kafka) -> None:
    """Append the messages to Kafka in their order, by Spark's writer, which is faster than a publisher."""
    rest = iter(messages)
    while chunk := list(islice(rest, CHUNK)):
        topics, keys, values = zip(
            *((topic, key_of(topic, event), msgspec.json.encode(event)) for topic, event in chunk), strict=True
        )
        rows = pa.table({"topic": pa.array(topics), "key": pa.array(keys), "value": pa.array(values)})
        (
            spark.createDataFrame(rows)
            .coalesce(1)
            .write.format("kafka")
            .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
            .option("kafka.batch.size", str(512 << 10))
            .option("kafka.linger.ms", "5")
            .option("kafka.acks", "1")
            .save()
        )


if __name__ == "__main__":
    stream = Stream()
    for at_ms in (1_750_000_000_000, 1_750_000_001_000, 1_750_000_002_000):
        stream.feed([*SMALL.touch(range(int(sys.argv[1])), at_ms), clock(CLUSTER, BROKERS, at_ms + 1)])
