"""A shard's messages as events in order of time, and back into packs as they came."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from schemas.decode import DECODERS
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.chunk import Chunk, Message

VOICES = "voices"
"""Not a Kafka topic: which client was heard where (chunk.Voice)."""

_RANK = {ROUTES: 0, VOICES: 1, HEARTBEATS: 1, PULLS: 2, CLOCKS: 3}

_NOTHING = Message(0, 0, b"")


class Event(NamedTuple):
    """Sorts by time; at one time routes come first and the tick last."""

    time_ms: int
    rank: int
    partition: int
    offset: int
    topic: str
    message: Message
    event: Any


def events_of(chunk: Chunk) -> Iterator[Event]:
    """Its messages, decoded, and its voices."""
    decoder, rank = DECODERS[chunk.topic], _RANK[chunk.topic]
    for voice in chunk.voices:
        yield Event(voice.event_time_ms, _RANK[VOICES], chunk.partition, 0, VOICES, _NOTHING, voice)
    for message in chunk.messages:
        event = decoder.decode(message.value)
        yield Event(event.event_time_ms, rank, chunk.partition, message.offset, chunk.topic, message, event)


def is_earlier(event: Event, other: Event) -> bool:
    """Whether Kafka had the event before the other; of voices it is not known when it had them, but when they were."""
    if event.topic == VOICES:
        return event.time_ms <= other.time_ms
    return event.message.ingest_time_ms <= other.message.ingest_time_ms


def pack(events: Iterable[Event]) -> list[Chunk]:
    """The events, undecoded, one pack a Kafka partition."""
    chunks: dict[tuple[str, int], Chunk] = {}
    for event in events:
        place = (HEARTBEATS if event.topic == VOICES else event.topic, event.partition)
        chunk = chunks.setdefault(
            place, Chunk(*place, first_offset=0, last_offset=0, newest_ms={}, messages=[], rejects=[])
        )
        if event.topic == VOICES:
            chunk.voices.append(event.event)
        else:
            chunk.messages.append(event.message)
    return list(chunks.values())
