"""What a tick means to a shard: what of the cluster was heard, what stands above its groups, and which to look at."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk
from streaming.queries.shard_store import Above, ClusterEntry
from udfs.alert import Transition
from udfs.cluster import Tick, look_over
from udfs.hearing import Hearing
from udfs.rules import Rules

RUN = "run"
"""The source of the clock events that `balancewatch run` itself sends."""

CLOCK_WANTED = "clock_wanted"
"""Not a Delta table: rows that tell `run` which clusters no one else keeps the time of."""

CLOCK_HEARD = "clock_heard"
"""Not a Delta table: the newest clock event of each cluster in a batch, and its source, as shard 0 saw it."""

CLOCK_MISSED_MS = 15_000


class Heard(NamedTuple):
    """One tick's meaning. `due` are the groups to look at, whatever else concerns them."""

    hearing: Hearing
    due: set[str]
    transitions: list[Transition]


def hear(entry: ClusterEntry, clock: Any, rules: Rules) -> Heard | None:
    """Move the cluster's time to this clock event; None for one that moves nothing."""
    if clock.event_time_ms <= entry.now_ms:
        return None
    now_ms, before_ms = clock.event_time_ms, entry.now_ms
    entry.now_ms = now_ms
    entry.families.forget(now_ms)
    tick = _tick_of(clock, entry)
    overview = look_over(entry.watch, clock.cluster, tick, rules)
    absent_ms = now_ms - before_ms if before_ms and now_ms - before_ms > rules.blind_ms else 0
    gap_ms = max(absent_ms, overview.gap_ms)
    missed = tick.answered if gap_ms else set(entry.unheard)
    heard = tick.answered - overview.unheard
    entry.heard_since_ms = {
        name: now_ms if name in missed else entry.heard_since_ms.get(name, 0) for name in sorted(heard)
    }
    due = {name for name, group in entry.groups.items() if group.due_ms is not None and group.due_ms <= now_ms}
    above = Above(sorted(overview.unheard), overview.explained, overview.masterless, overview.cluster_id)
    if gap_ms or above != entry.above:
        due = set(entry.groups)
    entry.unheard, entry.above = above.unheard, above
    hearing = Hearing(
        overview.unheard,
        {name: since for name, since in entry.heard_since_ms.items() if since},
        frozenset() if tick.is_own else heard,  # `run` asks nobody
        entry.pulled_ms,
        overview.silent,
        gap_ms,
        overview.explained,
        overview.cluster_id,
        overview.masterless,
        families=entry.families,
    )
    return Heard(hearing, due, overview.transitions)


def _tick_of(clock: Any, entry: ClusterEntry) -> Tick:
    """The tick; one of `run` speaks for all brokers that are known here, for after a restart it knows none itself."""
    asked, answered = frozenset(clock.brokers_asked), frozenset(clock.brokers_answered)
    is_own = clock.source == RUN
    if is_own:
        known = entry.watch.voices.heard_ms.keys() & entry.watch.topics.keys()
        is_dead_collector = bool(asked) and not answered
        asked, answered = asked | known, answered if is_dead_collector else answered | known
    return Tick(clock.event_time_ms, asked, answered, is_own)


def clocks_wanted(chunks: list[Chunk], foreign_ms: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Which clusters have events in this batch, but no clock events of their own; `foreign_ms` by cluster."""
    newest: dict[str, int] = {}
    for chunk in chunks:
        for cluster, time_ms in chunk.newest_ms.items():
            newest[cluster] = max(newest.get(cluster, 0), time_ms)
    told = {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
    for cluster, time_ms in sorted(newest.items()):
        if cluster not in told and time_ms > foreign_ms.get(cluster, 0) + CLOCK_MISSED_MS:
            yield {"cluster": cluster, "is_wanted": True, "newest_ms": time_ms}
