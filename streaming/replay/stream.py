"""The query without Spark, on messages of the caller: for `replay` and the tests.

The code is the query's own, one shard instead of several, with its state in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from schemas.events import CLOCKS
from streaming.queries.pack import pack
from streaming.queries.parcel import Parcel
from streaming.queries.shard import work_through
from streaming.queries.state import StateCache
from streaming.queries.store import DictShardStore
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import Rulebook

Message = dict[str, Any]
"""A Kafka message as the query reads it: topic, partition, offset, ingest_time_ms, value."""

Event = tuple[str, dict[str, Any]]


class Stream:
    """A run of the query over batches of messages in their order.

    `rulebook` may be changed between two calls, as the service does when the files of the rules change.
    """

    def __init__(self, rulebook: Rulebook, language: str = "en") -> None:
        self.rulebook, self._language = rulebook, language
        self._store, self._states = DictShardStore(), StateCache()

    def work_through(self, messages: Sequence[Message]) -> Rows:
        """Return rows by table. A clock event takes all earlier messages as complete."""
        with self._states.state_of(0, self._store) as state:
            return work_through(0, 1, state, self.rulebook, parcels_for(messages, 0, 1), language=self._language)


AHEAD_MS = 60_000
"""An event further ahead of its log comes from a clock that is ahead and does not advance the log's time."""


class Enveloper:
    """Converts events to Kafka messages, with one partition per topic.

    A message reaches Kafka at the log's time, the newest event time before it: an older event arrived late.
    """

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._now_ms = 0

    def messages(self, events: Iterable[Event]) -> list[Message]:
        """Return the messages in this order; offsets continue."""
        messages: list[Message] = []
        for topic, event in events:
            offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
            time_ms = event["event_time_ms"]
            if topic == CLOCKS or not self._now_ms or time_ms <= self._now_ms + AHEAD_MS:
                self._now_ms = max(self._now_ms, time_ms)
            place = {"topic": topic, "partition": 0, "offset": offset}
            messages.append({**place, "ingest_time_ms": self._now_ms, "value": msgspec.json.encode(event)})
        return messages


def parcels_for(messages: Sequence[Message], number: int, shards: int) -> Iterator[Parcel]:
    """Yield the parcels of one shard of several."""
    if messages:
        for parcels in pack([pa.RecordBatch.from_pylist(list(messages))], shards):
            yield parcels[number]
