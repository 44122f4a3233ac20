"""A shard's messages as events in the order of time, and back into chunks as they came.

An event's time is by Kafka's clock: never later than its arrival, and moved forward if its source's clock is behind.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from msgspec import structs

from schemas.decode import DECODERS
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.parcel import Chunk, Message, Reject
from streaming.queries.state import ClusterEntry, ShardIndex
from udfs.alerts.phrase import Phrase, phrase
from udfs.brokers import skew
from udfs.brokers.mute_brokers import Pulling, SampledHeartbeat
from udfs.brokers.skew import WINDOW_MS, pick_behind

RUN = "run"
"""The source of the clock events that `balancewatch run` itself sends."""

FORGET = "forget"
"""The source of clock events that carry a person's decision to forget and do not advance time."""

CLUSTER, BROKER, GROUP, COLLECTOR = "cluster", "broker", "group", "collector"
"""Kinds in a clock event's `forgotten`."""

SLACK_MS = 10_000
"""An event time at most this far ahead of Kafka's is kept: no two clocks agree to the millisecond."""

_SOURCES = {HEARTBEATS: skew.HEARTBEATS, PULLS: skew.PULLS}


def words_of(decision: Any) -> Phrase:
    if not decision.reason:
        return phrase("Forgotten by {owner}.", owner=decision.owner)
    return phrase("Forgotten by {owner}: {reason}.", owner=decision.owner, reason=decision.reason)


def source_of(topic: str, event: Any) -> tuple[str, str] | None:
    """Return (source, machine) of the event's clock; None if its time only orders the events of its topic."""
    if topic == CLOCKS:
        return (skew.CLOCK, event.collector or event.source) if event.source != FORGET else None
    return (_SOURCES[topic], event.broker_name) if topic in _SOURCES else None


def not_after(time_ms: int, ingest_time_ms: int) -> int:
    """Return the time, or its arrival in Kafka if it is ahead of that."""
    return ingest_time_ms if time_ms > ingest_time_ms + SLACK_MS else time_ms


def at_most(event: Any, ingest_time_ms: int) -> Any:
    """Return the event, no later than its arrival in Kafka."""
    return _at(event, not_after(event.event_time_ms, ingest_time_ms))


def _at(event: Any, time_ms: int) -> Any:
    return event if time_ms == event.event_time_ms else structs.replace(event, event_time_ms=time_ms)


SAMPLED = "sampled_heartbeats"
"""Not a Kafka topic: events of mute_brokers.SampledHeartbeat."""

PULLINGS = "pullings"
"""Not a Kafka topic: events of mute_brokers.Pulling."""

_RANK = {ROUTES: 0, SAMPLED: 1, PULLINGS: 1, HEARTBEATS: 1, PULLS: 2, CLOCKS: 3}


class Event(NamedTuple):
    """`raw` is the event as it came, `event` has the time by which it counts.

    A batch's events wait undecoded until each is applied: decoded all at once they cost a quarter more CPU and memory.
    """

    time_ms: int
    rank: int
    partition: int
    offset: int
    topic: str
    cluster: str
    raw: Message | SampledHeartbeat | Pulling
    decoded: Any = None

    @property
    def event(self) -> Any:
        """The event, decoded anew at each call unless `decoded` has it."""
        if self.decoded is not None or not isinstance(self.raw, Message):
            return self.decoded
        return _at(DECODERS[self.topic].decode(self.raw.value), self.time_ms)

    @property
    def ingest_time_ms(self) -> int:
        """Kafka's time of the message; of a sampled event, which has none, its own time."""
        return self.raw.ingest_time_ms if isinstance(self.raw, Message) else self.time_ms

    def reject(self, reasons: list[str]) -> Reject:
        """Return the message with the reasons; empty for a sampled event, part of a message counted elsewhere."""
        if isinstance(self.raw, Message):
            return Reject(self.raw.offset, self.raw.ingest_time_ms, self.raw.value, reasons)
        return Reject(0, self.time_ms, b"", reasons)


IN_ORDER = itemgetter(0, 1, 2, 3, 4)
"""By time; at the same time routes come first and the clock event last."""


class EventTimes:
    """The event times of one batch of one shard. A message is decoded once, clock events before all others."""

    def __init__(self, shard_index: ShardIndex) -> None:
        self._index = shard_index
        self._clocks: dict[int, list[Any]] = {}
        self._rounds: list[tuple[int, Any]] = []
        self._intervals: dict[str, int] | None = None
        self._shifts: dict[tuple[str, str, str], int] = {}
        self._behind: dict[str, int] = {}
        self._in_step: dict[str, bool] = {}

    def learn(self, chunks: list[Chunk], is_silent: Callable[[str], bool]) -> None:
        """Take in the lags of the chunks before their events are counted, except of silent forgotten clusters."""
        decode = DECODERS[CLOCKS].decode
        ticks: dict[str, int] = {}
        for chunk in chunks:
            if chunk.topic == CLOCKS:
                clocks = self._clocks[id(chunk)] = [decode(message.value) for message in chunk.messages]
                self._rounds += [
                    (not_after(clock.event_time_ms, message.ingest_time_ms), clock)
                    for message, clock in zip(chunk.messages, clocks, strict=True)
                ]
                for cluster, time_ms in chunk.newest_ms.items():
                    ticks[cluster] = max(time_ms, ticks.get(cluster, 0))
        windows = {name: at_ms // WINDOW_MS for name, at_ms in self._index.forgotten_ms.items()}
        lags = [
            lag
            for chunk in chunks
            for lag in chunk.lags
            if lag.window > windows.get(lag.cluster, 0) and not is_silent(lag.cluster)
        ]
        for lag in lags:
            self._index.cluster(lag.cluster).watch.skew.note(lag)
        behind = pick_behind((each for chunk in chunks for each in chunk.behind), ticks)
        missed: dict[str, set[str]] = {}
        for _, clock in self._rounds:
            missed.setdefault(clock.cluster, set()).update(set(clock.brokers_asked) - set(clock.brokers_answered))
        for cluster in {lag.cluster for lag in lags}:
            watch = self._index.cluster(cluster).watch
            watch.skew.settle()
            watch.skew.ordered = behind.get(cluster, {})
            watch.skew.missed = sorted(watch.missed.missed.keys() | missed.get(cluster, set()))

    def events_of(self, chunk: Chunk) -> Iterator[Event]:
        """Yield the chunk's sampled events and its messages at their times."""
        for name, of_source, sampled in (
            (SAMPLED, skew.HEARTBEATS, chunk.sampled_heartbeats),
            (PULLINGS, skew.PULLS, chunk.pullings),
        ):
            for raw in sampled:
                time_ms = raw.event_time_ms + self._shift_ms(raw.cluster, of_source, raw.broker_name)
                if raw.ingest_time_ms:
                    time_ms = not_after(time_ms, raw.ingest_time_ms - self._behind_ms(raw.cluster))
                event = raw if time_ms == raw.event_time_ms else raw._replace(event_time_ms=time_ms)
                yield Event(time_ms, _RANK[name], chunk.partition, 0, name, raw.cluster, raw, event)
        topic, partition, rank = chunk.topic, chunk.partition, _RANK[chunk.topic]
        if topic in _SOURCES and len(chunk.newest_ms) == 1:
            (cluster,) = chunk.newest_ms
            if self._is_in_step(cluster):
                behind_ms = self._behind_ms(cluster)
                for message in chunk.messages:
                    time_ms = not_after(message.event_time_ms, message.ingest_time_ms - behind_ms)
                    yield Event(time_ms, rank, partition, message.offset, topic, cluster, message)
                return
        decode, clocks = DECODERS[topic].decode, self._clocks.get(id(chunk))
        for number, message in enumerate(chunk.messages):
            event = decode(message.value) if clocks is None else clocks[number]
            source = source_of(topic, event)
            shift_ms = self._shift_ms(event.cluster, *source) if source else 0
            if topic == PULLS and event.client_id:
                of_client_ms = self._shift_ms(event.cluster, skew.OF_CLIENT, event.client_id)
                if of_client_ms or shift_ms:
                    shift_ms = max(shift_ms, of_client_ms) if of_client_ms > 0 else shift_ms or of_client_ms
            time_ms = not_after(event.event_time_ms + shift_ms, message.ingest_time_ms - self._behind_ms(event.cluster))
            yield Event(time_ms, rank, partition, message.offset, topic, event.cluster, message, _at(event, time_ms))

    def _is_in_step(self, cluster: str) -> bool:
        """Whether no source of the cluster has its times moved."""
        known = self._in_step.get(cluster)
        if known is None:
            entry = self._index.clusters.get(cluster)
            known = entry is None or not entry.watch.skew.moves_anybody(self._interval_of(cluster, entry))
            self._in_step[cluster] = known
        return known

    def _shift_ms(self, cluster: str, source: str, machine: str) -> int:
        """Return by how much the source's times are moved forward (udfs.brokers.skew)."""
        key = cluster, source, machine
        known = self._shifts.get(key)
        if known is None:
            entry = self._index.clusters.get(cluster)
            known = 0
            if entry is not None:
                known = entry.watch.skew.shift_ms(source, machine, self._interval_of(cluster, entry))
            self._shifts[key] = known
        return known

    def _behind_ms(self, cluster: str) -> int:
        """Return how far the cluster's time runs behind Kafka's."""
        known = self._behind.get(cluster)
        if known is None:
            entry = self._index.clusters.get(cluster)
            known = self._behind[cluster] = entry.watch.skew.behind_ms() if entry is not None else 0
        return known

    def _interval_of(self, cluster: str, entry: ClusterEntry) -> int:
        """Return the interval of the cluster's rounds; in a first batch, where it is no skew, that of the batch's."""
        if entry.watch.interval_ms:
            return entry.watch.interval_ms
        if self._intervals is None:
            reported: dict[str, int] = {}
            rounds: dict[str, set[int]] = {}
            for time_ms, clock in self._rounds:
                reported[clock.cluster] = max(reported.get(clock.cluster, 0), clock.interval_ms or 0)
                rounds.setdefault(clock.cluster, set()).add(time_ms)
            self._intervals = {}
            for name, times in rounds.items():
                gaps = [after - before for before, after in pairwise(sorted(times))]
                self._intervals[name] = max(reported[name], round(median(gaps or [0])))
        return self._intervals.get(cluster, 0)


def chunks_of(events: Iterable[Event]) -> list[Chunk]:
    """Return the events as they came, one chunk for each Kafka partition and cluster."""
    chunks: dict[tuple[str, int, str], Chunk] = {}
    for event in events:
        topic = {SAMPLED: HEARTBEATS, PULLINGS: PULLS}.get(event.topic, event.topic)
        cluster = event.cluster
        chunk = chunks.get((topic, event.partition, cluster))
        if chunk is None:
            chunk = chunks[topic, event.partition, cluster] = Chunk(topic, event.partition, 0, 0, {cluster: 0}, [], [])
        chunk.newest_ms[cluster] = max(chunk.newest_ms[cluster], event.time_ms)
        if isinstance(event.raw, SampledHeartbeat):
            chunk.sampled_heartbeats.append(event.raw)
        elif isinstance(event.raw, Pulling):
            chunk.pullings.append(event.raw)
        else:
            chunk.messages.append(event.raw)
    return list(chunks.values())
