"""Messages into parcels: each is decoded and checked once here, and goes to the shards that it concerns.

    pack ─► PartitionPack  events of groups: a chunk for each Kafka partition and shard
         ─► Combiner       send latencies, run-length encoded by producer and broker, as columns

The shard decodes what it evaluates anew: an event encoded for it costs more than its JSON.
"""

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nsmallest
from importlib import import_module
from itertools import pairwise
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
from udfs.brokers.skew import WINDOW_MS, Behind, Lag, find_behind, was_written_at_once
from udfs.groups.queue_state import is_cache_full
from udfs.producers.attempts import QUIET_MS, AttemptsBuilder

with without("pandas"), suppress(ModuleNotFoundError):  # pyarrow and PySpark look for it once in a process
    pa.array([])
    import_module("pyspark.testing.utils")  # `replay` works without PySpark


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
    for first, end in stretches_of(batch):
        topic, partition = batch.column("topic")[first].as_py(), batch.column("partition")[first].as_py()
        rows = batch.slice(first, end - first)
        offsets, times_ms, values = (rows.column(name).to_pylist() for name in ("offset", "ingest_time_ms", "value"))
        known = packs.get((topic, partition))
        if known is None:
            known = packs[topic, partition] = PartitionPack(topic, partition, offsets[0], shards)
        known.add(zip(offsets, times_ms, values, strict=True), combiner)
    return packs.values()


def stretches_of(batch: pa.RecordBatch) -> Iterable[tuple[int, int]]:
    """Return the first row of each stretch of one topic and partition, and the row after its last; a batch has few."""
    topic, partition = integers_of(batch.column("topic").dictionary_encode().indices), batch.column("partition")
    is_other = (np.diff(topic) != 0) | (np.diff(integers_of(partition)) != 0)
    return pairwise([0, *(np.flatnonzero(is_other) + 1).tolist(), batch.num_rows])


_LEAST_LAG_MS = {skew.OF_CLIENT: skew.CLIENT_MS, skew.SENDS_OF: skew.TOLD_MS}

Windows = dict[int, int]
"""Window to the least lag in it."""


class Lags:
    """The least lag of each source in each window."""

    def __init__(self) -> None:
        self._least: dict[tuple[str, str, str], Windows] = {}
        self._most: dict[tuple[str, str, str, int], int] = {}  # only of clock events

    def windows_of(self, cluster: str, source: str, machine: str) -> Windows:
        """Return the windows of a source, for `note_least`."""
        return self._least.setdefault((cluster, source, machine), {})

    def note_clock(self, event: Any, ingest_time_ms: int) -> None:
        source = source_of(CLOCKS, event)
        if source is None:
            return
        lag, window = ingest_time_ms - event.event_time_ms, ingest_time_ms // WINDOW_MS
        note_least(self.windows_of(event.cluster, *source), window, lag)
        key = (event.cluster, *source, window)
        self._most[key] = max(lag, self._most.get(key, lag))

    def note_send(self, cluster: str, broker_name: str, client_id: str, lag: int, ingest_time_ms: int) -> None:
        """Note a lag of the client, and of the broker's agent that may have reported the send."""
        for source in ((skew.SENDS, broker_name), (skew.SENDS_OF, client_id)):
            note_least(self.windows_of(cluster, *source), ingest_time_ms // WINDOW_MS, lag)

    def all(self) -> list[Lag]:
        """Return all lags; of clients only large ones, the others need not be remembered."""
        return sorted(
            Lag(*source, window, least_ms, self._most.get((*source, window), 0))
            for source, windows in self._least.items()
            for window, least_ms in windows.items()
            if abs(least_ms) >= _LEAST_LAG_MS.get(source[1], 0)
        )


def note_least(windows: Windows, window: int, lag: int) -> None:
    if lag < windows.get(window, lag + 1):
        windows[window] = lag


MOST_PULLERS = 16
"""Pairs of group and client at a broker that one partition passes on."""

NO_PULLER = ("", "")

Reported = tuple[int, int]
"""The time that an event reports, and Kafka's time of it."""


@dataclass(slots=True)
class OfBroker:
    """What the events of a partition say of a broker.

    windows  of its heartbeats or its pulls
    pulls    by (group, client) and by spans of PULLING_MS, the newest pull: its times, and whether it is held back
    reports  by such spans, the first and the newest pull that the broker itself reported
    """

    windows: Windows
    pulls: dict[tuple[str, str], dict[int, tuple[int, int, bool]]] = field(default_factory=dict)
    reports: dict[int, tuple[Reported, Reported]] = field(default_factory=dict)


@dataclass(slots=True)
class OfCluster:
    """What the events of a partition say of a cluster: its times (Chunk.newest_ms, Span) and what is noted by source.

    values  of pulls or heartbeats, in their order
    """

    first_ms: int
    newest_ms: int
    oldest_event_ms: int
    newest_event_ms: int
    brokers: dict[str, OfBroker] = field(default_factory=dict)
    clients: dict[str, Windows] = field(default_factory=dict)
    values: list[bytes] = field(default_factory=list)

    def note(self, time_ms: int, ingest_time_ms: int) -> None:
        self.newest_ms = max(self.newest_ms, ingest_time_ms)
        self.oldest_event_ms = min(self.oldest_event_ms, time_ms)
        self.newest_event_ms = max(self.newest_event_ms, time_ms)


class PartitionPack:
    """One Kafka partition's part of an Arrow batch: messages in, in their order; a chunk for each shard out."""

    def __init__(self, topic: str, partition: int, first_offset: int, shards: int) -> None:
        self._topic, self._shards = topic, shards
        self._header = Chunk(topic, partition, first_offset, first_offset, {}, [], [])
        self._messages: list[list[Message]] = [[] for _ in range(shards)]
        self._clusters: dict[str, OfCluster] = {}
        self._lags = Lags()

    def add(self, messages: Iterable[tuple[int, int, bytes | None]], combiner: "Combiner") -> None:
        """Take in messages: offset, Kafka's time, value. The combiner notes clock events, too."""
        topic, header, clusters = self._topic, self._header, self._clusters
        for offset, ingest_time_ms, value in messages:
            header.last_offset = offset
            event, reasons = decode(topic, value, ingest_time_ms)
            if topic == CLOCKS:
                combiner.note_clock(header.partition, offset, ingest_time_ms, event)
            if reasons:
                self._reject(Reject(offset, ingest_time_ms, value, reasons))
                continue
            if topic == CLOCKS:
                self._lags.note_clock(event, ingest_time_ms)
            reported_ms, event = event.event_time_ms, at_most(event, ingest_time_ms)
            cluster, time_ms = event.cluster, event.event_time_ms
            of_cluster = clusters.get(cluster)
            if of_cluster is None:
                of_cluster = clusters[cluster] = OfCluster(ingest_time_ms, ingest_time_ms, time_ms, time_ms)
            of_cluster.note(time_ms, ingest_time_ms)
            message = Message(offset, ingest_time_ms, value or b"", reported_ms)
            if topic in (PULLS, HEARTBEATS):
                note = self._note_pull if topic == PULLS else self._note_heartbeat
                note(of_cluster, event, (reported_ms, ingest_time_ms))
                of_cluster.values.append(message.value)
            for number in _shards_for(topic, event, self._shards):
                self._messages[number].append(message)

    def _reject(self, reject: Reject) -> None:
        header, value = self._header, reject.value
        header.rejects.append(reject)
        names = [reason.partition(":")[0] for reason in reject.reasons]
        if self._topic == CLOCKS and value is not None and names == ["time_ahead"]:
            clock, ingest_time_ms = DECODERS[CLOCKS].decode(value), reject.ingest_time_ms
            ahead_ms = clock.event_time_ms - ingest_time_ms
            header.ahead.append(Ahead(clock.cluster, clock.collector or clock.source, ingest_time_ms, ahead_ms))

    def _broker(self, of_cluster: OfCluster, event: Any, source: str) -> OfBroker:
        windows = self._lags.windows_of(event.cluster, source, event.broker_name)
        known = of_cluster.brokers[event.broker_name] = OfBroker(windows)
        return known

    def _note_heartbeat(self, of_cluster: OfCluster, event: Any, reported: Reported) -> None:
        of_broker = of_cluster.brokers.get(event.broker_name) or self._broker(of_cluster, event, skew.HEARTBEATS)
        reported_ms, ingest_time_ms = reported
        note_least(of_broker.windows, ingest_time_ms // WINDOW_MS, ingest_time_ms - reported_ms)
        is_leaving = bool(event.leaving)
        if not event.broker_id and (event.consumers or is_leaving):
            groups = {consumer.consumer_group for consumer in event.consumers if not is_leaving}
            families = tuple(sorted(filter(family_of, groups)))
            who = event.cluster, event.broker_name, event.client_id
            self._header.sampled_heartbeats.append(
                SampledHeartbeat(*who, reported_ms, is_leaving, families, ingest_time_ms, event.client_addr)
            )

    def _note_pull(self, of_cluster: OfCluster, event: Any, reported: Reported) -> None:
        of_broker = of_cluster.brokers.get(event.broker_name) or self._broker(of_cluster, event, skew.PULLS)
        reported_ms, ingest_time_ms = reported
        client_id, window, lag = event.client_id, ingest_time_ms // WINDOW_MS, ingest_time_ms - reported_ms
        note_least(of_broker.windows, window, lag)
        if client_id:
            windows = of_cluster.clients.get(client_id)
            if windows is None:
                windows = self._lags.windows_of(event.cluster, skew.OF_CLIENT, client_id)
                of_cluster.clients[client_id] = windows
            note_least(windows, window, lag)
        step = event.event_time_ms // PULLING_MS
        if event.suggest_broker_id is not None:
            pulled_ms, broker = self._header.pulled_ms, (event.cluster, event.broker_name)
            pulled_ms[broker] = min(pulled_ms.get(broker, event.event_time_ms), event.event_time_ms)
            first, newest = of_broker.reports.get(step, (reported, reported))
            of_broker.reports[step] = min(first, reported), max(newest, reported)
        client = "" if event.offsets_only else client_id or event.client_addr or ""
        puller = (event.consumer_group, client) if client else NO_PULLER
        of_puller = of_broker.pulls.get(puller)
        if of_puller is None:
            of_puller = of_broker.pulls[puller] = {}
        known = of_puller.get(step)
        if known is None or reported_ms >= known[0]:
            pull = (*reported, is_cache_full(event))
            of_puller[step] = pull if known is None else max(pull, known)

    def chunks(self) -> list[Chunk]:
        """Return the chunks in the order of the shards; only the first shard gets the invalid messages."""
        header = self._header
        for cluster, of in sorted(self._clusters.items()):
            header.newest_ms[cluster] = of.newest_event_ms
            if self._topic != CLOCKS:
                header.spans[cluster] = Span(of.first_ms, of.newest_ms, of.oldest_event_ms)
            if self._topic in (PULLS, HEARTBEATS):
                header.behind += self._find_behind(cluster, of)
        header.pullings, header.lags = sorted(self._sample()), self._lags.all()
        return [
            msgspec.structs.replace(header, messages=messages, rejects=[] if number else header.rejects)
            for number, messages in enumerate(self._messages)
        ]

    def _find_behind(self, cluster: str, of: OfCluster) -> list[Behind]:
        """Decode the messages of a log that was written at once again: kept decoded, they would slow down every log."""
        ingest_span_ms = of.newest_ms - of.first_ms
        if not was_written_at_once(of.newest_event_ms - of.oldest_event_ms, ingest_span_ms):
            return []
        events = map(DECODERS[self._topic].decode, of.values)
        if self._topic == PULLS:
            return find_behind(cluster, skew.PULLS, list(events), ingest_span_ms)
        beats = [event for event in events if not event.leaving and not event.is_listed_only]
        return find_behind(cluster, skew.HEARTBEATS, beats, ingest_span_ms)

    def _sample(self) -> Iterator[Pulling]:
        """Yield the MOST_PULLERS pairs of the smallest hash at each broker: every partition picks the same ones."""
        for cluster, of_cluster in self._clusters.items():
            for broker_name, of in of_cluster.brokers.items():
                pullers = nsmallest(MOST_PULLERS, of.pulls.keys() - {NO_PULLER}, lambda who: rank(puller_key(*who)))
                for puller in (NO_PULLER, *pullers):
                    for pull in of.pulls.get(puller, {}).values():
                        yield Pulling(cluster, broker_name, *puller, pull[0], pull[1], is_held_back=pull[2])
                for reports in of.reports.values():
                    for reported in sorted(set(reports)):
                        yield Pulling(cluster, broker_name, "", "", *reported, is_by_broker=True)


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
        self._lags.note_clock(event, ingest_time_ms)
        event = at_most(event, ingest_time_ms)
        for broker_name in (*event.brokers_asked, None):
            place = (event.cluster, broker_name)
            self._ticks[place] = max(self._ticks.get(place, 0), event.event_time_ms)
        self._ticks_ms.setdefault(event.cluster, set()).add(event.event_time_ms)

    def _note_all_read(self, batch: pa.RecordBatch) -> None:
        """Note the offsets read, by stretches of one topic and partition, of which a batch has few."""
        offsets = integers_of(batch.column("offset"))
        for first, end in stretches_of(batch):
            place = batch.column("topic")[first].as_py(), batch.column("partition")[first].as_py()
            self._note_read(place, int(offsets[first:end].min()), int(offsets[first:end].max()))

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
