"""What a tick means to a shard: what of the cluster gave data, what stands above its groups, and which to look at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, replace
from functools import cache
from typing import Any, NamedTuple

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk
from streaming.queries.reporters import reporting
from streaming.queries.shard_values import ClusterContext, ClusterEntry
from udfs.alerts.alert import Transition
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.brokers.cluster import NOBODY_TELLS, evaluate_cluster
from udfs.brokers.mute_brokers import unasked_of
from udfs.brokers.rounds import MachineSkew, Tick, scaled

RUN = "run"
"""The source of the clock events that `balancewatch run` itself sends."""

CLOCK_NEEDED = "clock_needed"
"""Not a Delta table: rows that tell `run` which clusters no one else keeps the time of."""

CLOCK_HEARD = "clock_heard"
"""Not a Delta table: the newest clock event of each cluster in a batch, and its source, as shard 0 saw it."""

CLOCK_MISSED_MS = 15_000

MOST_INTERVAL_MS = 3_600_000
"""Rounds that are meant to be further apart count as this far: by what is told none would ever be missed."""


class Heard(NamedTuple):
    """One tick's meaning. `due` are the groups to look at, calm ones only where a deadline has come; `rules_of` gives a
    group's rules for rounds as far apart as the cluster's. `speaks_for`: the groups its source reads, None for all.
    `brokers` give data otherwise than at the tick before, None for all.
    """

    broker_coverage: BrokerCoverage
    due: set[str]
    transitions: list[Transition]
    interval_ms: int
    usual_gap_ms: int
    now_ms: int
    speaks_for: frozenset[str] | None = None
    brokers: frozenset[str] | None = frozenset()

    def rules_of(self, rules: Rules) -> Rules:
        return scaled(rules, self.interval_ms, self.usual_gap_ms)

    def is_for(self, consumer_group: str) -> bool:
        """Whether this tick says anything of the group: what another collector reads is judged at that one's ticks."""
        return self.speaks_for is None or consumer_group in self.speaks_for


def advance_clock(
    entry: ClusterEntry, clock: Any, rules: Rules, failing: Mapping[str, str] = NOBODY_TELLS
) -> Heard | None:
    """Move the cluster's time to this clock event; None for one that moves nothing. `failing`: as evaluate_cluster has
    it.
    """
    tick = _tick_of(clock, entry)
    before_ms = entry.now_ms
    if tick.now_ms <= before_ms:
        if not entry.watch.rounds.is_news(tick) or tick.groups is None:
            entry.watch.rounds.note(tick)
            return None
        tick = replace(tick, now_ms=before_ms)  # nobody else will look at its groups
    now_ms = tick.now_ms
    entry.families.forget(now_ms)
    overview = evaluate_cluster(entry.watch, clock.cluster, tick, rules, failing)
    entry.now_ms = now_ms
    absent_ms = now_ms - before_ms if before_ms and now_ms - before_ms > overview.rules.max_evaluation_gap_ms else 0
    gap_ms = max(absent_ms, overview.gap_ms)
    resumed = overview.tick.answered if gap_ms else overview.resumed
    heard = overview.tick.answered - overview.without_data
    entry.data_since_ms = {
        name: now_ms if name in resumed else entry.data_since_ms.get(name, 0) for name in sorted(heard)
    } | {name: entry.data_since_ms[name] for name in sorted(overview.missed & entry.data_since_ms.keys())}
    answered = frozenset() if overview.tick.is_own else heard  # `run` asks nobody
    pulled_ms, reported_until_ms = reporting(entry, now_ms)
    context = ClusterContext(
        sorted(overview.without_data),
        overview.explained,
        overview.masterless,
        overview.cluster_id,
        sorted(overview.missed),
        sorted(overview.silent),
        sorted(answered),
        sorted(pulled_ms),
    )
    unasked = (*entry.watch.rounds.unasked(now_ms, entry.groups), *unasked_of(entry.watch))
    due, brokers = _due_otherwise(entry, context, unasked, is_gap=bool(gap_ms))
    due |= {name for name, group in entry.groups.items() if group.due_ms is not None and group.due_ms <= now_ms}
    entry.without_data, entry.context, entry.unasked = context.without_data, context, list(unasked)
    broker_coverage = BrokerCoverage(
        overview.without_data,
        {name: since for name, since in entry.data_since_ms.items() if since},
        answered,
        pulled_ms,
        overview.silent,
        gap_ms,
        overview.explained,
        overview.cluster_id,
        overview.masterless,
        unasked,
        overview.missed,
        entry.families,
        _reports_answers(entry, now_ms),
        entry.frozen,
        reported_until_ms,
        overview.unserved,
    )
    return Heard(
        broker_coverage,
        due,
        overview.transitions,
        entry.watch.rounds.interval_ms(now_ms),
        entry.watch.rounds.usual_gap_ms(now_ms),
        now_ms,
        _speaks_for(entry, tick),
        brokers,
    )


def _due_otherwise(
    entry: ClusterEntry, context: ClusterContext, unasked: tuple[Unasked, ...], *, is_gap: bool
) -> tuple[set[str], frozenset[str] | None]:
    """The groups to look at because the cluster gives data otherwise than at the tick before; and the brokers that are,
    by which calm groups are concerned (`wake`), and by nothing else. Any other is concerned by everything.
    """
    changed = {one[:4] for one in map(astuple, unasked)} ^ {one[:4] for one in map(astuple, entry.unasked)}
    due = {group for _, group, _, _ in changed if group in entry.groups}
    for name in {group for _, group, client_id, _ in changed if client_id is None} & due:
        entry.groups[name].wake()
    brokers = {broker for broker, group, client_id, _ in changed if group is None and client_id is None}
    if is_gap or context != entry.context or any(group is None for _, group, _, _ in changed):
        due |= {name for name, group in entry.groups.items() if not group.is_calm}
    if is_gap or None in brokers or _explains_otherwise(context, entry.context):
        return due, None
    return due, frozenset(brokers | _brokers_changed(context, entry.context))


def wake(entry: ClusterEntry, brokers: frozenset[str] | None, brokers_of: Callable[[str], set[str]]) -> set[str]:
    """The calm groups that these brokers concern (None: all brokers), calm no more. `brokers_of` a topic's route."""
    if brokers is None:
        names = {name for name, one in entry.groups.items() if one.is_calm}
    elif brokers:
        concerned = cache(lambda topic: not brokers.isdisjoint(brokers_of(topic)))
        names = {name for name, one in entry.groups.items() if one.is_calm and any(map(concerned, one.topics))}
    else:
        return set()
    for name in names:
        entry.groups[name].wake()
    return names


def _brokers_changed(after: ClusterContext, before: ClusterContext) -> set[str]:
    """Those that give data otherwise than before."""
    pairs = (
        (after.without_data, before.without_data),
        (after.silent, before.silent),
        (after.answered, before.answered),
    )
    return {broker for one, other in pairs for broker in set(one) ^ set(other)}


def _explains_otherwise(after: ClusterContext, before: ClusterContext) -> bool:
    """Whether other incidents stand above groups than before."""
    return (after.explained, after.masterless, after.cluster_id) != (
        before.explained,
        before.masterless,
        before.cluster_id,
    )


def _reports_answers(entry: ClusterEntry, now_ms: int) -> bool:
    """Whether every collector says how it asks, and what some client answered that it pulls has been reported."""
    collectors = [source for source in entry.watch.rounds.live(now_ms) if not source.is_own]
    return bool(collectors and entry.watch.pulls.heard_ms) and all(one.reported_ms is not None for one in collectors)


def _speaks_for(entry: ClusterEntry, tick: Tick) -> frozenset[str] | None:
    """The groups that are judged at this tick: its source's, and those that no source which lives reads."""
    if tick.groups is None:
        return None
    others = [
        source for source in entry.watch.rounds.live(tick.now_ms) if not source.is_own and source.now_ms < tick.now_ms
    ]
    elsewhere = {name for name in entry.groups if any(source.speaks_for(name) for source in others)}
    return tick.groups | (entry.groups.keys() - elsewhere)


def _tick_of(clock: Any, entry: ClusterEntry) -> Tick:
    """The tick; one of `run` speaks for all brokers that are known here, for after a restart it knows none itself."""
    asked, answered = frozenset(clock.brokers_asked), frozenset(clock.brokers_answered)
    is_own = clock.source == RUN
    if is_own:
        known = entry.watch.heartbeat_sample.heard_ms.keys() & entry.watch.topics.keys()
        is_dead_collector = bool(asked) and not answered
        asked, answered = asked | known, answered if is_dead_collector else answered | known
    return Tick(
        clock.event_time_ms,
        asked,
        answered,
        is_own,
        source=clock.collector or clock.source,
        groups=None if clock.groups is None else frozenset(clock.groups),
        interval_ms=None if clock.interval_ms is None else min(clock.interval_ms, MOST_INTERVAL_MS),
        unasked=tuple(
            Unasked(
                one.broker_name, one.consumer_group, one.client_id, one.reason, min(one.since_ms, clock.event_time_ms)
            )
            for one in clock.unheard or ()
        ),
        skews=tuple(MachineSkew(one.machine, one.role, one.ahead_ms) for one in clock.skews or ()),
        name_servers=tuple(clock.name_servers or ()),
        unreachable=frozenset(clock.name_servers_unreachable or ()),
        addresses={one.broker_name: one.address for one in clock.broker_addresses or ()},
    )


def silent_ms_of(entry: ClusterEntry) -> int:
    """When the cluster's own clock counts as silent, for events that are newer; a slow one is given three rounds."""
    return entry.collector_time_ms + max(CLOCK_MISSED_MS, 3 * entry.watch.rounds.interval_ms(entry.now_ms))


def clocks_wanted(chunks: list[Chunk], silent_ms: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Which clusters have events in this batch, but no clock events of their own since `silent_ms`, by cluster."""
    newest: dict[str, int] = {}
    for chunk in chunks:
        for cluster, time_ms in chunk.newest_ms.items():
            newest[cluster] = max(newest.get(cluster, 0), time_ms)
    reported = {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
    for cluster, time_ms in sorted(newest.items()):
        if cluster not in reported and time_ms > silent_ms.get(cluster, 0):
            yield {"cluster": cluster, "is_wanted": True, "newest_ms": time_ms}
