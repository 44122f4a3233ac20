"""One shard: the events of groups in event-time order, the rules at each clock event, rows out.

Nothing is concluded between two clock events: what arrives waits, packed, until a clock event covers it. So a log gives
the same rows in one batch, in a hundred, or live. The state is a `ShardState`: over Spark's store in the stream, over a
dictionary in backtests and tests. A failing rule ends only what it was to evaluate (set_aside.py).
"""

from collections import defaultdict
from collections.abc import Iterable

from schemas.events import CLOCKS
from streaming.queries.events import (
    BROKER,
    CLUSTER,
    COLLECTOR,
    FORGET,
    IN_ORDER,
    RUN,
    Event,
    EventTimes,
    chunks_of,
    words_of,
)
from streaming.queries.forgetting import (
    ForgottenClusters,
    forget_broker,
    forget_cluster,
    forget_collector,
    give_up_clusters,
)
from streaming.queries.intake import Intake
from streaming.queries.parcel import Chunk, Pack, Parcel, shard_of
from streaming.queries.rows import CLOCK_HEARD, CLOCK_NEEDED, quarantine_row
from streaming.queries.sends import Fleets, advance_boards
from streaming.queries.set_aside import cluster_set_aside, come_back, group_set_aside
from streaming.queries.state import ShardState
from streaming.queries.tick import (
    advance_clock,
    due_groups,
    evaluate,
    learn_who_reports,
    shows_pulls,
    stays_calm,
)
from streaming.queries.waiting import (
    SWEEP_EVENTS,
    SWEEP_MS,
    Complete,
    Planned,
    alerts_of_drop,
    bounded,
    clocks_wanted,
    judge_timing,
    note_arrivals,
    note_tick,
    split,
    waiting_until,
)
from streaming.queries.working_set import WorkingSet
from streaming.warehouse.rows import Rows
from udfs.alerts.life import Reason
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook
from udfs.brokers.cluster import NOBODY_TELLS
from udfs.brokers.cluster_findings import end_drop, step_skew
from udfs.brokers.trouble import gone_brokers


class Shard:
    """One batch of one shard; its rows are in `work`."""

    working_set: type[WorkingSet] = WorkingSet
    due_groups = staticmethod(due_groups)
    stays_calm = staticmethod(stays_calm)

    def __init__(
        self,
        number: int,
        shards: int,
        state: ShardState,
        rules: Rulebook,
        chunks: list[Chunk],
        complete: Complete,
        fleets: Fleets,
    ) -> None:
        self._number, self._shards, self._state, self._rules = number, shards, state, rules
        self._chunks, self._complete, self._fleets = chunks, complete, fleets
        self.work = self.working_set(state)
        self._shard_index = self.work.shard_index
        self._intake = Intake(self.work, number, shards, rules)
        self._newest_clocks: dict[str, Event] = {}
        self._times = EventTimes(self._shard_index)
        self._forgotten = ForgottenClusters(self._shard_index, ())

    def process(self, *, is_once: bool) -> None:
        """Evaluate what clock events cover; all else waits. With `is_once` nothing more is read later (Planned).

        Invalid messages go to quarantine. Changed rules evaluate groups without events, too.
        """
        chunks, shard_index = self._chunks, self._shard_index
        if shard_index.rules != self._rules.fingerprint:
            shard_index.rules = self._rules.fingerprint
            for name, entry in shard_index.clusters.items():
                for group in entry.groups:
                    self.work.enter(name, group, 0)
        for chunk in chunks:
            rejected = (quarantine_row(chunk.topic, chunk.partition, reject) for reject in chunk.rejects)
            self.work.put("quarantine", rejected)
        messages = [
            chunk for chunk in chunks if chunk.count() or chunk.lags or chunk.ahead or shows_pulls(self.work, chunk)
        ]
        newest_ms = note_arrivals(shard_index, chunks)
        self._forgotten = ForgottenClusters(shard_index, chunks)
        is_many = sum(chunk.count() for chunk in messages) >= SWEEP_EVENTS
        is_swept = is_once or is_many or newest_ms >= shard_index.swept_ms + SWEEP_MS
        has_clock = shard_index.has_held_ticks or any(chunk.topic == CLOCKS for chunk in messages)
        if is_swept or has_clock or any(chunk.ahead for chunk in chunks):
            shard_index.swept_ms = max(shard_index.swept_ms, newest_ms)
            pending = self._advance([*self._state.take_pending(), *messages])
            shard_index.has_held_ticks = any(chunk.topic == CLOCKS for chunk in pending)
            if self._complete.groups is None:
                self._judge_timing({cluster for chunk in chunks for cluster in chunk.spans}, pending, is_once=is_once)
            give_up_clusters(self.work)
            messages, dropped = bounded(pending)
            for name, count in sorted(dropped.items()):
                entry = self.work.cluster(name)
                self.work.put_alerts(alerts_of_drop(entry, name, self._number, count, self._rules.of(name)))
        self._state.add_pending(messages)

    def _advance(self, chunks: list[Chunk]) -> list[Chunk]:
        """Evaluate all events that a complete clock event covers; return the rest, packed as it was.

        A decision to forget counts from when Kafka had it: the events that Kafka had before are evaluated first.
        """
        learn_who_reports(self.work, chunks)
        self._times.learn(chunks, self._forgotten.is_silent)
        self._report_ahead(chunks)
        chunks, waiting = split(chunks)
        events = [event for chunk in chunks for event in self._times.events_of(chunk) if not self._forgotten.has(event)]
        decisions = [event for event in events if event.topic == CLOCKS and event.event.source == FORGET]
        events = [event for event in events if event not in decisions] if decisions else events
        for decision in sorted(decisions, key=lambda event: (event.ingest_time_ms, event.partition, event.offset)):
            earlier = [event for event in events if event.ingest_time_ms <= decision.ingest_time_ms]
            later = [event for event in events if event.ingest_time_ms > decision.ingest_time_ms]
            rest = self._evaluate_covered(earlier)
            self._forget(decision)
            events = [event for event in rest + later if not self._forgotten.has(event)]
        return waiting + chunks_of(self._evaluate_covered(events))

    def _evaluate_covered(self, events: list[Event]) -> list[Event]:
        """Apply the events that a complete clock event covers, in order of time; return the others."""
        horizon: dict[str, int] = {}
        for event in events:
            if event.topic == CLOCKS:
                cluster = event.event.cluster
                has_fleet = self._speaks_of(cluster) and self._fleets.of(cluster) is not None
                if not self._complete.holds(cluster, event.time_ms, has_fleet=has_fleet):
                    horizon[cluster] = max(horizon.get(cluster, 0), event.time_ms)
        if not horizon:
            return events
        covered: list[Event] = []
        left: list[Event] = []
        for event in events:
            (covered if event.time_ms <= horizon.get(event.event.cluster, -1) else left).append(event)
        covered.sort(key=IN_ORDER)
        for event in covered:
            if event.topic == CLOCKS:
                self._tick(event)
            else:
                self._intake.apply(event)
        return left

    def _tick(self, event: Event) -> None:
        """Advance the cluster to a clock event: evaluate its producers, then itself, then its groups."""
        clock, work = event.event, self.work
        name, cluster = clock.cluster, work.cluster(clock.cluster)
        self._intake.look_up_anew()
        if clock.source != RUN:
            if cluster.is_run_clock:
                work.put(CLOCK_NEEDED, [{"cluster": name, "is_wanted": False}])
            cluster.is_run_clock, cluster.collector_time_ms = False, max(cluster.collector_time_ms, clock.event_time_ms)
        else:
            cluster.is_run_clock = True
        self._newest_clocks[name] = event
        for group in clock.deleted_groups or ():
            self._end_group(name, group, Reason.GROUP_DELETED, clock.event_time_ms)
        rules, writes_rows, at = self._rules.of(name), self._speaks_of(name), None
        fleet = self._fleets.of(name) if writes_rows else None
        failing = fleet.advance(event.time_ms) if fleet is not None else NOBODY_TELLS
        with cluster_set_aside(work, name, event, rules, writes_rows=writes_rows):
            at = advance_clock(cluster, clock, rules, failing)
        if at is None:
            return
        if fleet is not None:
            fleet.note_gone(gone_brokers(work.cluster(name).watch.incidents.values()), at.now_ms)
        note_tick(cluster, event.ingest_time_ms, is_own=clock.source == RUN)
        work.put_alerts(end_drop(cluster.timing, at.now_ms, "events"))
        with cluster_set_aside(work, name, event, rules, writes_rows=writes_rows):
            self._intake.give_up_routes(name, at.now_ms)
        recovered = list(come_back(cluster.watch, at.now_ms))
        work.put_alerts([*at.transitions, *recovered] if writes_rows else [])
        dirty = work.take_dirty(name)
        for group in sorted(self.due_groups(work, name, at) | dirty):
            if at.is_for(group):
                of_group = self._rules.of(name, group)
                with group_set_aside(work, name, group, event, of_group):
                    if not self.stays_calm(work, name, group, at, of_group):
                        evaluate(work, name, group, at, of_group)
            elif group in dirty or not cluster.groups[group].is_calm:
                work.dirty.setdefault(name, set()).add(group)  # evaluated at the next clock event of its source

    def _report_ahead(self, chunks: list[Chunk]) -> None:
        """Report clock events from the future at once: there may be no others."""
        ahead = sorted((each for chunk in chunks for each in chunk.ahead), key=lambda each: each.ingest_time_ms)
        for clock in ahead:
            if self._forgotten.is_silent(clock.cluster):
                continue
            cluster = self.work.cluster(clock.cluster)
            cluster.watch.ahead[clock.source] = clock.ingest_time_ms, clock.ahead_ms
            now_ms = max(cluster.now_ms, clock.ingest_time_ms)
            transitions = list(step_skew(cluster.watch, clock.cluster, now_ms, self._rules.of(clock.cluster)))
            self.work.put_alerts(transitions if self._speaks_of(clock.cluster) else [])

    def _judge_timing(self, clusters: set[str], pending: list[Chunk], *, is_once: bool) -> None:
        waiting_ms = waiting_until(pending)
        for name in sorted(clusters & self._shard_index.clusters.keys() - {CANARY_CLUSTER}):
            entry, rules = self.work.cluster(name), self._rules.of(name)
            reported = list(judge_timing(entry, name, rules, waiting_ms.get(name, 0), is_once=is_once))
            self.work.put_alerts(reported if self._speaks_of(name) else [])

    def _forget(self, decision: Event) -> None:
        clock = decision.event
        self._intake.look_up_anew()
        name, writes_rows = clock.cluster, self._speaks_of(clock.cluster)
        now_ms = max(clock.event_time_ms, self.work.cluster(name).now_ms + 1)
        for forgotten in clock.forgotten or ():
            words = words_of(forgotten)
            if forgotten.kind == CLUSTER:
                forget_cluster(self.work, name, words, now_ms, writes_rows=writes_rows)
                self._forgotten.forget(name, decision.ingest_time_ms)
            elif forgotten.kind == BROKER:
                forget_broker(self.work, name, forgotten.name, words, now_ms, writes_rows=writes_rows)
            elif forgotten.kind == COLLECTOR:
                forget_collector(self.work, name, forgotten.name, words, now_ms, writes_rows=writes_rows)
            else:
                self._end_group(name, forgotten.name, Reason.FORGOTTEN, now_ms, words)
        if any(forgotten.kind == CLUSTER for forgotten in clock.forgotten or ()):
            self._shard_index.clusters.pop(name, None)
            self._newest_clocks[name] = decision

    def _end_group(self, cluster: str, name: str, reason: Reason, now_ms: int, words: str = "") -> None:
        """End the group in its shard; in all shards a stopped collector is not missed for it any more."""
        self.work.cluster(cluster).watch.rounds.drop_group(name)
        if shard_of(cluster, name, self._shards) == self._number:
            self.work.end_group(cluster, name, reason, now_ms, words)

    def _speaks_of(self, cluster: str) -> bool:
        """Whether this shard writes the rows of the cluster, about which all shards conclude the same."""
        return shard_of(cluster, "", self._shards) == self._number

    def put_clocks(self) -> None:
        """Put the newest clock event of each cluster and its source."""
        self.work.put(
            CLOCK_HEARD,
            (
                {
                    "cluster": cluster,
                    "newest_ms": event.event.event_time_ms,
                    "source": event.event.source,
                    "collector": event.event.collector,
                    "ingest_ms": event.ingest_time_ms,
                }
                for cluster, event in sorted(self._newest_clocks.items())
            ),
        )


def work_through(
    number: int,
    shards: int,
    state: ShardState,
    rules: Rulebook,
    parcels: Iterable[Parcel],
    limit: int = 0,
    planned: Planned | None = None,
    engine: type[Shard] = Shard,
) -> Rows:
    """Run one batch of one shard: write its state, and return its rows by table.

    `limit` is maxOffsetsPerTrigger, 0 for none. Without a plan it counts as having cut the batch.
    """
    parcels = list(parcels)
    chunks = [chunk for parcel in parcels for chunk in parcel.chunks]
    planned = planned or Planned(limit > 0)
    of_boards, of_fleets = defaultdict[tuple[str, str], list[Pack]](list), defaultdict[str, list[Pack]](list)
    for cluster, broker_name, pack in (keyed for parcel in parcels for keyed in parcel.sends):
        (of_fleets[cluster] if broker_name is None else of_boards[cluster, broker_name]).append(pack)
    complete = Complete(
        chunks, [chunk for packs in of_fleets.values() for pack in packs for chunk in pack.read], planned
    )
    fleets = Fleets(state, rules, of_fleets, complete, is_once=planned.is_once)

    board_rows = advance_boards(state, rules, of_boards, may_be_cut=limit > 0 or planned.is_cut)
    shard = engine(number, shards, state, rules, chunks, complete, fleets)
    if number == 0:
        shard.work.put(CLOCK_NEEDED, clocks_wanted(chunks, state.shard_index))
    shard.process(is_once=planned.is_once)  # fleets advance with the clock events of their clusters
    fleet_rows = fleets.finish()
    shard.work.write()
    if number == 0:
        shard.put_clocks()
    for rows in (fleet_rows, board_rows):
        for table, of_table in rows.items():
            shard.work.put(table, of_table)
    for parcel in parcels:
        shard.work.put("quarantine", (quarantine_row(*reject) for reject in parcel.rejects))
    return shard.work.rows
