"""What one Arrow batch of messages holds for one shard, as one binary value: Spark's rows stay few."""

from typing import Any

import msgspec

from streaming.queries.chunk import Chunk, Reject
from streaming.queries.combiner import Pack


class Parcel(msgspec.Struct, array_like=True, gc=False):
    """`chunks` are of the topics that tell of groups, one a Kafka partition, with the headers that go to every shard;
    `sends` are packs by cluster and broker; `rejects` bad sends, by topic and partition, for the first shard.
    `sends_read` is how many offsets of sends the task has seen in all.
    """

    chunks: list[Chunk] = []
    sends: list[tuple[str, str | None, Pack]] = []
    rejects: list[tuple[str, int, Reject]] = []
    sends_read: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder: "msgspec.msgpack.Decoder[Parcel]" = msgspec.msgpack.Decoder(Parcel)


def encode_parcel(parcel: Parcel) -> bytes:
    return _encoder.encode(parcel)


def decode_parcel(packed: Any) -> Parcel:
    return _decoder.decode(packed)
