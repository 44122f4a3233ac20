"""A log worked through by the shards themselves, without Spark or Kafka: messages in, rows out.

Offsets and partitions are as the embedded Kafka would give them: one partition a topic.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from streaming.queries.assignments import TOPICS, pack_batch
from streaming.queries.chunk import Chunk
from streaming.queries.shard import Shard
from streaming.queries.shard_store import DictShardStore
from udfs.rules import Rules

SHARDS = 2

Events = Iterable[tuple[str, dict[str, Any]]]


def messages_of(events: Events) -> list[dict[str, Any]]:
    """Events as Kafka rows, in the order given."""
    offsets: dict[str, int] = {}
    rows = []
    for topic, event in events:
        if topic in TOPICS:
            offset = offsets[topic] = offsets.get(topic, -1) + 1
            rows.append(
                {
                    "topic": topic,
                    "partition": 0,
                    "offset": offset,
                    "ingest_time_ms": event["event_time_ms"],
                    "value": msgspec.json.encode(event),
                }
            )
    return rows


def cut(messages: Sequence[dict[str, Any]], batches: int) -> Iterator[list[dict[str, Any]]]:
    """The log in batches of the same size, cut anywhere."""
    size = -(-len(messages) // batches)
    for start in range(0, len(messages), size):
        yield list(messages[start : start + size])


def replay(
    batches: Iterable[Sequence[dict[str, Any]]], *, limit: int = 0, rules: Rules | None = None
) -> dict[str, list[dict[str, Any]]]:
    """All rows the shards put out, by table, in the order of the batches."""
    stores = [DictShardStore() for _ in range(SHARDS)]
    rows: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        for number, store in enumerate(stores):
            shard = Shard(number, SHARDS, store, rules or Rules())
            shard.process(list(_chunks_for(batch, number)), limit)
            for table, of_table in shard.rows.items():
                rows.setdefault(table, []).extend(of_table)
    return rows


def _chunks_for(batch: Sequence[dict[str, Any]], number: int) -> Iterator[Chunk]:
    if batch:
        for chunks in pack_batch(pa.RecordBatch.from_pylist(list(batch)), SHARDS):
            yield chunks[number]
