"""Both queries at work on messages that are handed over, without Spark: what `replay` and the tests run.

The code is the queries' own, one shard instead of several. Only their state is elsewhere: in this object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from schemas.events import CLOCKS
from streaming.queries.assignments import TOPICS, pack_batch
from streaming.queries.chunk import Chunk
from streaming.queries.fault_items import TOPICS as FAULT_TOPICS
from streaming.queries.fault_items import Combiner, advance_board, advance_fleet
from streaming.queries.rows import Rows
from streaming.queries.shard import Shard
from streaming.queries.shard_store import DictShardStore
from udfs.broker_board import Board
from udfs.fleet import Fleet
from udfs.rulebook import Rulebook

Message = dict[str, Any]
"""A Kafka message as the queries read it: topic, partition, offset, ingest_time_ms, value."""

Event = tuple[str, dict[str, Any]]


class Stream:
    """A run that may be too long to keep: hand over messages in their order, take the rows they give.

    `rulebook` may be changed between two calls, as the service does when the files of the rules change.
    """

    shard: type[Shard] = Shard

    def __init__(self, rulebook: Rulebook) -> None:
        self.rulebook = rulebook
        self._store = DictShardStore()
        self._boards: dict[tuple[str, str], Board] = {}
        self._fleets: dict[str, Fleet] = {}

    def work_through(self, messages: Sequence[Message]) -> Rows:
        """Rows by table. A tick among them takes all that was handed over before it as complete."""
        rows: Rows = {}
        shard = self.shard(0, 1, self._store, self.rulebook)
        shard.process(list(chunks_for([one for one in messages if one["topic"] in TOPICS], 0, 1)), 0)
        _add(rows, shard.rows)
        sends = [one for one in messages if one["topic"] in FAULT_TOPICS]
        if sends:
            self._work_through_sends(sends, rows)
        return rows

    def _work_through_sends(self, sends: list[Message], rows: Rows) -> None:
        combiner = Combiner()
        combiner.add(pa.RecordBatch.from_pylist(sends))
        for (cluster, broker_name), pack in combiner.packs():
            if cluster is None:
                continue  # bad messages
            rules = self.rulebook.of(cluster)
            if broker_name is None:
                fleet = self._fleets.setdefault(cluster, Fleet())
                _add(rows, advance_fleet(fleet, [pack], cluster, rules, 0))
            elif (cluster, broker_name) in self._boards or pack.attempts:
                board = self._boards.setdefault((cluster, broker_name), Board())
                idle_ms = rules.fault_item_idle_ms
                _add(rows, advance_board(board, [pack], cluster, broker_name, idle_ms=idle_ms, may_be_cut=False))


AHEAD_MS = 60_000
"""An event further ahead of its log than this has a clock that is ahead: the log's time does not follow it."""


class Enveloper:
    """Events as the messages that Kafka would make of them as they happen, one partition a topic.

    A message reaches Kafka when the log has come so far: an event that is older than what came before it came late.
    """

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._now_ms = 0

    def messages(self, events: Iterable[Event], ingest_time_ms: Callable[[Event], int] | None = None) -> list[Message]:
        """In the order given; offsets go on from the call before. `ingest_time_ms` is Kafka's time of each."""
        return [self._message(topic, event, ingest_time_ms) for topic, event in events]

    def _message(self, topic: str, event: dict[str, Any], ingest: Callable[[Event], int] | None) -> Message:
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        value, time_ms = msgspec.json.encode(event), event["event_time_ms"]
        is_far = topic != CLOCKS and self._now_ms and time_ms > self._now_ms + AHEAD_MS
        if ingest is not None:
            self._now_ms = ingest((topic, event))
        elif not is_far:
            self._now_ms = max(self._now_ms, time_ms)
        return {"topic": topic, "partition": 0, "offset": offset, "ingest_time_ms": self._now_ms, "value": value}


def chunks_for(messages: Sequence[Message], number: int, shards: int) -> Iterator[Chunk]:
    """What a shard of several is handed of a batch."""
    if messages:
        for chunks in pack_batch(pa.RecordBatch.from_pylist(list(messages)), shards):
            yield chunks[number]


def _add(rows: Rows, more: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    for table, of_table in more.items():
        rows.setdefault(table, []).extend(of_table)
