"""Messages in packs: what one Kafka partition gave one shard in one Arrow batch, as one binary value.

Packing keeps Spark's rows few, so the stateful operators pay Python's per-row price once a pack, and a shard's
pending messages cost one state call a batch. Every pack's header goes to every shard: it tells how far each
partition has been read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from streaming.queries.planned import Planned
from udfs.brokers.log_order import Behind
from udfs.brokers.skew import Lag


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


class SampledHeartbeat(NamedTuple):
    """A client sent a heartbeat to a broker, or unregistered there. `groups` are those of its groups with a family,
    `ingest_time_ms` is when Kafka had it.
    """

    cluster: str
    broker_name: str
    client_id: str
    event_time_ms: int
    is_leaving: bool
    groups: tuple[str, ...] = ()
    ingest_time_ms: int = 0
    client_addr: str = ""


class Pulling(NamedTuple):
    """A client was seen to pull for a group at a broker, once in PULLING_MS. `client` is its ClientId, else its
    address; "" where only the committed offsets were reported. `is_held_back`: its cache is full, so that no further
    pull is due. `is_by_broker`: it stands for no client, but for the first or the newest pull that the broker itself
    reported within PULLING_MS.
    """

    cluster: str
    broker_name: str
    consumer_group: str
    client: str
    event_time_ms: int
    ingest_time_ms: int = 0
    is_held_back: bool = False
    is_by_broker: bool = False


PULLING_MS = 5_000


class Span(NamedTuple):
    """When Kafka had the first and the newest of a cluster's events, and the oldest event time among them."""

    first_ms: int
    newest_ms: int
    oldest_event_ms: int


class Ahead(NamedTuple):
    """A clock event from the future, which was refused: who told it, when it reached Kafka, and how far ahead it is."""

    cluster: str
    source: str
    ingest_time_ms: int
    ahead_ms: int


class Chunk(msgspec.Struct, array_like=True, gc=False):
    """`first_offset` to `last_offset` is all the Arrow batch read, `newest_ms` its newest event time a cluster.

    `pulled_ms` is the oldest pull a (cluster, broker) that the broker itself told (it suggests the next broker id),
    whichever group's: who is not among its pulls does not pull there. `sampled_heartbeats` are all its heartbeats,
    whichever shard's: every shard judges brokers by them. `lags` are those of its sources behind Kafka's clock, `ahead`
    its clock events from the future, `pullings` which of its groups and clients pulled, by a sample. `spans` are, by
    cluster, of all that is no clock event. `behind` are sources that stand behind in a log written at once. Chunks wait
    in the state: a field is added at the end, and has a default.
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


def has_content(chunk: Chunk) -> bool:
    """Whether it holds more than how far its partition was read."""
    return bool(chunk.messages or chunk.sampled_heartbeats or chunk.pullings or chunk.lags or chunk.ahead)


_encoder = msgspec.msgpack.Encoder()
_list_decoder = msgspec.msgpack.Decoder(list[Chunk])


def encode_chunks(chunks: Iterable[Chunk]) -> bytes:
    return _encoder.encode(list(chunks))


def decode_chunks(packed: bytes) -> list[Chunk]:
    return _list_decoder.decode(packed)


def reached(limit: int, chunks: Iterable[Chunk], others: int = 0) -> bool:
    """Whether the offsets that these chunks have seen, and `others` beside them, are as many as a batch may read.

    maxOffsetsPerTrigger is 0 for none; Spark rounds each partition's share of it down.
    """
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for chunk in chunks:
        place = (chunk.topic, chunk.partition)
        first, last = spans.get(place, (chunk.first_offset, chunk.last_offset))
        spans[place] = min(first, chunk.first_offset), max(last, chunk.last_offset)
    read = others + sum(last - first + 1 for first, last in spans.values())
    return limit > 0 and read >= limit - len(spans)


def safe_time_ms(
    chunks: Sequence[Chunk], clock_topic: str, limit: int, planned: Planned | None = None
) -> dict[str, int] | None:
    """Up to where each cluster's events are known to be complete; None when no partition has any left to read.

    `planned` says whether the batch was cut. Where nobody told it, the offsets seen do: a batch that reached `limit`
    (maxOffsetsPerTrigger; 0 is none) was. Each partition that gave messages may then hold more. Its events are in
    order, so what is older than its newest is complete; a partition that showed no event of a cluster may hold any of
    it. A partition that gave nothing has nothing left, for Spark gives every partition with a backlog at least one
    offset.
    """
    newest: dict[tuple[str, int], dict[str, int]] = {}
    for chunk in chunks:
        of_place = newest.setdefault((chunk.topic, chunk.partition), {})
        for cluster, time_ms in chunk.newest_ms.items():
            of_place[cluster] = max(of_place.get(cluster, 0), time_ms)
    is_cut = reached(limit, chunks) if planned is None else planned.is_cut
    if not is_cut:
        return None
    for place in planned.places if planned is not None else ():
        newest.setdefault(place, {})  # all of its planned offsets were holes: what comes next may be of any time
    data = [of_place for (topic, _), of_place in newest.items() if topic != clock_topic]
    if not data:
        return None
    clusters = {cluster for of_place in data for cluster in of_place}
    return {cluster: min(of_place.get(cluster, 0) for of_place in data) for cluster in clusters}
