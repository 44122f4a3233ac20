"""A clock event (tick) of a cluster: which brokers give data, which incidents inhibit groups, which groups are due.

    advance_clock ─► ClusterTick ─► due_groups ─► stays_calm or evaluate, group by group

Nothing is concluded between two clock events.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from functools import cache
from typing import Any, NamedTuple

from streaming.queries.events import RUN
from streaming.queries.parcel import Chunk
from streaming.queries.rows import assignment_row
from streaming.queries.state import ClusterContext, ClusterEntry, GroupEntry
from streaming.queries.working_set import WorkingSet, as_after_a_gap, come_back, is_set_aside, is_tried_again
from udfs.alerts.alert import Transition
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked
from udfs.brokers.cluster import NOBODY_TELLS, evaluate_cluster
from udfs.brokers.mute_brokers import unasked_of
from udfs.brokers.rounds import MachineSkew, Tick, scaled
from udfs.groups.calm import are_held, calm_until
from udfs.groups.group import frozen_of, tick

MOST_INTERVAL_MS = 3_600_000
"""Largest interval of rounds that counts: with a larger reported one, no round would ever be missed."""

BELIEVED_MS = 60_000
"""Idle consumers pull every 15 to 20 s: a broker with any consumer reports a pull this often."""


class ClusterTick(NamedTuple):
    """One clock event of a cluster.

    due         the groups to evaluate, calm ones only if a deadline has passed
    speaks_for  the groups that its source reads, None for all
    brokers     those whose data changed since the previous clock event, None for all
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
        """Whether it concerns the group: groups of another collector are evaluated at that one's clock events."""
        return self.speaks_for is None or consumer_group in self.speaks_for


def advance_clock(
    entry: ClusterEntry, clock: Any, rules: Rules, failing: Mapping[str, str] = NOBODY_TELLS
) -> ClusterTick | None:
    """Advance the cluster's time to this clock event; None if it advances nothing. `failing` is evaluate_cluster's."""
    tick = _tick_of(clock, entry)
    before_ms = entry.now_ms
    if tick.now_ms <= before_ms:
        known_source = entry.watch.rounds.sources.get(tick.source)
        if tick.groups is None or (known_source is not None and tick.now_ms <= known_source.now_ms):
            entry.watch.rounds.note(tick)
            return None
        tick = replace(tick, now_ms=before_ms)  # no other source reads its groups
    now_ms = tick.now_ms
    entry.families.forget(now_ms)
    overview = evaluate_cluster(entry.watch, clock.cluster, tick, rules, failing)
    entry.now_ms = now_ms
    absent_ms = now_ms - before_ms if before_ms and now_ms - before_ms > overview.rules.max_evaluation_gap_ms else 0
    known = overview.coverage
    gap_ms = max(absent_ms, known.gap_ms)
    resumed = overview.tick.answered if gap_ms else overview.resumed
    with_data = overview.tick.answered - known.without_data
    entry.data_since_ms = {
        name: now_ms if name in resumed else entry.data_since_ms.get(name, 0) for name in sorted(with_data)
    } | {name: entry.data_since_ms[name] for name in sorted(known.missed & entry.data_since_ms.keys())}
    answered = frozenset() if overview.tick.is_own else with_data  # `run` polls no broker
    pulled_ms, reported_until_ms = reporting(entry, now_ms)
    context = ClusterContext(
        sorted(known.without_data),
        dict(known.explained),
        dict(known.masterless),
        known.cluster_id,
        sorted(known.missed),
        sorted(known.silent),
        sorted(answered),
        sorted(pulled_ms),
    )
    unasked = (*entry.watch.rounds.unasked(now_ms, entry.groups), *unasked_of(entry.watch))
    due, brokers = _due_by_context(entry, context, unasked, is_gap=bool(gap_ms))
    due |= {name for name, group in entry.groups.items() if group.due_ms is not None and group.due_ms <= now_ms}
    entry.context, entry.unasked = context, list(unasked)
    collectors = [source for source in entry.watch.rounds.live(now_ms) if not source.is_own]
    speaks_for = None
    if tick.groups is not None:  # its source's groups, and those that no live source reads
        others = [source for source in collectors if source.now_ms < now_ms]
        speaks_for = tick.groups | {
            name for name in entry.groups if not any(source.speaks_for(name) for source in others)
        }
    broker_coverage = replace(
        known,
        since_ms={name: since for name, since in entry.data_since_ms.items() if since},
        answered=answered,
        pulled_ms=pulled_ms,
        gap_ms=gap_ms,
        unasked=unasked,
        families=entry.families,
        # Every collector reports how it polls, and a pull that some client's answer names has been reported.
        reports_answers=bool(collectors and entry.watch.pulls.heard_ms)
        and all(one.reported_ms is not None for one in collectors),
        frozen=entry.frozen,
        reported_until_ms=reported_until_ms,
    )
    return ClusterTick(
        broker_coverage,
        due,
        overview.transitions,
        entry.watch.rounds.interval_ms(now_ms),
        entry.watch.rounds.usual_gap_ms(now_ms),
        now_ms,
        speaks_for,
        brokers,
    )


def _due_by_context(
    entry: ClusterEntry, context: ClusterContext, unasked: tuple[Unasked, ...], *, is_gap: bool
) -> tuple[set[str], frozenset[str] | None]:
    """Return the groups that are due because the cluster's data changed since the previous clock event.

    Second, the brokers whose data changed, which concern calm groups (`due_groups`); None if every calm group is
    concerned.
    """
    before = entry.context
    changed = {one[:4] for one in map(astuple, unasked)} ^ {one[:4] for one in map(astuple, entry.unasked)}
    due = {group for _, group, _, _ in changed if group in entry.groups}
    for name in {group for _, group, client_id, _ in changed if client_id is None} & due:
        entry.groups[name].wake()
    brokers = {broker for broker, group, client_id, _ in changed if group is None and client_id is None}
    if is_gap or context != before or any(group is None for _, group, _, _ in changed):
        due |= {name for name, group in entry.groups.items() if not group.is_calm}
    inhibits = [(of.explained, of.masterless, of.cluster_id) for of in (context, before)]
    if is_gap or None in brokers or inhibits[0] != inhibits[1]:
        return due, None
    for after, earlier in (
        (context.without_data, before.without_data),
        (context.silent, before.silent),
        (context.answered, before.answered),
    ):
        brokers |= set(after) ^ set(earlier)
    return due, frozenset(brokers)


def _tick_of(clock: Any, entry: ClusterEntry) -> Tick:
    """Return the tick; one of `run`, which knows no brokers after a restart, covers all brokers known here."""
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


def due_groups(work: WorkingSet, cluster: str, at: ClusterTick) -> set[str]:
    """Return the groups that are due, and wake the calm ones that a change of their topics' brokers concerns."""
    entry, brokers = work.cluster(cluster), at.brokers
    if brokers is not None and not brokers:
        return at.due

    @cache
    def is_concerned(topic: str) -> bool:
        route = work.route(cluster, topic)
        return brokers is None or (route is not None and not brokers.isdisjoint(route.broker_names()))

    calm = {name for name, group in entry.groups.items() if group.is_calm}
    woken = {name for name in calm if brokers is None or any(map(is_concerned, entry.groups[name].topics))}
    for name in woken:
        entry.groups[name].wake()
    return at.due | woken


def stays_calm(work: WorkingSet, cluster: str, name: str, at: ClusterTick, rules: Rules) -> bool:
    """Whether the group is calm, only repetitions have come, and none of its deadlines has passed."""
    entry = work.cluster(cluster).groups.get(name)
    if entry is None or not entry.is_calm:
        return False
    group = work.group(cluster, name, at.now_ms)
    if calm_until(group, at.rules_of(rules)) <= at.now_ms:
        return False
    work.enter(cluster, name, calm_until(group, rules), is_calm=True)
    return True


def evaluate(work: WorkingSet, cluster: str, name: str, at: ClusterTick, rules: Rules) -> None:
    now_ms, broker_coverage = at.now_ms, at.broker_coverage
    group = work.change(cluster, name, now_ms)
    topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
    routes = {topic: route for topic in sorted(topics) if (route := work.route(cluster, topic))}
    if is_set_aside(group):
        if not is_tried_again(work, group, now_ms):
            return
        group.is_stale = True
        brokers = {broker_name for route in routes.values() for broker_name in route.broker_names()}
        broker_coverage = as_after_a_gap(broker_coverage, group, brokers, now_ms)
    outcome = tick(group, routes, now_ms, broker_coverage, at.rules_of(rules))
    work.put_changes(group, outcome.changes)
    if frozen := frozen_of(group):
        work.cluster(cluster).frozen[name] = frozen
    else:
        work.cluster(cluster).frozen.pop(name, None)
    work.put("assignments", (assignment_row(group, row, outcome.completeness, now_ms) for row in outcome.ownership))
    work.put_backlogs(group, outcome.backlogs, now_ms)
    work.put_alerts((*outcome.transitions, *come_back(group, now_ms)))
    if group.is_forgotten():
        work.drop_group(cluster, name)
    else:
        is_calm = outcome.is_calm and not group.is_stale and are_held(group, rules)
        due_ms = calm_until(group, rules) if is_calm else outcome.due_ms  # as if rounds were close together
        due_ms = now_ms + 1 if outcome.is_calm and not is_calm else due_ms
        work.cluster(cluster).groups[name] = GroupEntry(due_ms, sorted(topics), is_calm)


def note_report(entry: ClusterEntry, broker_name: str, time_ms: int) -> None:
    """Note a pull that the broker itself reported: it reports every pull, so a client without one does not pull."""
    entry.pulled_ms.setdefault(broker_name, time_ms)
    entry.newest_pulled_ms[broker_name] = max(time_ms, entry.newest_pulled_ms.get(broker_name, 0))


def reporting(entry: ClusterEntry, now_ms: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the brokers that report each pull and since when; those that no longer do, and until when.

    A broker is believed until others report pulls or offsets there for BELIEVED_MS while the broker itself reports no
    pull: its agent was removed. Its later reports count from then on.
    """
    for broker_name, newest_ms in entry.newest_pulled_ms.items():
        others_ms = max(entry.watch.pulls.at(broker_name) or 0, entry.watch.offsets_ms.get(broker_name, 0))
        if others_ms > newest_ms + BELIEVED_MS:
            entry.pulled_ms.pop(broker_name, None)
    since_ms = {name: at_ms for name, at_ms in sorted(entry.pulled_ms.items()) if at_ms <= now_ms}
    return since_ms, {name: at_ms for name, at_ms in entry.newest_pulled_ms.items() if name not in since_ms}


def shows_pulls(work: WorkingSet, chunk: Chunk) -> bool:
    """Whether the chunk is the first with pulls that some broker reported."""
    clusters = work.shard_index.clusters
    return any(
        cluster not in clusters or broker not in clusters[cluster].pulled_ms
        for cluster, broker, _ in _pulled(work, chunk)
    )


def learn_who_reports(work: WorkingSet, chunks: Iterable[Chunk]) -> None:
    """Note the brokers that report pulls; the next clock event evaluates the groups that are not calm."""
    for chunk in chunks:
        for cluster, broker_name, time_ms in _pulled(work, chunk):
            entry = work.cluster(cluster)
            if time_ms < entry.pulled_ms.get(broker_name, time_ms + 1):
                entry.pulled_ms[broker_name] = time_ms
                restless = {name for name, group in entry.groups.items() if not group.is_calm}
                work.dirty.setdefault(cluster, set()).update(restless)


def _pulled(work: WorkingSet, chunk: Chunk) -> Iterator[tuple[str, str, int]]:
    """Yield (cluster, broker, its oldest pull), of clusters that were not forgotten since."""
    for (cluster, broker_name), time_ms in chunk.pulled_ms.items():
        if time_ms > work.shard_index.forgotten_ms.get(cluster, 0):
            yield cluster, broker_name, time_ms
