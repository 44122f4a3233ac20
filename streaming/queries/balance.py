"""The query `balance`: FaultItems of producers, planned and observed owners of each queue, and alerts.

    Kafka ─► pack (mapInArrow: decode, check, choose shards) ─► one shard a key (transformWithState) ─► Delta

One read of the five topics, one operator, one checkpoint. On one machine a single task does it all, without a shuffle.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.queries.pack import pack
from streaming.queries.parcel import decode_parcel, encode
from streaming.queries.rulebook import rulebook
from streaming.queries.shard import work_through
from streaming.queries.state import StateCache, without_pauses
from streaming.queries.waiting import PLAN_PROPERTY, Planned
from streaming.system.known_error import BalancewatchError
from udfs.alerts.rulebook import Rulebook

NAME = "balance"
TOPICS = (SEND_LATENCIES, HEARTBEATS, PULLS, ROUTES, CLOCKS)

PACKED = T.StructType([T.StructField("shard", T.IntegerType()), T.StructField("parcel", T.BinaryType())])

OUTPUT = T.StructType([T.StructField("table", T.StringType()), T.StructField("rows", T.BinaryType())])
"""One binary value for each table and shard, which `unpack_rows` of streaming/warehouse/rows.py reads."""

TRIED = 64
"""Numbers tried for each partition; hashes leave one without any in less than one start of 10^20."""

_states = StateCache()


class SourceError(BalancewatchError):
    """There is no Kafka to read. The message names the setting."""


def start_dataframe(spark: SparkSession, settings: Settings, tasks: int) -> DataFrame:
    """Return the streaming DataFrame: one row for each table and shard. `tasks` is the number of state partitions."""
    keys = shard_keys(spark, tasks)
    messages = read_messages(spark, settings)
    if tasks == 1:
        messages = messages.coalesce(1)  # one partition on both sides: Spark needs no shuffle
    return (
        messages.mapInArrow(make_pack(keys), PACKED)
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=BalanceProcessor(
                keys, rulebook(settings), settings.queries.max_offsets_per_trigger, settings.language
            ),
            outputStructType=OUTPUT,
            outputMode="Update",
            timeMode="None",
        )
    )


def read_messages(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the messages: topic, partition, offset, ingest_time_ms (the record's timestamp), value; unparsed.

    Any `kafka.options` key is passed through as Spark's `kafka.<key>`.
    """
    kafka, queries = settings.kafka, settings.queries
    if not kafka.bootstrap_servers:
        raise SourceError(
            "kafka.bootstrap_servers is empty; set it to host:port of a broker, or try `balancewatch demo`"
        )
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": ",".join(TOPICS),
        "startingOffsets": queries.starting_offsets,
        "failOnDataLoss": queries.fail_on_data_loss,
        # After each read Spark asks for a partition's first and last offset. Kafka answers one request of a connection
        # after the other, and would first wait this long for messages to the consumer's next fetch: 500 ms by default.
        "kafka.fetch.max.wait.ms": 0,
        # Few, large fetches: a drain costs Kafka a third of the CPU and the query a fifth less than with the defaults.
        "kafka.max.poll.records": 5000,
        "kafka.max.partition.fetch.bytes": 8 << 20,
        "kafka.receive.buffer.bytes": 1 << 20,
        **{f"kafka.{key}": value for key, value in kafka.options.items()},
    }
    if queries.max_offsets_per_trigger:
        options["maxOffsetsPerTrigger"] = queries.max_offsets_per_trigger
    messages = spark.readStream.format("kafka").options(**options).load()
    return messages.select("topic", "partition", "offset", F.unix_millis("timestamp").alias("ingest_time_ms"), "value")


def shard_keys(spark: SparkSession, partitions: int) -> list[int]:
    """Return, by shard, the least integer that Spark's hash sends to the state partition of that number."""
    if partitions == 1:
        return [0]
    numbers = spark.range(TRIED * partitions).select(F.col("id").cast("int").alias("key"))
    placed = numbers.select("key", F.pmod(F.hash("key"), F.lit(partitions)).alias("partition"))
    least = placed.groupBy("partition").agg(F.min("key").alias("key")).collect()
    return [row["key"] for row in sorted(least, key=lambda row: row["partition"])]


def make_pack(keys: list[int]) -> Any:
    """Return the function for mapInArrow: messages in, a parcel for every shard out."""

    def pack_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_pauses():
            for parcels in pack(batches, len(keys)):
                packed = pa.array([encode(parcel) for parcel in parcels], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int32()), packed], names=PACKED.names)

    return pack_batches


class SparkShardStore:
    """State variables of the operator, two because each costs a batch about 2 ms before its first row.

    Each call costs about 70 µs on an idle machine, whatever the value's size.
    """

    _NAME = T.StructType([T.StructField("name", T.StringType())])
    _BYTES = T.StructType([T.StructField("value", T.BinaryType())])
    _STAMP = "stamp"

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getMapState("values", self._NAME, self._BYTES)
        self._pending = handle.getListState("pending", self._BYTES)

    def read_stamp(self) -> str | None:
        value = self.read(self._STAMP)
        return None if value is None else value.decode()

    def write_stamp(self, stamp: str) -> None:
        self.write(self._STAMP, stamp.encode())

    def read(self, name: str) -> bytes | None:
        value = self._values.getValue((name,))
        return None if value is None else bytes(value[0])

    def write(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._values.removeKey((name,))
        else:
            self._values.updateValue((name,), (value,))

    def read_pending(self) -> list[bytes]:
        return [bytes(value[0]) for value in self._pending.get()]

    def add_pending(self, value: bytes) -> None:
        self._pending.appendList([(value,)])

    def clear_pending(self) -> None:
        self._pending.clear()


class BalanceProcessor(StatefulProcessor):
    """Carries parcels to a shard and its rows out; the rules know nothing of Spark."""

    def __init__(self, keys: list[int], rules: Rulebook, limit: int, language: str) -> None:
        self._keys, self._rules, self._limit, self._language = keys, rules, limit, language

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = SparkShardStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        number = self._keys.index(key[0])
        with without_pauses(), _states.state_of(number, self._store) as state:
            parcels = [decode_parcel(row.parcel) for row in rows]
            rules, limit, planned, language = self._rules, self._limit, published_plan(), self._language
            found = work_through(number, len(self._keys), state, rules, parcels, limit, planned, language=language)
            del parcels
        for table in sorted(found):
            if found[table]:
                yield Row(table=table, rows=encode(found[table]))

    def close(self) -> None:
        """Keep the state for the worker's next batch."""


def published_plan() -> Planned | None:
    """Return, in a worker, the plan of the current batch (running.publish_plan); None if there is none."""
    context = TaskContext.get()
    text = context.getLocalProperty(PLAN_PROPERTY) if context is not None else None
    if not text:
        return None
    is_cut, places, is_once = json.loads(text)
    return Planned(is_cut, frozenset((topic, partition) for topic, partition in places), is_once)
