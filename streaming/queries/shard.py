"""One shard: the events of groups in event-time order, the rules at each clock event, rows out.

Nothing is concluded between two clock events: what arrives waits, packed, until a clock event covers it. So a log gives
the same rows in one batch, in a hundred, or live. The state is a `ShardState`: over Spark's store in the stream, over a
dictionary in backtests and tests. A failing rule ends only what it was to evaluate (working_set.py).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.queries.events import (
    BROKER,
    CLUSTER,
    COLLECTOR,
    FORGET,
    IN_ORDER,
    PULLINGS,
    RUN,
    SAMPLED,
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
from streaming.queries.parcel import Chunk, Pack, Parcel, shard_of
from streaming.queries.rows import CLOCK_HEARD, CLOCK_NEEDED, quarantine_row
from streaming.queries.sends import Fleets, advance_boards
from streaming.queries.state import GroupEntry, ShardState
from streaming.queries.store import RETRIED
from streaming.queries.tick import (
    advance_clock,
    due_groups,
    evaluate,
    learn_who_reports,
    note_report,
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
from streaming.queries.working_set import (
    WorkingSet,
    cluster_set_aside,
    come_back,
    group_set_aside,
    is_set_aside,
    key_of,
)
from streaming.text.language import translate
from streaming.warehouse.rows import Rows
from udfs.alerts.life import Reason
from udfs.alerts.phrase import Words, phrase
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook
from udfs.alerts.rules import Rules
from udfs.brokers.cluster import NOBODY_TELLS
from udfs.brokers.cluster_findings import end_drop, step_skew
from udfs.brokers.cluster_state import QueueChange, gone_brokers
from udfs.brokers.mute_brokers import SampledHeartbeat, note_puller_heartbeat, note_pulling
from udfs.groups.calm import repeat_heartbeat, repeat_pull
from udfs.groups.state import GroupState
from udfs.rocketmq.route import QueueData, Route

SAID_AGAIN_MS = 600_000
"""Interval up to which a repeated route counts as regularly reported."""

ROUTES_MS, GONE_MS = 21_600_000, 86_400_000
"""How often routes are checked, and how long a deleted one has not been reported."""


Calm = tuple[GroupEntry, GroupState, Rules]
"""A calm group (udfs.groups.calm), as long as its entry says so."""


class Intake:
    """Applies the events of a batch, one by one in their order."""

    def __init__(self, work: WorkingSet, number: int, shards: int, rules: Rulebook) -> None:
        self._work, self._number, self._shards, self._rules = work, number, shards, rules
        self._calm: dict[tuple[str, str], Calm] = {}

    def apply(self, event: Event) -> None:
        if event.topic == HEARTBEATS:
            self._observe_heartbeat(event)
            return
        if event.topic not in (SAMPLED, PULLINGS, ROUTES):
            self._observe_pull(event)
            return
        try:
            self._observe_of_cluster(event)
        except Exception:
            cluster = event.cluster
            writes_rows = shard_of(cluster, "", self._shards) == self._number
            with cluster_set_aside(self._work, cluster, event, self._rules.of(cluster), writes_rows=writes_rows):
                raise

    def _observe_of_cluster(self, event: Event) -> None:
        if event.topic == SAMPLED:
            self._observe_sampled(event.event)
        elif event.topic == ROUTES:
            self._learn_route(event.event)
        elif event.event.is_by_broker:
            note_report(self._work.cluster(event.cluster), event.event.broker_name, event.time_ms)
        else:
            note_pulling(self._work.cluster(event.cluster).watch, event.event)

    def _observe_sampled(self, heartbeat: SampledHeartbeat) -> None:
        cluster = self._work.cluster(heartbeat.cluster)
        watch, broker_name = cluster.watch, heartbeat.broker_name
        note_puller_heartbeat(watch, heartbeat)
        if heartbeat.event_time_ms > watch.forgotten_ms.get(broker_name, heartbeat.event_time_ms):
            del watch.forgotten_ms[broker_name]
        for name in heartbeat.groups:
            if cluster.families.note(name, heartbeat.event_time_ms):
                self._work.note_birth(heartbeat.cluster, name)
        if heartbeat.is_leaving:
            watch.heartbeat_sample.leave(broker_name, heartbeat.client_id)
        else:
            watch.heartbeat_sample.note(broker_name, heartbeat.client_id, heartbeat.event_time_ms)

    def _learn_route(self, event: Any) -> None:
        work, forgotten = self._work, self._work.cluster(event.cluster).watch.forgotten_ms
        queues = tuple(
            QueueData(data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm)
            for data in event.queues
            if data.broker_name not in forgotten
        )
        masterless = tuple(sorted(broker.broker_name for broker in event.brokers if 0 not in broker.broker_ids))
        route = Route(event.topic, queues, event.event_time_ms, masterless, bool(event.order_topic))
        if event.has_queue_mapping:
            route = replace(route, has_queue_mapping=True)
        known = work.route(event.cluster, event.topic)
        if known is not None and known.event_time_ms > route.event_time_ms:
            return
        cluster = work.cluster(event.cluster)
        before, brokers = known.broker_names() if known else set(), route.broker_names()
        change = QueueChange(event.topic, known.read_nums() if known else {}, route.read_nums())
        cluster.watch.learn_route(before, brokers, set(masterless) & brokers, event.event_time_ms, change)
        work.set_route(event.cluster, event.topic, route if queues else None)
        if known == route:
            if known.event_time_ms < route.event_time_ms <= known.event_time_ms + SAID_AGAIN_MS:
                cluster.timing.said_again_ms = max(cluster.timing.said_again_ms, route.event_time_ms)
            return
        for name, entry in cluster.groups.items():
            if event.topic in entry.topics:
                group = work.touch(event.cluster, name, event.event_time_ms)
                group.is_stale = True
                if not queues:
                    work.end(group, Reason.TOPIC_DELETED, event.event_time_ms, event.topic)

    def give_up_routes(self, name: str, now_ms: int) -> None:
        """Drop routes not reported for a day while others of the cluster are: their topics were deleted unnoticed."""
        entry = self._work.cluster(name)
        timing = entry.timing
        if now_ms < timing.routes_ms + ROUTES_MS:
            return
        timing.routes_ms = now_ms
        if timing.said_again_ms < now_ms - SAID_AGAIN_MS or entry.watch.rounds.stopped(now_ms):
            return
        for route in self._work.routes_of(name):
            if route.event_time_ms < now_ms - GONE_MS:
                no_more = {"queues": (), "brokers": (), "order_topic": None, "has_queue_mapping": None}
                self._learn_route(SimpleNamespace(cluster=name, topic=route.topic, event_time_ms=now_ms, **no_more))

    def _observe_heartbeat(self, event: Event) -> None:
        work, heartbeat = self._work, event.event
        if heartbeat.broker_id:
            return  # the same client again, at a slave
        consumers = {
            consumer.consumer_group: consumer
            for consumer in heartbeat.consumers
            if shard_of(heartbeat.cluster, consumer.consumer_group, self._shards) == self._number
        }
        if heartbeat.leaving:
            channel = key_of(heartbeat.cluster, heartbeat.broker_name, heartbeat.client_addr)
            names = consumers.keys() or set(work.state.channels.get(channel) or ())
            for name in sorted(names):
                with self._aside(event, name):
                    group = work.touch(heartbeat.cluster, name, heartbeat.event_time_ms)
                    change = group.membership.unregister(
                        heartbeat.broker_name, heartbeat.client_addr, heartbeat.event_time_ms
                    )
                    work.put_changes(group, [change] if change else [])
                    group.is_stale |= is_set_aside(group)  # the client at which the rule failed was never a member
            return
        expired_ms = heartbeat.event_time_ms + self._rules.of(heartbeat.cluster).channel_expired_ms
        if expired_ms <= work.cluster(heartbeat.cluster).now_ms:
            return  # so late that the broker itself would have expired the channel
        for name, consumer in sorted(consumers.items()):
            calm = self._calm_of(heartbeat.cluster, name)
            if calm is not None and self._repeats(calm[1], repeat_heartbeat, heartbeat, consumer):
                continue
            with self._aside(event, name):
                group = work.touch(heartbeat.cluster, name, heartbeat.event_time_ms)
                changes = [group.membership.displace(heartbeat), group.membership.register(heartbeat, consumer)]
                work.put_changes(group, [change for change in changes if change])

    def _observe_pull(self, event: Event) -> None:
        work, pull = self._work, event.event
        if not work.has_queue(pull.cluster, pull.topic, pull.broker_name, pull.queue_id):
            work.quarantine(event.topic, event.partition, event.reject(["unknown_queue: queue_id"]))
            return
        calm = self._calm_of(pull.cluster, pull.consumer_group)
        if calm is not None and self._repeats(calm[1], repeat_pull, pull, calm[2]):
            return
        with self._aside(event, pull.consumer_group):
            work.touch(pull.cluster, pull.consumer_group, pull.event_time_ms).observe(pull)

    def look_up_anew(self) -> None:
        """Forget which groups are calm: groups are evaluated, or gone."""
        self._calm.clear()

    def _calm_of(self, cluster: str, name: str) -> Calm | None:
        known = self._calm.get((cluster, name))
        if known is None:
            group = self._work.calm_group(cluster, name)
            if group is None:
                return None
            entry = self._work.cluster(cluster).groups[name]
            known = self._calm[cluster, name] = entry, group, self._rules.of(cluster, name)
        return known if known[0].is_calm else None

    def _repeats(self, group: GroupState, repeat: Callable[..., bool], *reported: Any) -> bool:
        """Whether the event is only a repetition, whose times are then moved."""
        try:
            is_repeated = repeat(group, *reported)
        except RETRIED:
            raise
        except Exception:  # the same error is raised again, and set aside
            return False
        if is_repeated:
            self._work.move(group.cluster, group.consumer_group)
        return is_repeated

    def _aside(self, event: Event, name: str) -> AbstractContextManager[None]:
        rules = self._rules.of(event.cluster, name)
        return group_set_aside(self._work, event.cluster, name, event, rules)


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
        events = [event for chunk in chunks for event in self._times.events_of(chunk)]
        if self._forgotten.are_any():
            events = [event for event in events if not self._forgotten.has(event)]
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
                cluster = event.cluster
                has_fleet = self._speaks_of(cluster) and self._fleets.of(cluster) is not None
                if not self._complete.holds(cluster, event.time_ms, has_fleet=has_fleet):
                    horizon[cluster] = max(horizon.get(cluster, 0), event.time_ms)
        if not horizon:
            return events
        covered: list[Event] = []
        left: list[Event] = []
        for event in events:
            (covered if event.time_ms <= horizon.get(event.cluster, -1) else left).append(event)
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
        work.put_alerts(end_drop(cluster.timing, at.now_ms, phrase("{number} events were dropped in total.")))
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

    def _end_group(self, cluster: str, name: str, reason: Reason, now_ms: int, words: Words = "") -> None:
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
    language: str = "en",
) -> Rows:
    """Run one batch of one shard: write its state, and return its rows by table.

    `limit` is maxOffsetsPerTrigger, 0 for none. Without a plan it counts as having cut the batch. `language` is that of
    the alerts' texts.
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

    board_rows = list(advance_boards(state, rules, of_boards, may_be_cut=limit > 0 or planned.is_cut))
    shard = engine(number, shards, state, rules, chunks, complete, fleets)
    if number == 0:
        shard.work.put(CLOCK_NEEDED, clocks_wanted(chunks, state.shard_index))
    shard.process(is_once=planned.is_once)  # fleets advance with the clock events of their clusters
    fleet_rows = list(fleets.finish())
    shard.work.write()
    if number == 0:
        shard.put_clocks()
    for rows in (*fleet_rows, *board_rows):
        for table, of_table in rows.items():
            shard.work.put(table, of_table)
    for parcel in parcels:
        shard.work.put("quarantine", (quarantine_row(*reject) for reject in parcel.rejects))
    for row in shard.work.rows.get("alerts", ()):
        row.update({name: translate(row[name], language) for name in ("summary", "advice")})
    return shard.work.rows
