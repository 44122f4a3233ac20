"""The query: producers' FaultItems, who should own each queue and who does, and what to page about it.

    Kafka ─► pack (mapInArrow: decode, check, choose shards) ─► one shard a key (transformWithState) ─► Delta

One read of the five topics, one operator, one checkpoint. On one machine a single task does it all, without a shuffle.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.queries.output import OUTPUT, pack_rows
from streaming.queries.packer import pack
from streaming.queries.parcel import decode_parcel, encode_parcel
from streaming.queries.planned import published_plan
from streaming.queries.rulebook import rulebook
from streaming.queries.shard_keys import shard_keys
from streaming.queries.shard_store import SparkShardStore
from streaming.queries.source import read_messages
from streaming.queries.state_cache import StateCache
from streaming.queries.whole_shard import work_through
from streaming.queries.worker_memory import without_pauses
from udfs.alerts.rulebook import Rulebook

NAME = "balance"
TOPICS = (SEND_LATENCIES, HEARTBEATS, PULLS, ROUTES, CLOCKS)

PACKED = T.StructType([T.StructField("shard", T.IntegerType()), T.StructField("parcel", T.BinaryType())])

_states = StateCache()


def start_dataframe(spark: SparkSession, settings: Settings, tasks: int) -> DataFrame:
    """The streaming DataFrame: one row a table and shard (rows.OUTPUT). `tasks` is how many state partitions it has."""
    keys = shard_keys(spark, tasks)
    messages = read_messages(spark, settings, TOPICS)
    if tasks == 1:
        messages = messages.coalesce(1)  # one partition on both sides: Spark needs no shuffle
    return (
        messages.mapInArrow(make_pack(keys), PACKED)
        .groupBy("shard")
        .transformWithState(
            statefulProcessor=BalanceProcessor(keys, rulebook(settings), settings.queries.max_offsets_per_trigger),
            outputStructType=OUTPUT,
            outputMode="Update",
            timeMode="None",
        )
    )


def make_pack(keys: list[int]) -> Any:
    """The function for mapInArrow: messages in, parcels for every shard out."""

    def pack_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_pauses():
            for parcels in pack(batches, len(keys)):
                packed = pa.array([encode_parcel(parcel) for parcel in parcels], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int32()), packed], names=PACKED.names)

    return pack_batches


class BalanceProcessor(StatefulProcessor):
    """Carries parcels to a shard and its rows out; the rules know nothing of Spark."""

    def __init__(self, keys: list[int], rules: Rulebook, limit: int) -> None:
        self._keys, self._rules, self._limit = keys, rules, limit

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = SparkShardStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        number = self._keys.index(key[0])
        with without_pauses(), _states.state_of(number, self._store) as state:
            parcels = [decode_parcel(row.parcel) for row in rows]
            found = work_through(number, len(self._keys), state, self._rules, parcels, self._limit, published_plan())
            del parcels
        yield from pack_rows(found)

    def close(self) -> None:
        """What is kept is kept for the worker's next batch."""
