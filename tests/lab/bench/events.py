"""Events of the benches: dicts for a publisher, and the same in bulk by Spark's columns, ten times as fast as Python.

A builder takes plain values or Spark columns for its arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Kafka
from schemas.events import CLOCKS, HEARTBEATS, KEYS, PULLS, ROUTES, SEND_LATENCIES

CLUSTER = "bench"
BROKERS = ("broker-0", "broker-1", "broker-2", "broker-3")
"""Two of them to each of the two partitions, by Kafka's hash of the message key."""

PRODUCERS = 100
SENDS_PER_SECOND = 5_000
PHASE_SECONDS, SLOW_SECONDS = 20, 5
"""Every 20 s another broker is slow, for 5 s."""

TICK_SECONDS = 5
TOPIC = "orders"
QUEUES_PER_BROKER = 4

Event = dict[str, Any]


def clock(cluster: str, brokers: Sequence[str], at_ms: Any) -> Event:
    """A clock event of the bench, so that the service sends none itself."""
    polled = {"brokers_asked": list(brokers), "brokers_answered": list(brokers)}
    return {"cluster": cluster, "source": "bench", **polled, "event_time_ms": at_ms}


def route(topic: str, brokers: Sequence[str], queues_per_broker: int, at_ms: Any) -> Event:
    nums = {"read_queue_nums": queues_per_broker, "write_queue_nums": queues_per_broker, "perm": 6}
    return {
        "cluster": CLUSTER,
        "topic": topic,
        "queues": [{"broker_name": name, **nums} for name in brokers],
        "brokers": [{"broker_name": name, "broker_ids": [0]} for name in brokers],
        "event_time_ms": at_ms,
    }


def heartbeat(group: Any, topic: str, client_id: Any, client_addr: Any, broker_name: str, at_ms: Any) -> Event:
    """A push consumer of one topic, as a broker knows it."""
    subscription = {"topic": topic, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}
    consumer = {
        "consumer_group": group,
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
        "client_addr": client_addr,
        "language": "JAVA",
        "client_version": "5.5.0",
        "producer_groups": [],
        "consumers": [consumer],
        "event_time_ms": at_ms,
    }


def pull(
    group: Any,
    topic: str,
    client_id: Any,
    client_addr: Any,
    broker_name: Any,
    queue_id: Any,
    at_ms: Any,
    *,
    found_offset: int | None = None,
) -> Event:
    """A pull that found a message at `found_offset`, or without it no new one."""
    offset = 1_000 if found_offset is None else found_offset
    return {
        "cluster": CLUSTER,
        "broker_name": broker_name,
        "broker_id": 0,
        "topic": topic,
        "queue_id": queue_id,
        "consumer_group": group,
        "client_addr": client_addr,
        "client_id": client_id,
        "pull_offset": offset,
        "commit_offset": offset,
        "max_offset": offset,
        "pull_status": "NO_NEW_MSG" if found_offset is None else "FOUND",
        "event_time_ms": at_ms,
    }


def send(
    client_id: Any, client_version: Any, topic: str, broker_name: Any, queue_id: Any, latency_ms: Any, at_ms: Any
) -> Event:
    return {
        "cluster": CLUSTER,
        "client_id": client_id,
        "client_version": client_version,
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": queue_id,
        "latency_ms": latency_ms,
        "isolation": False,
        "send_status": "SEND_OK",
        "event_time_ms": at_ms,
    }


@dataclass(frozen=True)
class Shape:
    """Groups that are alike: `clients` clients each, all consumers of the same topic."""

    topic: str
    queues_per_broker: int
    clients: int
    group_prefix: str = "group"

    @property
    def queues(self) -> int:
        return self.queues_per_broker * len(BROKERS)


SMALL = Shape(TOPIC, QUEUES_PER_BROKER, 5)
LARGE = Shape("delivery_log", 1_024, 500, "large")


def send_latencies(spark: SparkSession, start_ms: int, count: int) -> DataFrame:
    """`count` attempts of PRODUCERS at BROKERS in event-time order, most of them quick.

    While a broker is slow its attempts take 0.6 s and more, and 49 of 50 that would go there go elsewhere. Half of the
    producers follow the latency table up to 5.1.3, half the one since 5.2.0.
    """
    second = (F.col("id") / SENDS_PER_SECOND).cast("long")
    slow = (second / PHASE_SECONDS).cast("long") % len(BROKERS)
    is_phase = second % PHASE_SECONDS < SLOW_SECONDS
    drawn = _rng("broker", len(BROKERS))
    is_avoided = is_phase & (drawn == slow) & (_rng("avoid", 50) > 0)
    broker = F.when(is_avoided, (drawn + 1 + _rng("other", len(BROKERS) - 1)) % len(BROKERS)).otherwise(drawn)
    producer = _rng("producer", PRODUCERS)
    event = send(
        F.format_string("10.0.%d.%d@%d", producer % 4, producer, producer + 7000),
        F.when(producer % 2 == 0, "4.9.8").otherwise("5.5.0"),
        TOPIC,
        _pick(BROKERS, broker),
        _rng("queue", QUEUES_PER_BROKER).cast("int"),
        F.when(is_phase & (broker == slow), 600 + _rng("slow", 2_000)).otherwise(1 + _rng("quick", 40)),
        (start_ms + F.col("id") * 1000 / SENDS_PER_SECOND).cast("long"),
    )
    return _messages(spark, count, SEND_LATENCIES, event)


def clocks(spark: SparkSession, start_ms: int, end_ms: int) -> DataFrame:
    """A clock event of all BROKERS every TICK_SECONDS, the last one at or after `end_ms`."""
    ticks = -(-(end_ms - start_ms) // (TICK_SECONDS * 1000)) + 1
    return _messages(spark, ticks, CLOCKS, clock(CLUSTER, BROKERS, start_ms + F.col("id") * TICK_SECONDS * 1000))


def touch(spark: SparkSession, groups: int, at_ms: int, shape: Shape) -> DataFrame:
    """The topic's route, a heartbeat of each client at one broker, a pull of each queue by its owner under AVG."""
    queues, clients = shape.queues, shape.clients
    group, client = F.floor(F.col("id") / clients), F.col("id") % clients
    beat = heartbeat(*_member(shape, group, client), BROKERS[0], at_ms)
    group, queue = F.floor(F.col("id") / queues), F.col("id") % queues
    most, least, longer = -(-queues // clients), queues // clients, queues % clients  # `longer` clients take one more
    place = F.when(queue < longer * most, F.floor(queue / most)).otherwise(
        longer + F.floor((queue - longer * most) / least)
    )
    pulled = pull(
        *_member(shape, group, _in_order(place, clients)),
        _pick(BROKERS, F.floor(queue / shape.queues_per_broker)),
        (queue % shape.queues_per_broker).cast("int"),
        at_ms,
    )
    return (
        _messages(spark, 1, ROUTES, route(shape.topic, BROKERS, shape.queues_per_broker, at_ms))
        .union(_messages(spark, groups * clients, HEARTBEATS, beat))
        .union(_messages(spark, groups * queues, PULLS, pulled))
    )


def write_messages(messages: DataFrame, kafka: Kafka) -> None:
    """Append topic, key and value to Kafka, in the order of the rows."""
    (
        messages.write.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("kafka.batch.size", str(512 << 10))
        .option("kafka.linger.ms", "5")
        .option("kafka.acks", "1")
        .save()
    )


def _messages(spark: SparkSession, count: int, topic: str, event: Event) -> DataFrame:
    """`count` rows of the event, whose columns are made of `id`, the row's number."""
    key = F.concat_ws("|", *(_column(event[name]) for name in KEYS[topic]))
    value = F.to_json(_column(event))
    return spark.range(0, count, 1, 1).select(F.lit(topic).alias("topic"), key.alias("key"), value.alias("value"))


def _column(value: Any) -> Column:
    match value:
        case Column():
            return value
        case dict():
            return F.struct(*(_column(part).alias(name) for name, part in value.items()))
        case []:
            return F.array().cast("array<string>")
        case list():
            return F.array(*map(_column, value))
    return F.lit(value)


def _rng(name: str, sides: int) -> Column:
    """0 to `sides` - 1, the same for the same row in every run."""
    return F.pmod(F.xxhash64(F.col("id"), F.lit(name)), F.lit(sides))


def _pick(names: tuple[str, ...], index: Column) -> Column:
    return F.element_at(F.array(*map(F.lit, names)), (index + 1).cast("int"))


def _in_order(place: Column, clients: int) -> Column:
    """The client at that place of the ClientIds sorted as text, as clients sort them before they allocate queues."""
    numbers = sorted(range(clients), key=lambda client: f"{client // 250}.{client % 250}@{client + 4000}")
    return F.element_at(F.array(*map(F.lit, numbers)), (place + 1).cast("int")).cast("long")


def _member(shape: Shape, group: Column, client: Column) -> tuple[Column, str, Column, Column]:
    """Group, topic, ClientId, address."""
    block = (client / 250).cast("int")
    host = F.format_string("10.%d.%d.%d", (group / 250).cast("int") + 1, group % 250 + block, client % 250)
    return (
        F.format_string(f"{shape.group_prefix}-%05d", group),
        shape.topic,
        F.format_string("%s@%d", host, client + 4_000),
        F.format_string("%s:%d", host, client + 40_000),
    )
