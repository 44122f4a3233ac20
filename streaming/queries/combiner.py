"""Send latencies run-lengthed before they are shared out: a producer and broker each.

Each broker's attempts go to the broker's key, to become rows, and to the cluster's, to be judged together.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from schemas.events import CLOCKS, SEND_LATENCIES
from schemas.numbers_in_text import integers_of
from schemas.send_columns import read_sends
from streaming.queries.chunk import Chunk, Reject
from streaming.queries.event_time import Lags, at_most
from streaming.queries.send_runs import add_runs
from streaming.queries.shard_endings import BROKER, CLUSTER, FORGET, words_of
from udfs.brokers.skew import Lag
from udfs.producers.attempts import Attempts, AttemptsBuilder

Key = tuple[str, str | None]
"""(cluster, broker_name); (cluster, None) is the cluster itself."""


class Pack(msgspec.Struct, array_like=True, gc=False):
    """What one Arrow batch holds for one key.

    attempts   of a broker: its producers' attempts
    tick_ms    of a broker or a cluster: its newest tick
    forgotten  of a broker or a cluster: what a person decided is gone, by kind and name; when, and in which words
    fleet      of a cluster: broker → its producers' attempts
    read       of a cluster: how far its partitions were read; chunks without messages
    asked_ms   of a cluster: broker → the newest tick that asked it
    lags       of a cluster: how far its sends and its clock events lag behind Kafka's clock
    """

    attempts: list[Attempts] = []
    tick_ms: int | None = None
    fleet: dict[str, list[Attempts]] = {}
    read: list[Chunk] = []
    forgotten: list[tuple[str, str, int, str]] = []
    asked_ms: dict[str, int] = {}
    lags: list[Lag] = []

    def newest_ms(self) -> int:
        """The newest time in it."""
        attempts = [*self.attempts, *(one for of_broker in self.fleet.values() for one in of_broker)]
        return max((self.tick_ms or 0, *(of.steps[-1].to_ms for of in attempts if of.steps)))


Keyed = tuple[str, str | None, Pack]
"""A pack under its key: cluster, broker_name."""


class Combiner:
    """Run-lengths a task's part of a batch, by broker and producer. `rejects` are its bad sends, with their place."""

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str, str, str], AttemptsBuilder] = {}
        self._ticks: dict[tuple[str, str | None], int] = {}
        self.rejects: list[tuple[str, int, Reject]] = []
        self._forgotten: dict[Key, list[tuple[str, str, int, str]]] = {}
        self._read: dict[tuple[str, int], tuple[int, int]] = {}
        self._lags = Lags()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in send latencies of one partition or of several."""
        if not len(batch):
            return
        self._note_all_read(batch)
        self._add_sends(batch)

    def _add_sends(self, batch: pa.RecordBatch) -> None:
        """The hot path: a million times a million."""
        ingest_time_ms = integers_of(batch.column("ingest_time_ms"))
        sends = read_sends(batch.column("value"), ingest_time_ms)
        add_runs(sends, ingest_time_ms, self._builders, self._lags)
        for row, reasons in sends.bad:
            partition, offset, ingested_ms, value = (
                batch.column(name)[row].as_py() for name in ("partition", "offset", "ingest_time_ms", "value")
            )
            self.rejects.append((SEND_LATENCIES, partition, Reject(offset, ingested_ms, value, reasons)))

    def note_clock(self, partition: int, offset: int, ingest_time_ms: int, event: Any) -> None:
        """A clock event, or None for a bad one."""
        self._note_read((CLOCKS, partition), offset, offset)
        if event is None:
            return
        if event.source == FORGET:
            self._note_forgotten(event)
            return
        self._lags.note(CLOCKS, event, ingest_time_ms)
        event = at_most(event, ingest_time_ms)
        for broker_name in (*event.brokers_asked, None):
            place = (event.cluster, broker_name)
            self._ticks[place] = max(self._ticks.get(place, 0), event.event_time_ms)

    def _note_forgotten(self, event: Any) -> None:
        """A cluster's end reaches its brokers too, as far as the event names them."""
        for one in event.forgotten or ():
            if one.kind not in (CLUSTER, BROKER):
                continue
            entry = (one.kind, one.name, event.event_time_ms, words_of(one))
            brokers = [one.name] if one.kind == BROKER else event.brokers_asked
            for broker_name in (*brokers, None):
                self._forgotten.setdefault((event.cluster, broker_name), []).append(entry)

    def _note_all_read(self, batch: pa.RecordBatch) -> None:
        """By stretches of one topic and partition, which a batch has few of."""
        topics = batch.column("topic").dictionary_encode()
        names, partitions = topics.dictionary.to_pylist(), integers_of(batch.column("partition"))
        topic, offsets = integers_of(topics.indices), integers_of(batch.column("offset"))
        is_other = (np.diff(topic) != 0) | (np.diff(partitions) != 0)
        first = np.flatnonzero(np.append(True, is_other))
        least, most = (end.reduceat(offsets, first).tolist() for end in (np.minimum, np.maximum))
        for start, least_offset, most_offset in zip(first.tolist(), least, most, strict=True):
            self._note_read((names[topic[start]], int(partitions[start])), least_offset, most_offset)

    def _note_read(self, place: tuple[str, int], first: int, last: int) -> None:
        known = self._read.get(place, (first, last))
        self._read[place] = min(known[0], first), max(known[1], last)

    def sends_read(self) -> int:
        """How many offsets of sends were seen, holes among them counted."""
        return sum(last - first + 1 for (topic, _), (first, last) in self._read.items() if topic == SEND_LATENCIES)

    def packs(self) -> Iterator[tuple[Key, Pack]]:
        """Each broker's pack, and each cluster's."""
        packs: dict[Key, Pack] = {}
        newest_ms: dict[str, int] = {}
        for (cluster, broker_name, _, _), builder in self._builders.items():
            attempts = builder.attempts
            packs.setdefault((cluster, broker_name), Pack()).attempts.append(attempts)
            packs.setdefault((cluster, None), Pack()).fleet.setdefault(broker_name, []).append(attempts)
            newest_ms[cluster] = max(newest_ms.get(cluster, 0), *(step.to_ms for step in attempts.steps))
        for key, forgotten in self._forgotten.items():
            packs.setdefault(key, Pack()).forgotten = forgotten
        for place, tick_ms in self._ticks.items():
            packs.setdefault(place, Pack()).tick_ms = tick_ms
            if place[1] is not None:
                packs.setdefault((place[0], None), Pack()).asked_ms[place[1]] = tick_ms
        for lag in self._lags.all():
            packs.setdefault((lag.cluster, None), Pack()).lags.append(lag)
        for key, pack in packs.items():
            if key[1] is None:
                pack.read = [Chunk(*place, *span, newest_ms, [], []) for place, span in sorted(self._read.items())]
        yield from packs.items()
