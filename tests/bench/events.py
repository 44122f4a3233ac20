"""Events in bulk, made by Spark's own columns and written by its Kafka sink: ten times as fast as from Python."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from conf.settings import Kafka
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, KEYS, PULLS, ROUTES, SEND_LATENCIES

CLUSTER = "bench"
BROKERS = ("broker-0", "broker-1", "broker-2", "broker-3")
"""Two of them to each of the two partitions, by Kafka's hash of the message key."""

PRODUCERS = 100
SENDS_PER_SECOND = 5_000
PHASE_SECONDS, SLOW_SECONDS = 20, 5
"""Every 20 s another broker is slow, for 5 s."""

TICK_SECONDS = 5

TOPIC = "orders"
QUEUES, QUEUES_PER_BROKER, CLIENTS = 16, 4, 5


@dataclass(frozen=True)
class Shape:
    """Groups that are alike: each consumes one topic with so many clients, all of them the same topic."""

    topic: str
    queues_per_broker: int
    clients: int
    group_prefix: str = "group"

    @property
    def queues(self) -> int:
        return self.queues_per_broker * len(BROKERS)


SMALL = Shape(TOPIC, QUEUES_PER_BROKER, CLIENTS)
LARGE = Shape("delivery_log", 1_024, 500, "large")


def client_version_of(producer: Column) -> Column:
    """Half of the producers follow the table up to 5.1.3, half the one since 5.2.0."""
    return F.when(producer % 2 == 0, "4.9.8").otherwise("5.5.0")


def send_latencies(spark: SparkSession, start_ms: int, count: int) -> DataFrame:
    """`count` attempts of PRODUCERS at BROKERS in event-time order, most of them quick.

    While a broker is slow its attempts take 0.6 s and more, and 49 of 50 that would go there go elsewhere.
    """
    number = F.col("id")
    time_ms = start_ms + number * 1000 / SENDS_PER_SECOND
    second = (number / SENDS_PER_SECOND).cast("long")
    slow = (second / PHASE_SECONDS).cast("long") % len(BROKERS)
    is_phase = second % PHASE_SECONDS < SLOW_SECONDS
    drawn = _rng("broker", len(BROKERS))
    is_avoided = is_phase & (drawn == slow) & (_rng("avoid", 50) > 0)
    broker = F.when(is_avoided, (drawn + 1 + _rng("other", len(BROKERS) - 1)) % len(BROKERS)).otherwise(drawn)
    producer = _rng("producer", PRODUCERS)
    return _messages(
        spark.range(0, count, 1, 1).select(
            F.lit(CLUSTER).alias("cluster"),
            F.format_string("10.0.%d.%d@%d", producer % 4, producer, producer + 7000).alias("client_id"),
            client_version_of(producer).alias("client_version"),
            F.lit(TOPIC).alias("topic"),
            _pick(BROKERS, broker).alias("broker_name"),
            _rng("queue", QUEUES_PER_BROKER).cast("int").alias("queue_id"),
            F.when(is_phase & (broker == slow), 600 + _rng("slow", 2_000))
            .otherwise(1 + _rng("quick", 40))
            .alias("latency_ms"),
            F.lit(False).alias("isolation"),
            F.lit("SEND_OK").alias("send_status"),
            time_ms.cast("long").alias("event_time_ms"),
        ),
        SEND_LATENCIES,
    )


def clocks(spark: SparkSession, start_ms: int, end_ms: int, cluster: str = CLUSTER) -> DataFrame:
    """A tick every TICK_SECONDS that speaks for all BROKERS, the last one at or after `end_ms`."""
    ticks = -(-(end_ms - start_ms) // (TICK_SECONDS * 1000)) + 1
    brokers = F.array(*map(F.lit, BROKERS))
    return _messages(
        spark.range(0, ticks, 1, 1).select(
            F.lit(cluster).alias("cluster"),
            F.lit("bench").alias("source"),
            brokers.alias("brokers_asked"),
            brokers.alias("brokers_answered"),
            (start_ms + F.col("id") * TICK_SECONDS * 1000).alias("event_time_ms"),
        ),
        CLOCKS,
    )


def routes(spark: SparkSession, at_ms: int, shape: Shape = SMALL) -> DataFrame:
    """The topic with its queues over BROKERS."""
    queues = [
        F.struct(
            F.lit(broker_name).alias("broker_name"),
            F.lit(shape.queues_per_broker).alias("read_queue_nums"),
            F.lit(shape.queues_per_broker).alias("write_queue_nums"),
            F.lit(6).alias("perm"),
        )
        for broker_name in BROKERS
    ]
    brokers = [F.struct(F.lit(name).alias("broker_name"), F.array(F.lit(0)).alias("broker_ids")) for name in BROKERS]
    return _messages(
        spark.range(1).select(
            F.lit(CLUSTER).alias("cluster"),
            F.lit(shape.topic).alias("topic"),
            F.array(*queues).alias("queues"),
            F.array(*brokers).alias("brokers"),
            F.lit(at_ms).alias("event_time_ms"),
        ),
        ROUTES,
    )


def heartbeats(spark: SparkSession, groups: int, at_ms: int, shape: Shape = SMALL) -> DataFrame:
    """One of each client of each group, at one broker."""
    group, client = F.floor(F.col("id") / shape.clients), F.col("id") % shape.clients
    subscription = F.struct(
        F.lit(shape.topic).alias("topic"),
        F.lit("*").alias("sub_string"),
        F.lit(1).alias("sub_version"),
        F.lit("TAG").alias("expression_type"),
    )
    consumer = F.struct(
        _group_name(group, shape).alias("consumer_group"),
        F.lit("CONSUME_PASSIVELY").alias("consume_type"),
        F.lit("CLUSTERING").alias("message_model"),
        F.lit("CONSUME_FROM_LAST_OFFSET").alias("consume_from_where"),
        F.lit("AVG").alias("strategy"),
        F.array(subscription).alias("subscriptions"),
    )
    return _messages(
        spark.range(0, groups * shape.clients, 1, 1).select(
            F.lit(CLUSTER).alias("cluster"),
            F.lit(BROKERS[0]).alias("broker_name"),
            _client_id(group, client).alias("client_id"),
            _client_addr(group, client).alias("client_addr"),
            F.lit("JAVA").alias("language"),
            F.lit("5.5.0").alias("client_version"),
            F.array().cast("array<string>").alias("producer_groups"),
            F.array(consumer).alias("consumers"),
            F.lit(at_ms).alias("event_time_ms"),
        ),
        HEARTBEATS,
    )


def pulls(spark: SparkSession, groups: int, at_ms: int, shape: Shape = SMALL) -> DataFrame:
    """One of each queue of each group, by its owner under AVG."""
    queues, clients = shape.queues, shape.clients
    group, queue = F.floor(F.col("id") / queues), F.col("id") % queues
    most, least = -(-queues // clients), queues // clients
    longer = queues % clients  # so many clients take one more
    place = F.when(queue < longer * most, F.floor(queue / most)).otherwise(
        longer + F.floor((queue - longer * most) / least)
    )
    client = _in_order(place, clients)
    return _messages(
        spark.range(0, groups * queues, 1, 1).select(
            F.lit(CLUSTER).alias("cluster"),
            _pick(BROKERS, F.floor(queue / shape.queues_per_broker)).alias("broker_name"),
            F.lit(0).alias("broker_id"),
            F.lit(shape.topic).alias("topic"),
            (queue % shape.queues_per_broker).cast("int").alias("queue_id"),
            _group_name(group, shape).alias("consumer_group"),
            _client_addr(group, client).alias("client_addr"),
            _client_id(group, client).alias("client_id"),
            F.lit(1_000).alias("pull_offset"),
            F.lit(1_000).alias("commit_offset"),
            F.lit(1_000).alias("max_offset"),
            F.lit("NO_NEW_MSG").alias("pull_status"),
            F.lit(at_ms).alias("event_time_ms"),
        ),
        PULLS,
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


def _messages(events: DataFrame, topic: str) -> DataFrame:
    missing = [field.name for field in EVENTS[topic].fields if not field.nullable and field.name not in events.columns]
    if missing:
        raise ValueError(f"{topic}: the events lack {', '.join(missing)}")
    return events.select(
        F.lit(topic).alias("topic"),
        F.concat_ws("|", *KEYS[topic]).alias("key") if len(KEYS[topic]) > 1 else F.col(KEYS[topic][0]).alias("key"),
        F.to_json(F.struct(*events.columns)).alias("value"),
    )


def _rng(name: str, sides: int) -> Column:
    """0 to `sides` - 1, the same for the same row in every run."""
    return F.pmod(F.xxhash64(F.col("id"), F.lit(name)), F.lit(sides))


def _pick(names: tuple[str, ...], index: Column) -> Column:
    return F.element_at(F.array(*map(F.lit, names)), (index + 1).cast("int"))


def _group_name(group: Column, shape: Shape) -> Column:
    return F.format_string(f"{shape.group_prefix}-%05d", group)


def _in_order(place: Column, clients: int) -> Column:
    """The client at that place of the ClientIds sorted as text, as clients do before they share out."""
    numbers = sorted(range(clients), key=lambda client: f"{client // 250}.{client % 250}@{client + 4000}")
    return F.element_at(F.array(*map(F.lit, numbers)), (place + 1).cast("int")).cast("long")


def _client_id(group: Column, client: Column) -> Column:
    return F.format_string("%s@%d", _host(group, client), client + 4_000)


def _client_addr(group: Column, client: Column) -> Column:
    return F.format_string("%s:%d", _host(group, client), client + 40_000)


def _host(group: Column, client: Column) -> Column:
    block = (client / 250).cast("int")
    return F.format_string("10.%d.%d.%d", (group / 250).cast("int") + 1, group % 250 + block, client % 250)
