"""One Kafka partition's part of an Arrow batch, sorted into a chunk a shard; the header is the same for all of them."""

from collections.abc import Collection, Iterator
from heapq import nsmallest
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.queries.chunk import PULLING_MS, Chunk, Message, Pulling, Reject, SampledHeartbeat, Span
from streaming.queries.event_time import Lags, ahead_of, at_most
from streaming.queries.shard_intake import shard_of
from udfs.brokers.families import family_of
from udfs.brokers.heartbeat_sample import rank
from udfs.brokers.mute_brokers import puller_key
from udfs.groups.consumption import is_cache_full

MOST_PULLERS = 16
"""How many pairs of group and client that pull at a broker one partition passes on."""

NEVER = (0, 0, False)
NO_PULLER = ("", "")


class PartitionPack:
    """Messages go in, in their order; chunks come out, in the order of the shards."""

    def __init__(self, topic: str, partition: int, first_offset: int, shards: int) -> None:
        self._topic, self._shards = topic, shards
        self._header = Chunk(topic, partition, first_offset, first_offset, {}, [], [])
        self._messages: list[list[Message]] = [[] for _ in range(shards)]
        self._lags = Lags()
        self._by_broker: dict[tuple[str, str, int], tuple[tuple[int, int], tuple[int, int]]] = {}
        self._pullings: dict[tuple[str, str, tuple[str, str], int], tuple[int, int, bool]] = {}

    def add(self, offset: int, ingest_time_ms: int, value: bytes | None, event: Any, reasons: list[str]) -> None:
        """A message, decoded: its event, or why it is bad."""
        topic, header = self._topic, self._header
        header.last_offset = offset
        if reasons:
            header.rejects.append(Reject(offset, ingest_time_ms, value, reasons))
            if topic == CLOCKS and (ahead := ahead_of(value, reasons, ingest_time_ms)):
                header.ahead.append(ahead)
            return
        self._lags.note(topic, event, ingest_time_ms)
        reported_ms, event = event.event_time_ms, at_most(event, ingest_time_ms)
        if event.event_time_ms > header.newest_ms.get(event.cluster, -1):
            header.newest_ms[event.cluster] = max(event.event_time_ms, 0)
        if topic != CLOCKS:
            self._note_span(event.cluster, ingest_time_ms, event.event_time_ms)
        if topic == PULLS and event.suggest_broker_id is not None:
            broker = event.cluster, event.broker_name
            header.pulled_ms[broker] = min(header.pulled_ms.get(broker, event.event_time_ms), event.event_time_ms)
            times = (*broker, event.event_time_ms // PULLING_MS)
            first, newest = self._by_broker.get(times, ((reported_ms, ingest_time_ms),) * 2)
            reported = reported_ms, ingest_time_ms
            self._by_broker[times] = min(first, reported), max(newest, reported)
        if topic == PULLS:
            client = "" if event.offsets_only else event.client_id or event.client_addr or ""
            puller = (event.consumer_group, client) if client else NO_PULLER
            key = event.cluster, event.broker_name, puller, event.event_time_ms // PULLING_MS
            known = self._pullings.get(key, NEVER)
            if reported_ms >= known[0]:
                self._pullings[key] = max((reported_ms, ingest_time_ms, is_cache_full(event)), known)
        if topic == HEARTBEATS and not event.broker_id and (event.consumers or event.leaving):
            header.sampled_heartbeats.append(_sampled_heartbeat(event, reported_ms, ingest_time_ms))
        message = Message(offset, ingest_time_ms, value or b"")
        for number in _shards_for(topic, event, self._shards):
            self._messages[number].append(message)

    def _note_span(self, cluster: str, ingest_time_ms: int, event_time_ms: int) -> None:
        known = self._header.spans.get(cluster)
        if known is None:
            self._header.spans[cluster] = Span(ingest_time_ms, ingest_time_ms, event_time_ms)
        elif ingest_time_ms > known.newest_ms or event_time_ms < known.oldest_event_ms:
            newest_ms, oldest_ms = max(known.newest_ms, ingest_time_ms), min(known.oldest_event_ms, event_time_ms)
            self._header.spans[cluster] = Span(known.first_ms, newest_ms, oldest_ms)

    def chunks(self) -> list[Chunk]:
        """Of the bad messages the first shard tells."""
        header, pullings = self._header, sorted(self._sample())
        lags, behind = self._lags.all(), self._lags.behind()
        return [
            Chunk(
                header.topic,
                header.partition,
                header.first_offset,
                header.last_offset,
                header.newest_ms,
                messages,
                header.rejects if number == 0 else [],
                header.sampled_heartbeats,
                lags,
                header.ahead,
                pullings,
                header.pulled_ms,
                header.spans,
                behind,
            )
            for number, messages in enumerate(self._messages)
        ]

    def _sample(self) -> Iterator[Pulling]:
        """Yield the MOST_PULLERS pairs of the smallest hash at each broker: every partition picks the same ones."""
        by_broker: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for cluster, broker_name, puller, _ in self._pullings:
            by_broker.setdefault((cluster, broker_name), set()).add(puller)
        picked = {
            place: {NO_PULLER, *nsmallest(MOST_PULLERS, pullers - {NO_PULLER}, key=_rank)}
            for place, pullers in by_broker.items()
        }
        for (cluster, broker_name, puller, _), newest in self._pullings.items():
            if puller in picked[cluster, broker_name]:
                group, client = puller
                yield Pulling(cluster, broker_name, group, client, *newest)
        for (cluster, broker_name, _), times in self._by_broker.items():
            for time in sorted(set(times)):
                yield Pulling(cluster, broker_name, "", "", *time, is_by_broker=True)


def _rank(puller: tuple[str, str]) -> tuple[int, str]:
    return rank(puller_key(*puller))


def _sampled_heartbeat(heartbeat: Any, reported_ms: int, ingest_time_ms: int) -> SampledHeartbeat:
    is_leaving = bool(heartbeat.leaving)
    names = {consumer.consumer_group for consumer in heartbeat.consumers if not is_leaving}
    groups = tuple(sorted(name for name in names if family_of(name)))
    return SampledHeartbeat(
        heartbeat.cluster,
        heartbeat.broker_name,
        heartbeat.client_id,
        reported_ms,
        is_leaving,
        groups,
        ingest_time_ms,
        heartbeat.client_addr,
    )


def _shards_for(topic: str, event: Any, shards: int) -> Collection[int]:
    """Which shards an event concerns: routes and clock events all, a client that leaves without groups too."""
    if topic == PULLS:
        return (shard_of(event.cluster, event.consumer_group, shards),)
    if topic == HEARTBEATS and (event.consumers or not event.leaving):
        return {shard_of(event.cluster, consumer.consumer_group, shards) for consumer in event.consumers}
    return range(shards)
