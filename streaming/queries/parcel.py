"""The messages of one Arrow batch for one shard, as one binary value.

    Parcel ─► Chunk  a Kafka partition's events of groups, undecoded, with a header that every shard gets
           ─► Pack   the send latencies of a broker or of a cluster, run-length encoded

Spark thus carries few rows, and a shard's waiting chunks cost one state call a batch. Chunks wait in the state: a new
field goes to the end and has a default.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from udfs.alerts.phrase import Words
from udfs.brokers.mute_brokers import Pulling, SampledHeartbeat
from udfs.brokers.skew import Behind, Lag
from udfs.producers.attempts import Attempts


def shard_of(cluster: str, name: str, shards: int) -> int:
    """Return the shard of a consumer group or broker; with an empty name, the shard that speaks for the cluster."""
    return zlib.crc32(f"{cluster}|{name}".encode()) % shards if shards > 1 else 0


class Message(NamedTuple):
    """One valid message: its place in Kafka, its bytes, and the time that its event reports."""

    offset: int
    ingest_time_ms: int
    value: bytes
    event_time_ms: int


class Reject(NamedTuple):
    """One invalid message, complete, with every reason."""

    offset: int
    ingest_time_ms: int
    value: bytes | None
    reasons: list[str]


PULLING_MS = 5_000
"""A client's pulls for a group at a broker: at most one is passed on for each span of this length."""


class Span(NamedTuple):
    """Kafka's times of the first and the newest of a cluster's events, and the oldest event time among them."""

    first_ms: int
    newest_ms: int
    oldest_event_ms: int


class Ahead(NamedTuple):
    """A refused clock event from the future: its source, Kafka's time of it, and how far it is ahead."""

    cluster: str
    source: str
    ingest_time_ms: int
    ahead_ms: int


class Chunk(msgspec.Struct, array_like=True, gc=False):
    """One Kafka partition's part of an Arrow batch; all but `messages` and `rejects` is the same for every shard.

    first_offset, last_offset  the offsets read
    newest_ms           by cluster, the newest event time
    sampled_heartbeats  all heartbeats, also those of other shards' groups: every shard evaluates brokers by them
    lags                of sources, behind Kafka's clock
    ahead               clock events from the future
    pullings            a sample of the groups and clients that pulled
    pulled_ms           by (cluster, broker), the oldest pull that the broker itself reported (it suggests the next
                        broker id), for any group: a client without a pull there does not pull
    spans               by cluster, of all events except clock events
    behind              sources that are behind in a log that was written at once
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    newest_ms: dict[str, int]
    messages: list[Message]
    rejects: list[Reject]
    sampled_heartbeats: list[SampledHeartbeat] = []
    lags: list[Lag] = []
    ahead: list[Ahead] = []
    pullings: list[Pulling] = []
    pulled_ms: dict[tuple[str, str], int] = {}
    spans: dict[str, Span] = {}
    behind: list[Behind] = []

    def count(self) -> int:
        return len(self.messages) + len(self.sampled_heartbeats) + len(self.pullings)


class Pack(msgspec.Struct, array_like=True, gc=False):
    """The send latencies and clock events of one Arrow batch for one key.

    attempts   of a broker: its producers' attempts
    tick_ms    of a broker or a cluster: its newest clock event
    forgotten  of a broker or a cluster: the decisions to forget it: kind, name, time and text
    fleet      of a cluster: broker → its producers' attempts
    read       of a cluster: the offsets read of its partitions, as chunks without messages
    asked_ms   of a cluster: broker → the newest clock event that asked it
    ticks_ms   of a cluster: the times of all its clock events
    lags       of a cluster: the lags of its sends and clock events behind Kafka's clock
    """

    attempts: list[Attempts] = []
    tick_ms: int | None = None
    fleet: dict[str, list[Attempts]] = {}
    read: list[Chunk] = []
    forgotten: list[tuple[str, str, int, Words]] = []
    asked_ms: dict[str, int] = {}
    ticks_ms: list[int] = []
    lags: list[Lag] = []

    def newest_ms(self) -> int:
        attempts = [*self.attempts, *(of for producers in self.fleet.values() for of in producers)]
        return max((self.tick_ms or 0, *(of.steps[-1].to_ms for of in attempts if of.steps)))


Key = tuple[str, str | None]
"""(cluster, broker_name); (cluster, None) is the cluster itself."""

Keyed = tuple[str, str | None, Pack]
"""A pack under its key: cluster, broker_name."""


class Parcel(msgspec.Struct, array_like=True, gc=False):
    """`chunks` are of the topics of groups, one for each Kafka partition; `sends` are packs by cluster and broker.

    `rejects` are invalid sends by topic and partition, for the first shard.
    """

    chunks: list[Chunk] = []
    sends: list[Keyed] = []
    rejects: list[tuple[str, int, Reject]] = []


_encoder = msgspec.msgpack.Encoder()


def encode(value: Any) -> bytes:
    """Return MessagePack. A function, because Spark pickles what `make_pack` calls, and cannot pickle an Encoder."""
    return _encoder.encode(value)


decode_chunks = msgspec.msgpack.Decoder(list[Chunk]).decode
decode_parcel: Callable[[Any], Parcel] = msgspec.msgpack.Decoder(Parcel).decode
