"""What waits for a tick: by cluster, packed as it came, and no more of it than a shard can carry.

Where nobody keeps a cluster's time, its events pile up. Beyond MOST_EVENTS or MOST_BYTES a shard drops the oldest by
Kafka's time: heartbeats and pulls first, then routes, held ticks last. Kafka still has them; the drop is reported.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schemas.events import CLOCKS, ROUTES
from streaming.queries.chunk import Chunk, Message, Pulling, SampledHeartbeat

MOST_EVENTS, MOST_BYTES = 100_000, 32 << 20
"""Of one cluster in one shard."""

MOST_BYTES_IN_ALL = 128 << 20
"""Of all clusters in one shard: many of them share it."""

KEPT_SHARE = 0.75
"""So much is left by a drop, that not every batch makes another."""

SWEEP_MS, SWEEP_EVENTS = 10_000, 20_000
"""By Kafka's time, and by what one batch adds: as often is looked at what waits where no tick comes."""

HEADER_BYTES = 128
"""What a voice or a pulling takes, about."""

_RANK = {ROUTES: 1, CLOCKS: 2}


class _Held(NamedTuple):
    rank: int
    time_ms: int
    bytes: int
    chunk: int
    what: Message | SampledHeartbeat | Pulling


def split(chunks: Iterable[Chunk], clocked: Iterable[str]) -> tuple[list[Chunk], list[Chunk]]:
    """Those to work through, and those that wait undecoded: nothing tells the time of their only cluster."""
    clusters = set(clocked)
    work: list[Chunk] = []
    waiting: list[Chunk] = []
    for chunk in chunks:
        is_one = len(chunk.newest_ms) == 1 and chunk.newest_ms.keys().isdisjoint(clusters)
        has_news = bool(chunk.lags or chunk.ahead or chunk.pulled_ms)
        (waiting if is_one and not has_news else work).append(chunk)
    return work, waiting


def count_of(chunks: Iterable[Chunk]) -> int:
    return sum(len(chunk.messages) + len(chunk.sampled_heartbeats) + len(chunk.pullings) for chunk in chunks)


def bounded(chunks: list[Chunk]) -> tuple[list[Chunk], dict[str, int]]:
    """What may wait on, and how many events of which clusters may not. Each chunk is of one cluster."""
    by_cluster: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_cluster.setdefault(next(iter(chunk.newest_ms)), []).append(chunk)
    most_bytes = min(MOST_BYTES, MOST_BYTES_IN_ALL // max(1, len(by_cluster)))
    kept: list[Chunk] = []
    dropped: dict[str, int] = {}
    for cluster, of_cluster in by_cluster.items():
        held = [one for number, chunk in enumerate(of_cluster) for one in _held(number, chunk)]
        size = sum(one.bytes for one in held)
        if len(held) <= MOST_EVENTS and size <= most_bytes:
            kept += of_cluster
            continue
        held.sort(key=lambda one: one[:2])
        first, left = 0, len(held)
        while first < len(held) and (left > MOST_EVENTS * KEPT_SHARE or size > most_bytes * KEPT_SHARE):
            size, left, first = size - held[first].bytes, left - 1, first + 1
        kept += _rebuilt(of_cluster, held[first:])
        dropped[cluster] = first
    return kept, dropped


def _held(number: int, chunk: Chunk) -> Iterator[_Held]:
    rank = _RANK.get(chunk.topic, 0)
    for message in chunk.messages:
        yield _Held(rank, message.ingest_time_ms, len(message.value), number, message)
    headers: list[SampledHeartbeat | Pulling] = [*chunk.sampled_heartbeats, *chunk.pullings]
    for one in headers:
        yield _Held(0, one.event_time_ms, HEADER_BYTES, number, one)


def _rebuilt(chunks: list[Chunk], held: list[_Held]) -> Iterator[Chunk]:
    for number, chunk in enumerate(chunks):
        of_chunk = [one.what for one in held if one.chunk == number]
        if of_chunk:
            yield Chunk(
                chunk.topic,
                chunk.partition,
                chunk.first_offset,
                chunk.last_offset,
                chunk.newest_ms,
                [one for one in of_chunk if isinstance(one, Message)],
                [],
                sampled_heartbeats=[one for one in of_chunk if isinstance(one, SampledHeartbeat)],
                pullings=[one for one in of_chunk if isinstance(one, Pulling)],
            )
