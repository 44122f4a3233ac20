"""One shard: events that tell of groups in event-time order, the rules at each tick, rows out.

Nothing is concluded between two clock events: what arrives waits, packed, until a tick covers it. So a log gives
the same rows whether it comes in one batch, in a hundred, or live. The state behind it is a `ShardState`: over Spark's
store in the stream, over a dictionary in the tests. A rule that raises ends nothing but what it was to judge
(set_aside.py).
"""

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk, has_content
from streaming.queries.complete import Complete
from streaming.queries.reporters import learn_who_reports, shows_pulls
from streaming.queries.sends import Fleets
from streaming.queries.set_aside import (
    cluster_set_aside,
    group_set_aside,
)
from streaming.queries.shard_clock import (
    CLOCK_HEARD,
    CLOCK_MISSED_MS,
    CLOCK_NEEDED,
    RUN,
    Heard,
    advance_clock,
    clocks_wanted,
    silent_ms_of,
    wake,
)
from streaming.queries.shard_endings import (
    BROKER,
    CLUSTER,
    COLLECTOR,
    FORGET,
    ForgottenClusters,
    end_group,
    forget_broker,
    forget_cluster,
    forget_collector,
    give_up_clusters,
    words_of,
)
from streaming.queries.shard_evaluation import evaluate, stays_calm
from streaming.queries.shard_events import IN_ORDER, Event, events_of, is_earlier, pack
from streaming.queries.shard_intake import Intake, shard_of
from streaming.queries.shard_rows import quarantine_row
from streaming.queries.shard_state import ShardState
from streaming.queries.source_times import SourceTimes
from streaming.queries.timing import (
    alerts_of_drop,
    clocked,
    end_drop,
    judge_timing,
    note_arrivals,
    note_tick,
    waiting_until,
)
from streaming.queries.waiting import SWEEP_EVENTS, SWEEP_MS, bounded, count_of, split
from streaming.queries.working_set import WorkingSet
from streaming.warehouse.rows import Rows
from udfs.alerts.failed_rule import RULE_FAILED
from udfs.alerts.life import Evaluation, Reason, end
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook
from udfs.brokers.cluster import NOBODY_TELLS
from udfs.brokers.skew_findings import step_skew
from udfs.brokers.trouble import gone_brokers

__all__ = ["Shard", "shard_of"]


class Shard:
    """One batch of one shard. `rows` holds what it concluded."""

    working_set: type[WorkingSet] = WorkingSet

    def __init__(self, number: int, shards: int, state: ShardState, rules: Rulebook, fleets: Fleets) -> None:
        self._fleets = fleets
        self._number, self._shards, self._state, self._rules = number, shards, state, rules
        self._work = self.working_set(state)
        self._shard_index = self._work.shard_index
        if self._shard_index.rules != rules.fingerprint:  # groups that nothing happens to are judged anew by them, too
            self._shard_index.rules = rules.fingerprint
            for name, entry in self._shard_index.clusters.items():
                for group in entry.groups:
                    self._work.enter(name, group, 0)
        self._intake = Intake(self._work, number, shards, rules)
        self._heard: dict[str, Event] = {}
        self._times = SourceTimes(self._work)
        self._forgotten = ForgottenClusters(self._shard_index, ())

    @property
    def rows(self) -> Rows:
        return self._work.rows

    def process(self, chunks: list[Chunk], complete: Complete, *, is_once: bool = False) -> None:
        """Take in a batch. With `is_once` nothing that comes later is read (Planned)."""
        for chunk in chunks:
            rejected = (quarantine_row(chunk.topic, chunk.partition, reject) for reject in chunk.rejects)
            self._work.put("quarantine", rejected)
        if self._number == 0:
            silent_ms = {name: at_ms + CLOCK_MISSED_MS for name, at_ms in self._shard_index.forgotten_ms.items()}
            silent_ms |= {name: silent_ms_of(entry) for name, entry in self._shard_index.clusters.items()}
            self._work.put(CLOCK_NEEDED, clocks_wanted(chunks, silent_ms))
        messages = [chunk for chunk in chunks if has_content(chunk) or shows_pulls(self._work, chunk)]
        shard_index = self._shard_index
        newest_ms = note_arrivals(shard_index, chunks)
        self._forgotten = ForgottenClusters(shard_index, chunks)
        is_swept = is_once or newest_ms >= shard_index.swept_ms + SWEEP_MS or count_of(messages) >= SWEEP_EVENTS
        has_ahead = any(chunk.ahead for chunk in chunks)
        if not (
            is_swept or has_ahead or shard_index.has_held_ticks or any(chunk.topic == CLOCKS for chunk in messages)
        ):
            self._state.add_pending(messages)
            self._write()
            return
        shard_index.swept_ms = max(shard_index.swept_ms, newest_ms)
        pending = self._advance([*self._state.take_pending(), *messages], complete)
        shard_index.has_held_ticks = any(chunk.topic == CLOCKS for chunk in pending)
        if complete.groups is None:
            clusters = {cluster for chunk in chunks for cluster in chunk.spans}
            self._judge_timing(clusters, waiting_until(pending), is_once=is_once)
        give_up_clusters(self._work)
        self._state.add_pending(self._bounded(pending))
        self._write()

    def _judge_timing(self, clusters: set[str], waiting_ms: dict[str, int], *, is_once: bool) -> None:
        for name in sorted(clusters & self._shard_index.clusters.keys() - {CANARY_CLUSTER}):
            entry, rules = self._work.cluster(name), self._rules.of(name)
            reported = list(judge_timing(entry, name, rules, waiting_ms.get(name, 0), is_once=is_once))
            self._work.put_alerts(reported if self._speaks_of(name) else [])

    def _bounded(self, pending: list[Chunk]) -> list[Chunk]:
        kept, dropped = bounded(pending)
        for name, count in sorted(dropped.items()):
            entry = self._work.cluster(name)
            self._work.put_alerts(alerts_of_drop(entry, name, self._number, count, self._rules.of(name)))
        return kept

    def _advance(self, chunks: list[Chunk], complete: Complete) -> list[Chunk]:
        """Work through every event a releasable tick covers; the rest comes back, packed as it was.

        What is forgotten is so from when Kafka had the decision: whatever came to it before is worked through first.
        """
        learn_who_reports(self._work, chunks)
        self._times.learn(chunks, self._forgotten.is_silent)
        self._report_ahead(chunks)
        chunks, waiting = split(chunks, clocked(chunks))
        self._times.read_intervals(chunks)
        events = [
            event
            for chunk in chunks
            for event in events_of(chunk, self._times.shift_ms, self._times.behind_ms)
            if not self._forgotten.has(event)
        ]
        decisions = [event for event in events if event.topic == CLOCKS and event.event.source == FORGET]
        events = [event for event in events if event not in decisions]
        for decision in sorted(decisions, key=lambda one: (one.ingest_time_ms, one.partition, one.offset)):
            earlier = [event for event in events if is_earlier(event, decision)]
            later = [event for event in events if not is_earlier(event, decision)]
            rest = self._work_through(earlier, complete)
            self._forget(decision)
            events = [event for event in rest + later if not self._forgotten.has(event)]
        return waiting + pack(self._work_through(events, complete))

    def _work_through(self, events: list[Event], complete: Complete) -> list[Event]:
        """Apply what a releasable tick covers, in order of time; what is left."""
        horizon: dict[str, int] = {}
        for event in events:
            if event.topic == CLOCKS:
                cluster = event.event.cluster
                has_fleet = self._speaks_of(cluster) and self._fleets.of(cluster) is not None
                if not complete.holds(cluster, event.time_ms, has_fleet=has_fleet):
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

    def _report_ahead(self, chunks: list[Chunk]) -> None:
        """Clock events from the future are reported as they come: there may be no others to tell them at."""
        ahead = sorted((one for chunk in chunks for one in chunk.ahead), key=lambda one: one.ingest_time_ms)
        for one in ahead:
            if self._forgotten.is_silent(one.cluster):
                continue
            cluster = self._work.cluster(one.cluster)
            cluster.watch.ahead[one.source] = one.ingest_time_ms, one.ahead_ms
            now_ms = max(cluster.now_ms, one.ingest_time_ms)
            transitions = list(step_skew(cluster.watch, one.cluster, now_ms, self._rules.of(one.cluster)))
            self._work.put_alerts(transitions if self._speaks_of(one.cluster) else [])

    def _speaks_of(self, cluster: str) -> bool:
        """All shards conclude the same of a cluster, one writes it."""
        return shard_of(cluster, "", self._shards) == self._number

    def _tick(self, event: Event) -> None:
        clock = event.event
        name, cluster = clock.cluster, self._work.cluster(clock.cluster)
        self._intake.look_up_anew()
        if clock.source != RUN:
            if cluster.is_run_clock:
                self._work.put(CLOCK_NEEDED, [{"cluster": name, "is_wanted": False}])
            cluster.is_run_clock, cluster.collector_time_ms = False, max(cluster.collector_time_ms, clock.event_time_ms)
        else:
            cluster.is_run_clock = True
        self._heard[name] = event
        for group in clock.deleted_groups or ():
            self._end_group(name, group, Reason.GROUP_DELETED, clock.event_time_ms)
        rules, writes_rows, heard = self._rules.of(name), self._speaks_of(name), None
        fleet = self._fleets.of(name) if writes_rows else None
        failing = fleet.advance(event.time_ms) if fleet is not None else NOBODY_TELLS
        with cluster_set_aside(self._work, name, event, rules, writes_rows=writes_rows):
            heard = advance_clock(cluster, clock, rules, failing)
        if heard is None:
            return
        if fleet is not None:
            fleet.note_gone(gone_brokers(self._work.cluster(name).watch.incidents.values()), heard.now_ms)
        note_tick(cluster, event.ingest_time_ms, is_own=clock.source == RUN)
        self._work.put_alerts(end_drop(cluster, heard.now_ms))
        with cluster_set_aside(self._work, name, event, rules, writes_rows=writes_rows):
            self._intake.give_up_routes(name, heard.now_ms)
        failed = cluster.watch.incidents.get(RULE_FAILED)
        if writes_rows:
            self._work.put_alerts(heard.transitions)
            self._work.put_alerts([] if failed is None else [end(failed, Reason.RECOVERED, Evaluation(heard.now_ms))])
        cluster.watch.incidents.pop(RULE_FAILED, None)
        dirty = self._work.take_dirty(name)
        for group in sorted(self._due(name, heard) | dirty):
            if heard.is_for(group):
                with group_set_aside(self._work, name, group, event, self._rules.of(name, group)):
                    if not self._stays_calm(name, group, heard):
                        evaluate(self._work, name, group, heard, self._rules.of(name, group))
            elif group in dirty or not cluster.groups[group].is_calm:
                self._work.dirty.setdefault(name, set()).add(group)  # its own source's next tick looks at it

    def _forget(self, decision: Event) -> None:
        clock = decision.event
        self._intake.look_up_anew()
        name, writes_rows = clock.cluster, self._speaks_of(clock.cluster)
        now_ms = max(clock.event_time_ms, self._work.cluster(name).now_ms + 1)
        for one in clock.forgotten or ():
            words = words_of(one)
            if one.kind == CLUSTER:
                forget_cluster(self._work, name, words, now_ms, writes_rows=writes_rows)
                self._forgotten.forget(name, decision.ingest_time_ms)
            elif one.kind == BROKER:
                forget_broker(self._work, name, one.name, words, now_ms, writes_rows=writes_rows)
            elif one.kind == COLLECTOR:
                forget_collector(self._work, name, one.name, words, now_ms, writes_rows=writes_rows)
            else:
                self._end_group(name, one.name, Reason.FORGOTTEN, now_ms, words)
        if any(one.kind == CLUSTER for one in clock.forgotten or ()):
            self._shard_index.clusters.pop(name, None)
            self._heard[name] = decision

    def _end_group(self, cluster: str, name: str, reason: Reason, now_ms: int, words: str = "") -> None:
        """End the group where it is kept; no shard misses it of a stopped collector any more."""
        self._work.cluster(cluster).watch.rounds.drop_group(name)
        if shard_of(cluster, name, self._shards) == self._number:
            end_group(self._work, cluster, name, reason, now_ms, words)

    def _due(self, cluster: str, heard: Heard) -> set[str]:
        """The groups whose time has come, or that something of the cluster concerns."""
        work = self._work
        return heard.due | wake(work.cluster(cluster), heard.brokers, lambda topic: work.brokers_of(cluster, topic))

    def _stays_calm(self, cluster: str, name: str, heard: Heard) -> bool:
        return stays_calm(self._work, cluster, name, heard, self._rules.of(cluster, name))

    def _write(self) -> None:
        for table, rows in self._fleets.finish().items():
            self._work.put(table, rows)
        self._work.write()
        if self._number == 0:
            heard = (
                {
                    "cluster": cluster,
                    "newest_ms": event.event.event_time_ms,
                    "source": event.event.source,
                    "collector": event.event.collector,
                    "ingest_ms": event.ingest_time_ms,
                }
                for cluster, event in sorted(self._heard.items())
            )
            self._work.put(CLOCK_HEARD, heard)
