"""Whether anybody keeps the time of clusters whose events arrive, by Kafka's clock; what is told where nobody does.

A backlog of ours looks as if there were no ticks, so they must be missed CONFIRM_MS on before it is reported: the clock
publisher's own (clock_publisher.py) have come by then. Where nothing more is read (`run --available-now`) it is told at
once.
"""

from collections.abc import Iterable, Iterator

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk
from streaming.queries.shard_values import ClusterEntry, ShardIndex
from udfs.alerts.alert import Transition, with_words
from udfs.alerts.life import Evaluation, Reason, advance, end
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_findings import CLUSTER_NO_DATA
from udfs.brokers.source_findings import find_dropped, find_no_clock

CONFIRM_MS = 40_000

END_MS = 600_000
"""So much may be left untaken at the end of a log that is read once: a clock a little behind judges the rest."""

MISSED_ROUNDS = 3

FIRST_ROUND_MS = 200_000
"""How long the first tick of a cluster may take: nobody knows yet how far apart its rounds are."""


def note_arrivals(shard_index: ShardIndex, chunks: Iterable[Chunk]) -> int:
    """Take in when events came; Kafka's newest time of all."""
    newest_ms = 0
    for chunk in chunks:
        for cluster, span in chunk.spans.items():
            newest_ms = max(newest_ms, span.newest_ms)
            if span.newest_ms <= shard_index.forgotten_ms.get(cluster, 0):
                continue
            entry = shard_index.clusters.setdefault(cluster, ClusterEntry())
            timing = entry.timing
            timing.arrived_ms = max(timing.arrived_ms, span.newest_ms)
            timing.newest_ms = max(timing.newest_ms, chunk.newest_ms.get(cluster, 0))
            if not entry.now_ms:
                timing.began_ms = min(timing.began_ms or span.oldest_event_ms, span.oldest_event_ms)
            timing.ticked_ms = timing.ticked_ms or (timing.arrived_ms if entry.now_ms else span.first_ms)
    return newest_ms


def note_tick(entry: ClusterEntry, ingest_time_ms: int, *, is_own: bool) -> None:
    """A tick moved the cluster's time; `is_own`: `run` sent it, which says nothing of the cluster's life."""
    timing = entry.timing
    timing.ticked_ms, timing.noted_ms = max(timing.ticked_ms, ingest_time_ms), None
    if not is_own:
        timing.arrived_ms = max(timing.arrived_ms, ingest_time_ms)


def waiting_until(chunks: Iterable[Chunk]) -> dict[str, int]:
    """Cluster to the time up to which each of its brokers gave data in what waits, of several: one may be ahead."""
    heard: dict[str, dict[str, int]] = {}
    for chunk in chunks:
        for voice in chunk.sampled_heartbeats:
            of_cluster = heard.setdefault(voice.cluster, {})
            of_cluster[voice.broker_name] = max(voice.event_time_ms, of_cluster.get(voice.broker_name, 0))
    return {cluster: min(of_cluster.values()) for cluster, of_cluster in heard.items() if len(of_cluster) > 1}


def judge_timing(
    entry: ClusterEntry, cluster: str, rules: Rules, waiting_ms: int = 0, *, is_once: bool
) -> Iterator[Transition]:
    """Kind 15, cause no_clock, as of the batch; nothing of it was cut off. `waiting_ms` is up to when its brokers were
    heard since.
    """
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
    """The first drop since the newest tick; each shard drops its own."""
    timing = entry.timing
    timing.dropped += dropped
    if timing.drop is not None:
        return
    now_ms = max(entry.now_ms, timing.newest_ms)
    above = entry.watch.incidents.get(CLUSTER_NO_DATA)
    above_id = above.incident_id if above is not None and above.has_fired else None
    finding = find_dropped(cluster, shard, dropped, now_ms, above_id)
    timing.drop, transition = advance(None, finding, Evaluation(now_ms), rules.of_kind(CLUSTER_NO_DATA), rules)
    if transition is not None:
        yield transition


def end_drop(entry: ClusterEntry, now_ms: int) -> Iterator[Transition]:
    """What still waits is worked through at last."""
    timing = entry.timing
    if timing.drop is not None:
        over = end(timing.drop, Reason.DATA_RETURNED, Evaluation(max(now_ms, timing.drop.written_ms)))
        yield with_words(over, f"{timing.dropped} events were dropped in total.")
    timing.drop, timing.dropped = None, 0


def clocked(chunks: Iterable[Chunk]) -> set[str]:
    """Clusters whose clock events are among these."""
    return {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
