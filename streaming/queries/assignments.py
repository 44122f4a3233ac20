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
from schemas.decode import decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.chunk import Chunk, Message, Reject, Voice, decode_chunk, encode_chunk
from streaming.queries.output import OUTPUT, pack_rows
from streaming.queries.shard import Shard, shard_of
from streaming.queries.shard_store import SparkShardStore
from streaming.queries.source import read_messages
from streaming.rulebook import rulebook
from udfs.families import family_of
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
    found: dict[tuple[str, int], list[Chunk]] = {}
    voices: dict[tuple[str, int], list[Voice]] = {}
    for topic, partition, offset, ingest_time_ms, value in zip(*columns, strict=True):
        place = (topic, partition)
        if place not in found:
            newest_ms: dict[str, int] = {}  # one for all shards: the header tells how far the partition was read
            pulled_ms: dict[tuple[str, str], int] = {}
            found[place] = [
                Chunk(topic, partition, offset, offset, newest_ms, [], [], pulled_ms) for _ in range(shards)
            ]
        chunks = found[place]
        for chunk in chunks:
            chunk.last_offset = offset
        event, reasons = decode(topic, value, ingest_time_ms)
        if reasons:
            chunks[0].rejects.append(Reject(offset, ingest_time_ms, value, reasons))
            continue
        newest_ms = chunks[0].newest_ms
        newest_ms[event.cluster] = max(newest_ms.get(event.cluster, 0), event.event_time_ms)
        if topic == PULLS and event.suggest_broker_id is not None:
            broker = event.cluster, event.broker_name
            pulled_ms = chunks[0].pulled_ms
            pulled_ms[broker] = min(pulled_ms.get(broker, event.event_time_ms), event.event_time_ms)
        if topic == HEARTBEATS and not event.broker_id and (event.consumers or event.leaving):
            voices.setdefault(place, []).append(_voice(event))
        for number in sorted(_shards_for(topic, event, shards)):
            chunks[number].messages.append(Message(offset, ingest_time_ms, value))
    for place, of_place in voices.items():
        for chunk in found[place]:
            chunk.voices = of_place
    yield from found.values()


def _voice(heartbeat: Any) -> Voice:
    is_leaving = bool(heartbeat.leaving)
    names = {consumer.consumer_group for consumer in heartbeat.consumers if not is_leaving}
    groups = tuple(sorted(name for name in names if family_of(name)))
    cluster, broker_name, client_id = heartbeat.cluster, heartbeat.broker_name, heartbeat.client_id
    return Voice(cluster, broker_name, client_id, heartbeat.event_time_ms, is_leaving, groups)


def _shards_for(topic: str, event: Any, shards: int) -> set[int]:
    """Which shards an event concerns: routes and clock events all, a client that leaves without groups too."""
    if topic == PULLS:
        return {shard_of(event.cluster, event.consumer_group, shards)}
    if topic == HEARTBEATS and (event.consumers or not event.leaving):
        return {shard_of(event.cluster, consumer.consumer_group, shards) for consumer in event.consumers}
    return set(range(shards))


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
