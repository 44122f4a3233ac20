"""Messages in packs: what one Kafka partition gave one shard in one Arrow batch, as one binary value.

Packing keeps Spark's rows few, so the stateful operators pay Python's per-row price once a pack, and a shard's
pending messages cost one state call a batch. Every pack's header goes to every shard: it tells how far each
partition has been read.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec


class Message(NamedTuple):
    """One good message: its place in Kafka and its bytes."""

    offset: int
    ingest_time_ms: int
    value: bytes


class Reject(NamedTuple):
    """One bad message, whole, with every reason."""

    offset: int
    ingest_time_ms: int
    value: bytes | None
    reasons: list[str]


class Chunk(msgspec.Struct, array_like=True, gc=False):
    """`read` counts all rows of the Arrow batch, and `newest_ms` its newest event time a cluster."""

    topic: str
    partition: int
    read: int
    newest_ms: dict[str, int]
    messages: list[Message]
    rejects: list[Reject]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chunk)
_list_decoder = msgspec.msgpack.Decoder(list[Chunk])


def encode_chunk(chunk: Chunk) -> bytes:
    return _encoder.encode(chunk)


def decode_chunk(packed: bytes) -> Chunk:
    return _decoder.decode(packed)


def encode_chunks(chunks: Iterable[Chunk]) -> bytes:
    return _encoder.encode(list(chunks))


def decode_chunks(packed: bytes) -> list[Chunk]:
    return _list_decoder.decode(packed)


def safe_time_ms(chunks: Iterable[Chunk], clock_topic: str, limit: int) -> dict[str, int] | None:
    """Up to where each cluster's events are known to be complete; None when all that is in Kafka was read.

    A batch that reached `limit` (maxOffsetsPerTrigger; 0 is none) was cut: each partition that gave rows may hold
    more. Its events are in order, so what is older than its newest is complete. A partition that gave none has
    nothing left, for Spark gives every partition with a backlog at least one offset.
    """
    read = 0
    newest: dict[tuple[str, int, str], int] = {}
    partitions = set()
    for chunk in chunks:
        read += chunk.read
        partitions.add((chunk.topic, chunk.partition))
        if chunk.topic != clock_topic:
            for cluster, time_ms in chunk.newest_ms.items():
                place = (chunk.topic, chunk.partition, cluster)
                newest[place] = max(newest.get(place, 0), time_ms)
    if not limit or read < limit - len(partitions):
        return None
    safe: dict[str, int] = {}
    for (_, _, cluster), time_ms in newest.items():
        safe[cluster] = min(safe.get(cluster, time_ms), time_ms)
    return safe
