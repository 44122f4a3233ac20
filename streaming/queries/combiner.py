"""Send latencies run-lengthed before they are shared out: a producer and broker each.

Each broker's attempts go to the broker's key, to become rows, and to the cluster's, to be judged together.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from schemas.contract import MAX_BYTES, max_ahead_ms
from schemas.decode import LISTED_DECODERS, decode
from schemas.events import CLOCKS, EVENTS, SEND_LATENCIES
from streaming.queries.chunk import Chunk, Reject
from streaming.queries.event_time import SLACK_MS, Lags, at_most, not_after
from streaming.queries.shard_endings import BROKER, CLUSTER, FORGET, words_of
from udfs.attempts import QUIET_MS, Attempts, AttemptsBuilder
from udfs.skew import Lag

Key = tuple[str, str | None]
"""(cluster, broker_name); (cluster, None) is the cluster itself."""

MAX_AHEAD_MS = max_ahead_ms(EVENTS[SEND_LATENCIES])

LAG_EVERY_MS = 1_000
"""So often is noted how late a producer's attempts come, by Kafka's clock."""


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
        longest = pc.max(pc.binary_length(batch.column("value"))).as_py()
        if (longest or 0) <= MAX_BYTES:
            self._add_send_latencies(batch)
        else:
            for index in range(batch.num_rows):
                self._add_one(batch, index)

    def _add_send_latencies(self, batch: pa.RecordBatch) -> None:
        """The hot path: a million times a million. Anything but a good event takes `_add_one`."""
        partitions, offsets = batch.column("partition"), batch.column("offset")
        for partition in pc.unique(partitions).to_pylist():
            span = pc.min_max(offsets.filter(pc.equal(partitions, partition))).as_py()
            self._note_read((SEND_LATENCIES, partition), span["min"], span["max"])
        read, builders = LISTED_DECODERS[SEND_LATENCIES].decode, self._builders
        latest_ms = pc.min(batch.column("ingest_time_ms")).as_py() + MAX_AHEAD_MS
        ingested = batch.column("ingest_time_ms").to_pylist()
        for index, value in enumerate(batch.column("value").to_pylist()):
            try:
                event = read(value)
            except (msgspec.MsgspecError, TypeError, UnicodeDecodeError, RecursionError):
                self._add_one(batch, index)
                continue
            time_ms, ingest_time_ms = event.event_time_ms, ingested[index]
            if time_ms > latest_ms:
                self._add_one(batch, index)
                continue
            key = (event.cluster, event.broker_name, event.client_id, event.client_version)
            builder = builders.get(key)
            if builder is None:
                builder = builders[key] = AttemptsBuilder(event.client_id, event.client_version)
            if ingest_time_ms >= builder.lag_due_ms:
                self._note_lag(builder, event, ingest_time_ms)
            if time_ms > ingest_time_ms + SLACK_MS:
                time_ms = ingest_time_ms
            quick, latency_ms = builder.last_quick, event.latency_ms
            if (
                quick is not None
                and latency_ms < builder.quick_below_ms
                and event.isolation is False
                and event.reachable is not False
                and 0 <= time_ms - quick.to_ms < QUIET_MS
            ):
                quick.to_ms, quick.latency_ms = time_ms, latency_ms
            else:
                builder.add(time_ms, latency_ms, event.isolation, event.reachable is not False)

    def _add_one(self, batch: pa.RecordBatch, index: int) -> None:
        partition, offset, ingest_time_ms, value = (
            batch.column(name)[index].as_py() for name in ("partition", "offset", "ingest_time_ms", "value")
        )
        self._note_read((SEND_LATENCIES, partition), offset, offset)
        event, reasons = decode(SEND_LATENCIES, value, ingest_time_ms)
        if reasons:
            self.rejects.append((SEND_LATENCIES, partition, Reject(offset, ingest_time_ms, value, reasons)))
            return
        key = (event.cluster, event.broker_name, event.client_id, event.client_version)
        builder = self._builders.setdefault(key, AttemptsBuilder(event.client_id, event.client_version))
        self._note_lag(builder, event, ingest_time_ms)
        time_ms = not_after(event.event_time_ms, ingest_time_ms)
        builder.add(time_ms, event.latency_ms, event.isolation, event.reachable is not False)

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

    def _note_lag(self, builder: AttemptsBuilder, event: Any, ingest_time_ms: int) -> None:
        builder.lag_due_ms = ingest_time_ms + LAG_EVERY_MS
        lag_ms = ingest_time_ms - event.event_time_ms
        self._lags.note_send(event.cluster, event.broker_name, event.client_id, lag_ms, ingest_time_ms)

    def _note_forgotten(self, event: Any) -> None:
        """A cluster's end reaches its brokers too, as far as the event names them."""
        for one in event.forgotten or ():
            if one.kind not in (CLUSTER, BROKER):
                continue
            entry = (one.kind, one.name, event.event_time_ms, words_of(one))
            brokers = [one.name] if one.kind == BROKER else event.brokers_asked
            for broker_name in (*brokers, None):
                self._forgotten.setdefault((event.cluster, broker_name), []).append(entry)

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
                pack.read = [Chunk(*place, *span, newest_ms, [], []) for place, span in self._read.items()]
        yield from packs.items()
