"""The query at work on messages that are handed over, without Spark: what `replay` and the tests run.

The code is the query's own, one shard instead of several. Only its state is elsewhere: in this object.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from schemas.events import CLOCKS
from streaming.queries.pack import pack
from streaming.queries.parcel import Parcel
from streaming.queries.shard import Shard, work_through
from streaming.queries.state import StateCache
from streaming.queries.store import DictShardStore
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import Rulebook

Message = dict[str, Any]
"""A Kafka message as the query reads it: topic, partition, offset, ingest_time_ms, value."""

Event = tuple[str, dict[str, Any]]


class Stream:
    """A run that may be too long to keep: hand over messages in their order, take the rows they give.

    `rulebook` may be changed between two calls, as the service does when the files of the rules change.
    """

    shard: type[Shard] = Shard

    def __init__(self, rulebook: Rulebook) -> None:
        self.rulebook = rulebook
        self._store, self._states = DictShardStore(), StateCache()

    def work_through(self, messages: Sequence[Message]) -> Rows:
        """Rows by table. A tick among them takes all that was handed over before it as complete."""
        with self._states.state_of(0, self._store) as state:
            return work_through(0, 1, state, self.rulebook, parcels_for(messages, 0, 1), engine=self.shard)


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


def parcels_for(messages: Sequence[Message], number: int, shards: int) -> Iterator[Parcel]:
    """What a shard of several is handed of a batch."""
    if messages:
        for parcels in pack([pa.RecordBatch.from_pylist(list(messages))], shards):
            yield parcels[number]
