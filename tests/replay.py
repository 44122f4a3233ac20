"""A log worked through by both queries' own code, without Spark or Kafka: messages in, rows out.

Offsets and partitions are as the embedded Kafka would give them: one partition a topic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from streaming.queries.assignments import TOPICS, pack_batch
from streaming.queries.chunk import Chunk
from streaming.queries.fault_items import TOPICS as FAULT_TOPICS
from streaming.queries.fault_items import Combiner, advance_board, advance_fleet
from streaming.queries.shard import Shard
from streaming.queries.shard_store import DictShardStore
from udfs.broker_board import Board
from udfs.fleet import Fleet
from udfs.rulebook import Rulebook
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
            shard = Shard(number, SHARDS, store, Rulebook(rules or Rules()))
            shard.process(list(_chunks_for(batch, number)), limit)
            for table, of_table in shard.rows.items():
                rows.setdefault(table, []).extend(of_table)
    return rows


class Stream:
    """Both queries at work on a run that is too long to keep: feed it slices, take the rows."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()
        self._stores = [DictShardStore() for _ in range(SHARDS)]
        self._boards: dict[tuple[str, str], Board] = {}
        self._fleets: dict[str, Fleet] = {}
        self._offsets: dict[str, int] = {}

    def feed(self, events: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Work through the next events; the rows they give, by table."""
        rows: dict[str, list[dict[str, Any]]] = {}
        messages = self._messages(events)
        for number, store in enumerate(self._stores):
            shard = Shard(number, SHARDS, store, Rulebook(self._rules))
            shard.process(list(_chunks_for([one for one in messages if one["topic"] in TOPICS], number)), 0)
            _add(rows, shard.rows)
        sends = [one for one in messages if one["topic"] in FAULT_TOPICS]
        if sends:
            self._feed_boards(sends, rows)
        return rows

    def _feed_boards(self, sends: list[dict[str, Any]], rows: dict[str, list[dict[str, Any]]]) -> None:
        combiner = Combiner()
        combiner.add(pa.RecordBatch.from_pylist(sends))
        for (cluster, broker_name), pack in combiner.packs():
            if cluster is None:
                continue  # bad messages
            if broker_name is None:
                fleet = self._fleets.setdefault(cluster, Fleet())
                _add(rows, advance_fleet(fleet, [pack], cluster, self._rules, 0))
            elif (cluster, broker_name) in self._boards or pack.attempts:
                board = self._boards.setdefault((cluster, broker_name), Board())
                idle_ms = self._rules.fault_item_idle_ms
                _add(rows, advance_board(board, [pack], cluster, broker_name, idle_ms=idle_ms, may_be_cut=False))

    def _messages(self, events: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        messages = []
        for topic, event in events:
            offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
            value, time_ms = msgspec.json.encode(event), event["event_time_ms"]
            messages.append(
                {"topic": topic, "partition": 0, "offset": offset, "ingest_time_ms": time_ms, "value": value}
            )
        return messages


def _add(rows: dict[str, list[dict[str, Any]]], more: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    for table, of_table in more.items():
        rows.setdefault(table, []).extend(of_table)


def _chunks_for(batch: Sequence[dict[str, Any]], number: int) -> Iterator[Chunk]:
    if batch:
        for chunks in pack_batch(pa.RecordBatch.from_pylist(list(batch)), SHARDS):
            yield chunks[number]
