"""Messages of the fault_items query run-lengthed before the shuffle: a producer and broker a Kafka partition.

Each broker's attempts go to the broker's key, to become rows, and to the cluster's, to be judged together.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from schemas.contract import MAX_BYTES, max_ahead_ms
from schemas.decode import LISTED_DECODERS, decode
from schemas.events import CLOCKS, EVENTS, SEND_LATENCIES
from streaming.queries.chunk import Chunk, Reject
from streaming.queries.event_time import SLACK_MS, Lags, at_most, not_after
from streaming.queries.shard_endings import BROKER, CLUSTER, FORGET, words_of
from udfs.attempts import QUIET_MS, Attempts, AttemptsBuilder
from udfs.skew import Lag

COMBINED = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("broker_name", T.StringType()),
        T.StructField("pack", T.BinaryType()),
    ]
)

Key = tuple[str | None, str | None]
"""(cluster, broker_name); (cluster, None) is the cluster itself. No event can have a None."""

MAX_AHEAD_MS = max_ahead_ms(EVENTS[SEND_LATENCIES])

LAG_EVERY_MS = 1_000
"""So often is noted how late a producer's attempts come, by Kafka's clock."""

REJECTS: Key = (None, None)
"""The key bad messages ride under; its state is never touched."""


class Pack(msgspec.Struct, array_like=True, gc=False):
    """What one Arrow batch holds for one key.

    attempts   of a broker: its producers' attempts
    tick_ms    of a broker or a cluster: its newest tick
    forgotten  of a broker or a cluster: what a person decided is gone, by kind and name; when, and in which words
    rejects    bad messages: topic, partition, message
    fleet      of a cluster: broker → its producers' attempts
    read       of a cluster: how far its partitions were read; chunks without messages
    asked_ms   of a cluster: broker → the newest tick that asked it
    lags       of a cluster: how far its sends and its clock events lag behind Kafka's clock
    """

    attempts: list[Attempts] = []
    tick_ms: int | None = None
    rejects: list[tuple[str, int, Reject]] = []
    fleet: dict[str, list[Attempts]] = {}
    read: list[Chunk] = []
    forgotten: list[tuple[str, str, int, str]] = []
    asked_ms: dict[str, int] = {}
    lags: list[Lag] = []

    def newest_ms(self) -> int:
        """The newest time in it."""
        attempts = [*self.attempts, *(one for of_broker in self.fleet.values() for one in of_broker)]
        return max((self.tick_ms or 0, *(of.steps[-1].to_ms for of in attempts if of.steps)))


_encode = msgspec.msgpack.Encoder().encode
decode_pack = msgspec.msgpack.Decoder(Pack).decode


def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for mapInArrow: messages in, one pack a key and Kafka partition out."""
    combiner = Combiner()
    for batch in batches:
        combiner.add(batch)
    packs = list(combiner.packs())
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([cluster for (cluster, _), _ in packs], pa.string()),
            pa.array([broker_name for (_, broker_name), _ in packs], pa.string()),
            pa.array([_encode(pack) for _, pack in packs], pa.binary()),
        ],
        names=COMBINED.names,
    )


class Combiner:
    """Run-lengths a Kafka partition's part of a batch, by broker and producer."""

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str, str, str], AttemptsBuilder] = {}
        self._ticks: dict[tuple[str, str | None], int] = {}
        self._rejects: list[tuple[str, int, Reject]] = []
        self._forgotten: dict[Key, list[tuple[str, str, int, str]]] = {}
        self._read: dict[tuple[str, int], tuple[int, int]] = {}
        self._lags = Lags()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in an Arrow batch of one topic and partition, or of several."""
        topics, longest = batch.column("topic"), pc.max(pc.binary_length(batch.column("value"))).as_py()
        if pc.all(pc.equal(topics, SEND_LATENCIES)).as_py() and (longest or 0) <= MAX_BYTES:
            self._add_send_latencies(batch)
        else:
            for index, topic in enumerate(topics.to_pylist()):
                self._add_one(topic, batch, index)

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
                self._add_one(SEND_LATENCIES, batch, index)
                continue
            time_ms, ingest_time_ms = event.event_time_ms, ingested[index]
            if time_ms > latest_ms:
                self._add_one(SEND_LATENCIES, batch, index)
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

    def _add_one(self, topic: str, batch: pa.RecordBatch, index: int) -> None:
        partition, offset, ingest_time_ms, value = (
            batch.column(name)[index].as_py() for name in ("partition", "offset", "ingest_time_ms", "value")
        )
        self._note_read((topic, partition), offset, offset)
        event, reasons = decode(topic, value, ingest_time_ms)
        if reasons and topic == CLOCKS:
            return  # the assignments query reads the same message, and keeps it
        if reasons:
            self._rejects.append((topic, partition, Reject(offset, ingest_time_ms, value, reasons)))
        elif topic == CLOCKS and event.source == FORGET:
            self._note_forgotten(event)
        elif topic == CLOCKS:
            self._lags.note(topic, event, ingest_time_ms)
            event = at_most(event, ingest_time_ms)
            for broker_name in (*event.brokers_asked, None):
                place = (event.cluster, broker_name)
                self._ticks[place] = max(self._ticks.get(place, 0), event.event_time_ms)
        else:
            key = (event.cluster, event.broker_name, event.client_id, event.client_version)
            builder = self._builders.setdefault(key, AttemptsBuilder(event.client_id, event.client_version))
            self._note_lag(builder, event, ingest_time_ms)
            time_ms = not_after(event.event_time_ms, ingest_time_ms)
            builder.add(time_ms, event.latency_ms, event.isolation, event.reachable is not False)

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

    def packs(self) -> Iterator[tuple[Key, Pack]]:
        """Each broker's pack, each cluster's, and one of the bad messages."""
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
        if self._rejects:
            yield REJECTS, Pack(rejects=self._rejects)
