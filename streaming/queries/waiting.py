"""The events that wait for a clock event: how far a batch is complete, what waits, and what if no clock event comes.

A clock event is evaluated once every partition has been read past it (Complete). Other events wait, packed. Without
clock events they accumulate: beyond MOST_EVENTS or MOST_BYTES a shard drops the oldest by Kafka's time, heartbeats and
pulls first, then routes, clock events last. Kafka still has them; the drop is reported.

A backlog of the query looks as if there were no clock events. So they must be missing for CONFIRM_MS more before it is
reported: the clock publisher's own (clock_publisher.py) have come by then. If nothing more is read
(`run --available-now`), it is reported at once.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.queries.parcel import Chunk, Message
from streaming.queries.state import ClusterEntry, ShardIndex
from udfs.alerts.alert import Transition
from udfs.alerts.life import Evaluation, advance
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_findings import CLUSTER_NO_DATA, find_dropped, find_no_clock, report_drop
from udfs.brokers.mute_brokers import Pulling, SampledHeartbeat

OF_GROUPS = frozenset((HEARTBEATS, PULLS, ROUTES, CLOCKS))
OF_SENDS = frozenset((SEND_LATENCIES, CLOCKS))


PLAN_PROPERTY = "balancewatch.planned"
"""Spark's local property by which the driver passes the plan of a batch to the workers."""


class Planned(NamedTuple):
    """What Spark planned a batch to read. Its offsets do not show it: compaction and transactions leave holes.

    `is_cut`: the batch may have left messages behind, in any of `places`, the partitions that it reads.

    `is_once`: nothing more is read and no clock events are published: `run --available-now`.
    """

    is_cut: bool
    places: frozenset[tuple[str, int]] = frozenset()
    is_once: bool = False

    def of(self, topics: Collection[str]) -> "Planned":
        return self._replace(places=frozenset(place for place in self.places if place[0] in topics))


def safe_time_ms(chunks: Iterable[Chunk], planned: Planned) -> dict[str, int] | None:
    """Return, by cluster, the time up to which its events are complete; None if no partition has more to read.

    Each partition that gave messages to a batch that was cut may hold more. Its events are in order, so events older
    than its newest are complete; a partition without an event of a cluster may hold any of it. A partition that gave
    nothing has nothing left, because Spark reads at least one offset of each backlog. Clock events bound nothing.
    """
    if not planned.is_cut:
        return None
    newest: dict[tuple[str, int], dict[str, int]] = {place: {} for place in planned.places}  # all offsets may be holes
    for chunk in chunks:
        of_place = newest.setdefault((chunk.topic, chunk.partition), {})
        for cluster, time_ms in chunk.newest_ms.items():
            of_place[cluster] = max(of_place.get(cluster, 0), time_ms)
    data = [of_place for (topic, _), of_place in newest.items() if topic != CLOCKS]
    clusters = {cluster for of_place in data for cluster in of_place}
    return {cluster: min(of_place.get(cluster, 0) for of_place in data) for cluster in clusters} if data else None


class Complete:
    """Up to where all topics of a batch are complete: an evaluation of several topics waits for the last of them.

    `groups` and `sends` are safe_time_ms of their topics; None: everything was read. `chunks` are the batch's events of
    groups, `read` the offsets read of sends.
    """

    def __init__(self, chunks: Iterable[Chunk], read: Iterable[Chunk], planned: Planned) -> None:
        self.groups = safe_time_ms(chunks, planned.of(OF_GROUPS))
        self.sends = safe_time_ms(read, planned.of(OF_SENDS))

    def holds(self, cluster: str, time_ms: int, *, has_fleet: bool) -> bool:
        """Whether more events may follow that a clock event of this time has to cover."""
        of_groups = self.groups is not None and time_ms >= self.groups.get(cluster, 0)
        return of_groups or (has_fleet and self.sends is not None and time_ms >= self.sends.get(cluster, 0))

    def most_ms(self, cluster: str, *, has_groups: bool) -> int | None:
        """Return the newest time at which no send of the cluster, nor other data, is missing; None for any."""
        parts = (self.sends, self.groups if has_groups or cluster in (self.groups or ()) else None)
        return min((max(0, safe.get(cluster, 0) - 1) for safe in parts if safe is not None), default=None)


MOST_EVENTS, MOST_BYTES = 100_000, 32 << 20
"""Waiting events of one cluster in one shard."""

MOST_BYTES_IN_ALL = 128 << 20
"""Waiting bytes of all clusters in one shard, which many of them share."""

KEPT_SHARE = 0.75
"""Share that a drop leaves, so that not every batch makes another."""

SWEEP_MS, SWEEP_EVENTS = 10_000, 20_000
"""Waiting events without a clock event are checked after this time by Kafka's clock, or this many events of a batch."""

HEADER_BYTES = 128
"""Approximate size of a sampled event."""

_RANK = {ROUTES: 1, CLOCKS: 2}

_Waiting = Message | SampledHeartbeat | Pulling
_Held = tuple[int, int, int, int, _Waiting]
"""Rank, time and bytes of a waiting event, its chunk's number, and the event."""


def split(chunks: Iterable[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks to evaluate, and those that wait undecoded: of one cluster, without a clock event."""
    clocked = {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
    work: list[Chunk] = []
    waiting: list[Chunk] = []
    for chunk in chunks:
        waits = len(chunk.newest_ms) == 1 and chunk.newest_ms.keys().isdisjoint(clocked)
        has_news = bool(chunk.lags or chunk.ahead or chunk.pulled_ms)
        (waiting if waits and not has_news else work).append(chunk)
    return work, waiting


def bounded(chunks: list[Chunk]) -> tuple[list[Chunk], dict[str, int]]:
    """Return what may go on waiting, and the number of events dropped by cluster. Each chunk is of one cluster."""
    by_cluster: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_cluster.setdefault(next(iter(chunk.newest_ms)), []).append(chunk)
    most_bytes = min(MOST_BYTES, MOST_BYTES_IN_ALL // max(1, len(by_cluster)))
    kept: list[Chunk] = []
    dropped: dict[str, int] = {}
    for cluster, of_cluster in by_cluster.items():
        held = [event for number, chunk in enumerate(of_cluster) for event in _held(number, chunk)]
        size = sum(event[2] for event in held)
        if len(held) <= MOST_EVENTS and size <= most_bytes:
            kept += of_cluster
            continue
        held.sort(key=lambda event: event[:2])
        first, left = 0, len(held)
        while first < len(held) and (left > MOST_EVENTS * KEPT_SHARE or size > most_bytes * KEPT_SHARE):
            size, left, first = size - held[first][2], left - 1, first + 1
        kept += _with_only(of_cluster, held[first:])
        dropped[cluster] = first
    return kept, dropped


def _held(number: int, chunk: Chunk) -> Iterator[_Held]:
    rank = _RANK.get(chunk.topic, 0)
    for message in chunk.messages:
        yield rank, message.ingest_time_ms, len(message.value), number, message
    sampled: list[SampledHeartbeat | Pulling] = [*chunk.sampled_heartbeats, *chunk.pullings]
    for event in sampled:
        yield 0, event.event_time_ms, HEADER_BYTES, number, event


def _with_only(chunks: list[Chunk], held: list[_Held]) -> Iterator[Chunk]:
    for number, chunk in enumerate(chunks):
        events: dict[type, list[Any]] = {Message: [], SampledHeartbeat: [], Pulling: []}
        for _, _, _, of_chunk, event in held:
            if of_chunk == number:
                events[type(event)].append(event)
        if any(events.values()):
            place = chunk.topic, chunk.partition, chunk.first_offset, chunk.last_offset, chunk.newest_ms
            messages, sampled, pullings = events.values()
            yield Chunk(*place, messages, [], sampled_heartbeats=sampled, pullings=pullings)


CLOCK_MISSED_MS = 15_000

CONFIRM_MS = 40_000

END_MS = 600_000
"""Time that may stay uncovered at the end of a log that is read once: a clock a little behind evaluates the rest."""

MISSED_ROUNDS = 3

FIRST_ROUND_MS = 200_000
"""How long the first clock event of a cluster may take: the interval of its rounds is not known yet."""


def clocks_wanted(chunks: list[Chunk], shard_index: ShardIndex) -> Iterator[dict[str, Any]]:
    """Yield the clusters with events in this batch, but without clock events for three rounds or 15 s."""
    silent_ms = {name: at_ms + CLOCK_MISSED_MS for name, at_ms in shard_index.forgotten_ms.items()}
    for cluster, entry in shard_index.clusters.items():
        rounds_ms = MISSED_ROUNDS * entry.watch.rounds.interval_ms(entry.now_ms)
        silent_ms[cluster] = entry.collector_time_ms + max(CLOCK_MISSED_MS, rounds_ms)
    newest: dict[str, int] = {}
    for chunk in chunks:
        for cluster, time_ms in chunk.newest_ms.items():
            newest[cluster] = max(newest.get(cluster, 0), time_ms)
    reported = {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
    for cluster, time_ms in sorted(newest.items()):
        if cluster not in reported and time_ms > silent_ms.get(cluster, 0):
            yield {"cluster": cluster, "is_wanted": True, "newest_ms": time_ms}


def note_arrivals(shard_index: ShardIndex, chunks: Iterable[Chunk]) -> int:
    """Note when events arrived, and return Kafka's newest time of all."""
    newest_ms = 0
    for chunk in chunks:
        for cluster, span in chunk.spans.items():
            newest_ms = max(newest_ms, span.newest_ms)
            if span.newest_ms <= shard_index.forgotten_ms.get(cluster, 0):
                continue
            entry = shard_index.cluster(cluster)
            timing = entry.timing
            timing.arrived_ms = max(timing.arrived_ms, span.newest_ms)
            timing.newest_ms = max(timing.newest_ms, chunk.newest_ms.get(cluster, 0))
            if not entry.now_ms:
                timing.began_ms = min(timing.began_ms or span.oldest_event_ms, span.oldest_event_ms)
            timing.ticked_ms = timing.ticked_ms or (timing.arrived_ms if entry.now_ms else span.first_ms)
    return newest_ms


def note_tick(entry: ClusterEntry, ingest_time_ms: int, *, is_own: bool) -> None:
    """Note a clock event that advanced time; `is_own`: sent by `run`, which is no sign of life of the cluster."""
    timing = entry.timing
    timing.ticked_ms, timing.noted_ms = max(timing.ticked_ms, ingest_time_ms), None
    if not is_own:
        timing.arrived_ms = max(timing.arrived_ms, ingest_time_ms)


def waiting_until(chunks: Iterable[Chunk]) -> dict[str, int]:
    """Return, by cluster of several brokers, the time up to which each gave waiting data: one may be ahead."""
    newest: dict[str, dict[str, int]] = {}
    for heartbeat in (heartbeat for chunk in chunks for heartbeat in chunk.sampled_heartbeats):
        of_cluster = newest.setdefault(heartbeat.cluster, {})
        of_cluster[heartbeat.broker_name] = max(heartbeat.event_time_ms, of_cluster.get(heartbeat.broker_name, 0))
    return {cluster: min(of_cluster.values()) for cluster, of_cluster in newest.items() if len(of_cluster) > 1}


def judge_timing(
    entry: ClusterEntry, cluster: str, rules: Rules, waiting_ms: int = 0, *, is_once: bool
) -> Iterator[Transition]:
    """Yield cluster_no_data with the cause no_clock, after a batch that was not cut. `waiting_ms`: waiting_until."""
    timing, watch = entry.timing, entry.watch
    missed_ms = timing.arrived_ms - timing.ticked_ms
    if is_once:
        untaken_ms = waiting_ms - entry.now_ms if entry.now_ms else timing.newest_ms - timing.began_ms
        missed_ms = max(missed_ms, untaken_ms if untaken_ms >= END_MS or not entry.now_ms else 0)
    rounds_ms = MISSED_ROUNDS * watch.interval_ms if watch.interval_ms else FIRST_ROUND_MS
    if missed_ms < max(rules.no_data_page_ms, rounds_ms):
        timing.noted_ms = None
        return
    if timing.noted_ms is None:
        timing.noted_ms = timing.arrived_ms
    if not is_once and timing.arrived_ms < timing.noted_ms + CONFIRM_MS:
        return
    now_ms = max(entry.now_ms, timing.newest_ms)
    finding = find_no_clock(cluster, now_ms - missed_ms, has_ahead=bool(watch.ahead))
    known = watch.incidents.pop(CLUSTER_NO_DATA, None)
    incident, transition = advance(known, finding, Evaluation(now_ms), rules.of_kind(CLUSTER_NO_DATA), rules)
    if incident is not None:
        watch.incidents[CLUSTER_NO_DATA] = incident
    if transition is not None:
        yield transition


def alerts_of_drop(entry: ClusterEntry, cluster: str, shard: int, dropped: int, rules: Rules) -> Iterator[Transition]:
    """Return the alert of the first drop since the newest clock event; each shard drops its own events."""
    now_ms = max(entry.now_ms, entry.timing.newest_ms)
    above = entry.watch.incidents.get(CLUSTER_NO_DATA)
    above_id = above.incident_id if above is not None and above.has_fired else None
    finding = find_dropped(cluster, shard, dropped, now_ms, above_id)
    return report_drop(entry.timing, dropped, finding, now_ms, rules.of_kind(CLUSTER_NO_DATA), rules)
