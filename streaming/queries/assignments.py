"""The assignments query: who should own each queue, who does, who is missing, and what to page about it.

Kafka ─► pack (mapInArrow: check, choose shards) ─► one shard a key (transformWithState) ─► rows ─► Delta
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.chunk import Chunk, decode_chunk, encode_chunk
from streaming.queries.output import OUTPUT, pack_rows
from streaming.queries.partition_pack import PartitionPack
from streaming.queries.shard import Shard
from streaming.queries.shard_store import SparkShardStore
from streaming.queries.source import read_messages
from streaming.rulebook import rulebook
from udfs.rulebook import Rulebook

NAME = "assignments"
TOPICS = (HEARTBEATS, PULLS, ROUTES, CLOCKS)

PACKED = T.StructType([T.StructField("shard", T.IntegerType()), T.StructField("chunk", T.BinaryType())])


def start_dataframe(spark: SparkSession, settings: Settings) -> DataFrame:
    """The streaming DataFrame: one row a table and shard (rows.OUTPUT)."""
    queries = settings.queries
    messages = read_messages(spark, settings, TOPICS)
    packed = messages.mapInArrow(make_pack(queries.shards), PACKED)
    return packed.groupBy("shard").transformWithState(
        statefulProcessor=AssignmentsProcessor(queries.shards, rulebook(settings), queries.max_offsets_per_trigger),
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="None",
    )


def make_pack(shards: int) -> Any:
    """The function for mapInArrow: messages in, one pack a shard and Arrow batch out."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            packs = [encode_chunk(chunk) for chunks in pack_batch(batch, shards) for chunk in chunks]
            numbers = list(range(shards)) * (len(packs) // shards)
            yield pa.RecordBatch.from_arrays(
                [pa.array(numbers, pa.int32()), pa.array(packs, pa.binary())], names=PACKED.names
            )

    return pack


def pack_batch(batch: pa.RecordBatch, shards: int) -> Iterator[list[Chunk]]:
    """For each Kafka partition in the batch, its chunk for every shard, in the order of the shards."""
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "ingest_time_ms", "value"))
    found: dict[tuple[str, int], PartitionPack] = {}
    for topic, partition, offset, ingest_time_ms, value in zip(*columns, strict=True):
        pack = found.get((topic, partition))
        if pack is None:
            pack = found[topic, partition] = PartitionPack(topic, partition, offset, shards)
        pack.add(offset, ingest_time_ms, value)
    for pack in found.values():
        yield pack.chunks()


class AssignmentsProcessor(StatefulProcessor):
    """Carries packs to a Shard and its rows out; the rules know nothing of Spark."""

    def __init__(self, shards: int, rules: Rulebook, limit: int) -> None:
        self._shards, self._rules, self._limit = shards, rules, limit

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = SparkShardStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        shard = Shard(key[0], self._shards, self._store, self._rules)
        shard.process([decode_chunk(row.chunk) for row in rows], self._limit)
        yield from pack_rows(shard.rows)

    def close(self) -> None:
        """Nothing is held."""
