"""Messages into parcels: each is decoded and checked once here, and goes to the shards that it concerns.

    pack ─► PartitionPack  events of groups: a chunk for each Kafka partition and shard
         ─► Combiner       send latencies, run-length encoded by producer and broker, as columns

The shard decodes what it evaluates anew: an event encoded for it costs more than its JSON.
"""

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from contextlib import suppress
from heapq import nsmallest
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.decode import DECODERS, decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, SEND_LATENCIES
from schemas.send_columns import Integers, Sends, integers_of, read_sends
from streaming.queries.events import BROKER, CLUSTER, FORGET, SLACK_MS, at_most, source_of, words_of
from streaming.queries.parcel import PULLING_MS, Ahead, Chunk, Key, Message, Pack, Parcel, Reject, Span, shard_of
from streaming.system.light_imports import without
from udfs.alerts.phrase import Words
from udfs.brokers import skew
from udfs.brokers.families import family_of
from udfs.brokers.heartbeat_sample import rank
from udfs.brokers.mute_brokers import Pulling, SampledHeartbeat, puller_key
from udfs.brokers.skew import WINDOW_MS, Behind, Lag, LogOrder
from udfs.groups.queue_state import is_cache_full
from udfs.producers.attempts import QUIET_MS, AttemptsBuilder

with without("pandas"), suppress(ModuleNotFoundError):  # pyarrow and PySpark look for it once in a process
    pa.array([])
    import_module("pyspark.testing.utils")  # `replay` works without PySpark

COLUMNS = ("topic", "partition", "offset", "ingest_time_ms", "value")


def pack(batches: Iterable[pa.RecordBatch], shards: int) -> Iterator[list[Parcel]]:
    """Yield a parcel for each shard: events of groups after each Arrow batch, all sends with the last one.

    Every shard gets one, because each needs the offsets up to which the partitions were read.
    """
    combiner, held = Combiner(), None
    for batch in batches:
        if held is not None:
            yield held
        held = [Parcel([], []) for _ in range(shards)]
        is_send = pc.equal(batch.column("topic"), SEND_LATENCIES)
        sends = pc.sum(is_send).as_py() or 0
        if sends:
            combiner.add(batch if sends == batch.num_rows else batch.filter(is_send))
        if sends < batch.num_rows:
            others = batch.filter(pc.invert(is_send)) if sends else batch
            for partition in _pack_partitions(others, shards, combiner):
                for parcel, chunk in zip(held, partition.chunks(), strict=True):
                    parcel.chunks.append(chunk)
    if held is not None:
        for (cluster, broker_name), of_key in combiner.packs():
            held[shard_of(cluster, broker_name or "", shards)].sends.append((cluster, broker_name, of_key))
        held[0].rejects = combiner.rejects
        yield held


def _pack_partitions(batch: pa.RecordBatch, shards: int, combiner: "Combiner") -> Iterable["PartitionPack"]:
    packs: dict[tuple[str, int], PartitionPack] = {}
    columns = (batch.column(name).to_pylist() for name in COLUMNS)
    for topic, partition, offset, ingest_time_ms, value in zip(*columns, strict=True):
        known = packs.get((topic, partition))
        if known is None:
            known = packs[topic, partition] = PartitionPack(topic, partition, offset, shards)
        event, reasons = decode(topic, value, ingest_time_ms)
        if topic == CLOCKS:
            combiner.note_clock(partition, offset, ingest_time_ms, event)
        known.add(offset, ingest_time_ms, value, event, reasons)
    return packs.values()


_LEAST_LAG_MS = {skew.OF_CLIENT: skew.CLIENT_MS, skew.SENDS_OF: skew.TOLD_MS}


class Lags:
    """The least lag of each source in each window."""

    def __init__(self) -> None:
        self._least: dict[tuple[str, str, str, int], int] = {}
        self._most: dict[tuple[str, str, str, int], int] = {}  # only of clock events
        self._orders: dict[str, LogOrder] = {}

    def note(self, topic: str, event: Any, ingest_time_ms: int) -> None:
        source = source_of(topic, event)
        if source is None:
            return
        lag, window = ingest_time_ms - event.event_time_ms, ingest_time_ms // WINDOW_MS
        self._note(event.cluster, source, window, lag)
        if topic == CLOCKS:
            key = (event.cluster, *source, window)
            self._most[key] = max(lag, self._most.get(key, lag))
        if topic == PULLS or (topic == HEARTBEATS and not event.leaving and not event.is_listed_only):
            client_id = event.client_id if topic == PULLS else None
            order = self._orders.get(event.cluster) or self._orders.setdefault(event.cluster, LogOrder())
            order.note(*source, client_id, event.event_time_ms, ingest_time_ms)
        if topic == PULLS and event.client_id:
            self._note(event.cluster, (skew.OF_CLIENT, event.client_id), window, lag)

    def note_send(self, cluster: str, broker_name: str, client_id: str, lag: int, ingest_time_ms: int) -> None:
        """Note a lag of the client, and of the broker's agent that may have reported the send."""
        for source in ((skew.SENDS, broker_name), (skew.SENDS_OF, client_id)):
            self._note(cluster, source, ingest_time_ms // WINDOW_MS, lag)

    def _note(self, cluster: str, source: tuple[str, str], window: int, lag: int) -> None:
        key = (cluster, *source, window)
        if lag < self._least.get(key, lag + 1):
            self._least[key] = lag

    def behind(self) -> list[Behind]:
        return [behind for cluster, order in sorted(self._orders.items()) for behind in order.behind(cluster)]

    def all(self) -> list[Lag]:
        """Return all lags; of clients only large ones, the others need not be remembered."""
        return [
            Lag(*key, least_ms, self._most.get(key, 0))
            for key, least_ms in sorted(self._least.items())
            if abs(least_ms) >= _LEAST_LAG_MS.get(key[1], 0)
        ]


MOST_PULLERS = 16
"""Pairs of group and client at a broker that one partition passes on."""

NEVER = (0, 0, False)
NO_PULLER = ("", "")


class PartitionPack:
    """One Kafka partition's part of an Arrow batch: messages in, in their order; a chunk for each shard out."""

    def __init__(self, topic: str, partition: int, first_offset: int, shards: int) -> None:
        self._topic, self._shards = topic, shards
        self._header = Chunk(topic, partition, first_offset, first_offset, {}, [], [])
        self._messages: list[list[Message]] = [[] for _ in range(shards)]
        self._lags = Lags()
        self._by_broker: dict[tuple[str, str, int], tuple[tuple[int, int], tuple[int, int]]] = {}
        self._pullings: dict[tuple[str, str, tuple[str, str], int], tuple[int, int, bool]] = {}

    def add(self, offset: int, ingest_time_ms: int, value: bytes | None, event: Any, reasons: list[str]) -> None:
        """Take in a message: its decoded event, or why it is invalid."""
        topic, header = self._topic, self._header
        header.last_offset = offset
        if reasons:
            header.rejects.append(Reject(offset, ingest_time_ms, value, reasons))
            if topic == CLOCKS and value is not None and [name.partition(":")[0] for name in reasons] == ["time_ahead"]:
                clock = DECODERS[CLOCKS].decode(value)
                ahead_ms = clock.event_time_ms - ingest_time_ms
                header.ahead.append(Ahead(clock.cluster, clock.collector or clock.source, ingest_time_ms, ahead_ms))
            return
        self._lags.note(topic, event, ingest_time_ms)
        reported_ms, event = event.event_time_ms, at_most(event, ingest_time_ms)
        if event.event_time_ms > header.newest_ms.get(event.cluster, -1):
            header.newest_ms[event.cluster] = max(event.event_time_ms, 0)
        if topic != CLOCKS:
            time_ms = event.event_time_ms
            span = header.spans.get(event.cluster) or Span(ingest_time_ms, ingest_time_ms, time_ms)
            if ingest_time_ms > span.newest_ms or time_ms < span.oldest_event_ms:
                span = Span(span.first_ms, max(span.newest_ms, ingest_time_ms), min(span.oldest_event_ms, time_ms))
            header.spans[event.cluster] = span
        if topic == PULLS:
            self._note_pull(event, reported_ms, ingest_time_ms)
        if topic == HEARTBEATS and not event.broker_id and (event.consumers or event.leaving):
            is_leaving = bool(event.leaving)
            groups = {consumer.consumer_group for consumer in event.consumers if not is_leaving}
            families = tuple(sorted(filter(family_of, groups)))
            who = event.cluster, event.broker_name, event.client_id
            header.sampled_heartbeats.append(
                SampledHeartbeat(*who, reported_ms, is_leaving, families, ingest_time_ms, event.client_addr)
            )
        message = Message(offset, ingest_time_ms, value or b"")
        for number in _shards_for(topic, event, self._shards):
            self._messages[number].append(message)

    def _note_pull(self, event: Any, reported_ms: int, ingest_time_ms: int) -> None:
        header, broker, step = self._header, (event.cluster, event.broker_name), event.event_time_ms // PULLING_MS
        if event.suggest_broker_id is not None:
            header.pulled_ms[broker] = min(header.pulled_ms.get(broker, event.event_time_ms), event.event_time_ms)
            reported = reported_ms, ingest_time_ms
            first, newest = self._by_broker.get((*broker, step), (reported, reported))
            self._by_broker[*broker, step] = min(first, reported), max(newest, reported)
        client = "" if event.offsets_only else event.client_id or event.client_addr or ""
        puller = (event.consumer_group, client) if client else NO_PULLER
        known = self._pullings.get((*broker, puller, step), NEVER)
        if reported_ms >= known[0]:
            self._pullings[*broker, puller, step] = max((reported_ms, ingest_time_ms, is_cache_full(event)), known)

    def chunks(self) -> list[Chunk]:
        """Return the chunks in the order of the shards; only the first shard gets the invalid messages."""
        header = self._header
        header.pullings = sorted(self._sample())
        header.lags, header.behind = self._lags.all(), self._lags.behind()
        return [
            msgspec.structs.replace(header, messages=messages, rejects=[] if number else header.rejects)
            for number, messages in enumerate(self._messages)
        ]

    def _sample(self) -> Iterator[Pulling]:
        """Yield the MOST_PULLERS pairs of the smallest hash at each broker: every partition picks the same ones."""
        by_broker: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for cluster, broker_name, puller, _ in self._pullings:
            by_broker.setdefault((cluster, broker_name), set()).add(puller)
        picked = {
            place: {NO_PULLER, *nsmallest(MOST_PULLERS, pullers - {NO_PULLER}, key=lambda of: rank(puller_key(*of)))}
            for place, pullers in by_broker.items()
        }
        for (cluster, broker_name, puller, _), newest in self._pullings.items():
            if puller in picked[cluster, broker_name]:
                group, client = puller
                yield Pulling(cluster, broker_name, group, client, *newest)
        for (cluster, broker_name, _), times in self._by_broker.items():
            for time in sorted(set(times)):
                yield Pulling(cluster, broker_name, "", "", *time, is_by_broker=True)


def _shards_for(topic: str, event: Any, shards: int) -> Collection[int]:
    """Return the shards that an event concerns: all for routes, clock events, a client leaving without groups."""
    if topic == PULLS:
        return (shard_of(event.cluster, event.consumer_group, shards),)
    if topic == HEARTBEATS and (event.consumers or not event.leaving):
        return {shard_of(event.cluster, consumer.consumer_group, shards) for consumer in event.consumers}
    return range(shards)


class Combiner:
    """Run-length encodes a task's send latencies. `rejects` are the invalid ones with their places.

    Each broker's attempts go to the broker's key, to become rows, and to the cluster's, to be evaluated together.
    """

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str, str, str], AttemptsBuilder] = {}
        self._ticks: dict[tuple[str, str | None], int] = {}
        self._ticks_ms: dict[str, set[int]] = {}
        self.rejects: list[tuple[str, int, Reject]] = []
        self._forgotten: dict[Key, list[tuple[str, str, int, Words]]] = {}
        self._read: dict[tuple[str, int], tuple[int, int]] = {}
        self._lags = Lags()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in send latencies of one partition or of several: the hot path, a million a second."""
        ingest_time_ms = integers_of(batch.column("ingest_time_ms"))
        sends = read_sends(batch.column("value"), ingest_time_ms)
        add_runs(sends, ingest_time_ms, self._builders, self._lags)
        for row, reasons in sends.bad:
            partition, offset, ingested_ms, value = (
                batch.column(name)[row].as_py() for name in ("partition", "offset", "ingest_time_ms", "value")
            )
            self.rejects.append((SEND_LATENCIES, partition, Reject(offset, ingested_ms, value, reasons)))
        self._note_all_read(batch)

    def note_clock(self, partition: int, offset: int, ingest_time_ms: int, event: Any) -> None:
        """Take in a clock event; None for an invalid one."""
        self._note_read((CLOCKS, partition), offset, offset)
        if event is None:
            return
        if event.source == FORGET:  # a decision about the cluster reaches the brokers that the event names
            for decision in event.forgotten or ():
                if decision.kind in (CLUSTER, BROKER):
                    entry = (decision.kind, decision.name, event.event_time_ms, words_of(decision))
                    for broker_name in (*([decision.name] if decision.kind == BROKER else event.brokers_asked), None):
                        self._forgotten.setdefault((event.cluster, broker_name), []).append(entry)
            return
        self._lags.note(CLOCKS, event, ingest_time_ms)
        event = at_most(event, ingest_time_ms)
        for broker_name in (*event.brokers_asked, None):
            place = (event.cluster, broker_name)
            self._ticks[place] = max(self._ticks.get(place, 0), event.event_time_ms)
        self._ticks_ms.setdefault(event.cluster, set()).add(event.event_time_ms)

    def _note_all_read(self, batch: pa.RecordBatch) -> None:
        """Note the offsets read, by stretches of one topic and partition, of which a batch has few."""
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

    def packs(self) -> Iterator[tuple[Key, Pack]]:
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
        for cluster, ticks_ms in self._ticks_ms.items():
            packs.setdefault((cluster, None), Pack()).ticks_ms = sorted(ticks_ms)
        for lag in self._lags.all():
            packs.setdefault((lag.cluster, None), Pack()).lags.append(lag)
        for key, of_key in packs.items():
            if key[1] is None:
                of_key.read = [Chunk(*place, *span, newest_ms, [], []) for place, span in sorted(self._read.items())]
        yield from packs.items()


Builders = MutableMapping[tuple[str, str, str, str], AttemptsBuilder]
"""(cluster, broker_name, client_id, client_version) to the builder of its attempts."""


def builder_for(builders: Builders, event: Any) -> AttemptsBuilder:
    key = event.cluster, event.broker_name, event.client_id, event.client_version
    return builders.get(key) or builders.setdefault(key, AttemptsBuilder(event.client_id, event.client_version))


def add_runs(sends: Sends, ingest_time_ms: Integers, builders: Builders, lags: Lags) -> None:
    """Add the valid attempts to builders and lags: the same as one by one, but Python sees only the ends of a run.

    The columns are sorted by builder, so that all attempts of one are together, in the order they came in.
    """
    rows = np.flatnonzero(sends.which >= 0)
    if not len(rows):
        return
    events = sends.events
    of_event = _builders_of_events(sends, rows, builders)
    numbers: dict[AttemptsBuilder, int] = {}
    number_of = np.array([numbers.setdefault(builder, len(numbers)) for builder in of_event], np.int32)
    number = number_of[sends.which[rows]]  # small integers, which numpy sorts by radix
    small = np.uint16 if len(number) <= 1 << 16 or number.max() < 1 << 16 else np.int64
    rows = rows[np.argsort(number.astype(small), kind="stable")]
    which, time_ms, ingested_ms = sends.which[rows], sends.event_time_ms[rows], ingest_time_ms[rows]
    same_builder = np.diff(number_of[which]) == 0

    # The least lag of each stretch of one builder and one window.
    first = np.flatnonzero(np.append(True, ~(same_builder & (np.diff(ingested_ms // WINDOW_MS) == 0))))
    least_lag_ms = np.minimum.reduceat(ingested_ms - time_ms, first)
    for place, lag_ms, at_ms in zip(
        which[first].tolist(), least_lag_ms.tolist(), ingested_ms[first].tolist(), strict=True
    ):
        event = events[place]
        lags.note_send(event.cluster, event.broker_name, event.client_id, lag_ms, at_ms)

    # Each attempt; of quick ones in order and close together only the first and the last.
    time_ms = np.where(time_ms - SLACK_MS > ingested_ms, ingested_ms, time_ms)  # events.not_after
    latency_ms, later_ms = sends.latency_ms[rows], np.diff(time_ms)
    ends = [(event.isolation, event.reachable is not False) for event in events]
    quick_below = [builder.quick_below(*end) for builder, end in zip(of_event, ends, strict=True)]
    is_quick = latency_ms < np.array(quick_below)[which]
    continues = same_builder & is_quick[1:] & is_quick[:-1] & (later_ms >= 0) & (later_ms < QUIET_MS)
    first = np.flatnonzero(np.append(True, ~continues))
    last = np.append(first[1:], len(which)) - 1
    columns = (which[first], time_ms[first], latency_ms[first], last > first, time_ms[last], latency_ms[last])
    for place, from_ms, first_latency_ms, is_run, to_ms, last_latency_ms in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        of_event[place].add(from_ms, first_latency_ms, *ends[place])
        if is_run:
            of_event[place].go_on(to_ms, last_latency_ms)


def _builders_of_events(sends: Sends, rows: Integers, builders: Builders) -> list[AttemptsBuilder]:
    """Return the builders by the events' places; new ones in the order of first attempts, none without an attempt."""
    first_row = np.full(len(sends.events), len(sends.which))
    first_row[sends.which[rows[::-1]]] = rows[::-1]
    of_place: dict[int, AttemptsBuilder] = {}
    unused: Builders = {}
    for place in np.argsort(first_row, kind="stable").tolist():
        is_used = first_row[place] < len(sends.which)
        of_place[place] = builder_for(builders if is_used else unused, sends.events[place])
    return [of_place[place] for place in range(len(sends.events))]
