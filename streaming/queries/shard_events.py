"""A shard's messages as events in order of time, and back into packs as they came."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from schemas.decode import DECODERS
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.chunk import Chunk, Message, Pulling, SampledHeartbeat
from streaming.queries.event_time import at, not_after, source_of
from udfs.brokers import skew

VOICES = "sampled_heartbeats"
"""Not a Kafka topic: which client gave data where (chunk.SampledHeartbeat)."""

PULLINGS = "pullings"
"""Not a Kafka topic: which group's client was seen to pull where (chunk.Pulling)."""

_RANK = {ROUTES: 0, VOICES: 1, PULLINGS: 1, HEARTBEATS: 1, PULLS: 2, CLOCKS: 3}


class Event(NamedTuple):
    """`raw` is as it came, `event` as it is counted."""

    time_ms: int
    rank: int
    partition: int
    offset: int
    topic: str
    raw: Message | SampledHeartbeat | Pulling
    event: Any

    @property
    def ingest_time_ms(self) -> int:
        """When Kafka had it; of a voice that is not known, but when it was."""
        return self.raw.ingest_time_ms if isinstance(self.raw, Message) else self.time_ms

    @property
    def message(self) -> Message:
        """As Kafka has it; a voice is part of one that is counted elsewhere."""
        return self.raw if isinstance(self.raw, Message) else Message(0, self.time_ms, b"")


IN_ORDER = itemgetter(0, 1, 2, 3, 4)
"""By time; at one time routes come first and the tick last."""

Shift = Callable[[str, str, str], int]
"""(cluster, source, machine) to how far the source's event times are moved on (udfs.brokers.skew)."""

Behind = Callable[[str], int]
"""Cluster to how far its time runs behind Kafka's."""


def events_of(chunk: Chunk, shift: Shift, behind: Behind) -> Iterator[Event]:
    """Its messages, decoded, and its sampled_heartbeats; none is later than it reached Kafka, by the cluster's time."""
    decoder, rank = DECODERS[chunk.topic], _RANK[chunk.topic]
    for voice in chunk.sampled_heartbeats:
        shift_ms = shift(voice.cluster, skew.HEARTBEATS, voice.broker_name)
        time_ms = _heard_ms(voice, shift_ms, behind(voice.cluster))
        counted = voice._replace(event_time_ms=time_ms)
        yield Event(time_ms, _RANK[VOICES], chunk.partition, 0, VOICES, voice, counted)
    for pulling in chunk.pullings:
        shift_ms = shift(pulling.cluster, skew.PULLS, pulling.broker_name)
        time_ms = _heard_ms(pulling, shift_ms, behind(pulling.cluster))
        counted_pull = pulling._replace(event_time_ms=time_ms)
        yield Event(time_ms, _RANK[PULLINGS], chunk.partition, 0, PULLINGS, pulling, counted_pull)
    topic, partition, decode = chunk.topic, chunk.partition, decoder.decode
    for message in chunk.messages:
        event = decode(message.value)
        source = source_of(topic, event)
        shift_ms = shift(event.cluster, *source) if source else 0
        if topic == PULLS and event.client_id:
            of_client_ms = shift(event.cluster, skew.OF_CLIENT, event.client_id)
            if of_client_ms or shift_ms:
                shift_ms = max(shift_ms, of_client_ms) if of_client_ms > 0 else shift_ms or of_client_ms
        time_ms = not_after(event.event_time_ms + shift_ms, message.ingest_time_ms - behind(event.cluster))
        if time_ms != event.event_time_ms:
            event = at(event, time_ms)
        yield Event(time_ms, rank, partition, message.offset, topic, message, event)


def intervals_of(chunks: Iterable[Chunk]) -> dict[str, int]:
    """Cluster to how far apart the rounds in these chunks come, as they are told or seen; not of a single one."""
    reported: dict[str, int] = {}
    rounds: dict[str, set[int]] = {}
    for event in _clock_events(chunks):
        cluster = event.event.cluster
        reported[cluster] = max(reported.get(cluster, 0), event.event.interval_ms or 0)
        rounds.setdefault(cluster, set()).add(event.time_ms)
    gaps = {cluster: [after - before for before, after in pairwise(sorted(of))] for cluster, of in rounds.items()}
    return {cluster: max(reported[cluster], round(median(of or [0]))) for cluster, of in gaps.items()}


def missed_of(chunks: Iterable[Chunk]) -> dict[str, set[str]]:
    """Cluster to the brokers that did not answer every round in these chunks."""
    missed: dict[str, set[str]] = {}
    for event in _clock_events(chunks):
        clock = event.event
        missed.setdefault(clock.cluster, set()).update(set(clock.brokers_asked) - set(clock.brokers_answered))
    return missed


def _clock_events(chunks: Iterable[Chunk]) -> Iterator[Event]:
    """As they are reported, by nobody's clock but their own."""
    for chunk in chunks:
        if chunk.topic == CLOCKS:
            yield from events_of(chunk, lambda *_: 0, lambda _: 0)


def _heard_ms(heard: SampledHeartbeat | Pulling, shift_ms: int, behind_ms: int) -> int:
    time_ms = heard.event_time_ms + shift_ms
    return not_after(time_ms, heard.ingest_time_ms - behind_ms) if heard.ingest_time_ms else time_ms


def is_earlier(event: Event, other: Event) -> bool:
    """Whether Kafka had the event before the other."""
    return event.ingest_time_ms <= other.ingest_time_ms


def pack(events: Iterable[Event]) -> list[Chunk]:
    """The events, undecoded, one pack a Kafka partition and cluster."""
    chunks: dict[tuple[str, int, str], Chunk] = {}
    for event in events:
        topic = {VOICES: HEARTBEATS, PULLINGS: PULLS}.get(event.topic, event.topic)
        cluster = event.event.cluster
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
