"""One shard of the assignments query: events in event-time order, the rules at each tick, rows out.

Nothing is concluded between two clock events: what arrives waits, packed, until a tick covers it. So a log gives
the same rows whether it comes in one batch, in a hundred, or live. The state behind it is a `ShardStore`: Spark's
in the stream, a dictionary in the tests.
"""

import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.queries.chunk import Chunk, Reject, Voice, safe_time_ms
from streaming.queries.rows import Rows
from streaming.queries.shard_clock import CLOCK_HEARD, CLOCK_WANTED, RUN, Heard, clocks_wanted, hear, silent_ms_of
from streaming.queries.shard_events import VOICES, Event, events_of, pack
from streaming.queries.shard_rows import alert_row, assignment_row, membership_row, quarantine_row
from streaming.queries.shard_store import ClusterEntry, GroupEntry, ShardStore
from udfs.cluster_watch import QueueChange
from udfs.group import close_queues, end_all, tick
from udfs.life import Reason
from udfs.membership import CHANGED, JOINED, LEFT, Change
from udfs.rounds import scaled
from udfs.route import QueueData, Route
from udfs.rulebook import Rulebook
from udfs.watch import GroupState


def shard_of(cluster: str, consumer_group: str, shards: int) -> int:
    """The shard that keeps a group."""
    return zlib.crc32(f"{cluster}|{consumer_group}".encode()) % shards


class Shard:
    """One batch of one shard. `rows` holds what it concluded."""

    def __init__(self, number: int, shards: int, store: ShardStore, rules: Rulebook) -> None:
        self.rows: Rows = {}
        self._number, self._shards, self._store, self._rules = number, shards, store, rules
        self._agenda = store.read_agenda()
        if self._agenda.rules != rules.fingerprint:  # groups that nothing happens to are judged anew by them, too
            self._agenda.rules = rules.fingerprint
            for entry in self._agenda.clusters.values():
                for group in entry.groups.values():
                    group.due_ms = 0
        self._groups: dict[str, GroupState | None] = {}
        self._routes: dict[str, Route | None] = {}
        self._dirty: dict[str, set[str]] = {}
        self._heard: dict[str, Any] = {}

    def process(self, chunks: list[Chunk], limit: int) -> None:
        """Take in a batch. `limit` is maxOffsetsPerTrigger, 0 for none."""
        for chunk in chunks:
            self._put("quarantine", (quarantine_row(chunk.topic, chunk.partition, reject) for reject in chunk.rejects))
        if self._number == 0:
            silent_ms = {name: silent_ms_of(entry) for name, entry in self._agenda.clusters.items()}
            self._put(CLOCK_WANTED, clocks_wanted(chunks, silent_ms))
        messages = [chunk for chunk in chunks if chunk.messages or chunk.voices or self._has_news(chunk)]
        if not self._agenda.has_held_ticks and not any(chunk.topic == CLOCKS for chunk in messages):
            self._store.add_pending(messages)
            return
        pending = self._advance([*self._store.take_pending(), *messages], safe_time_ms(chunks, CLOCKS, limit))
        self._agenda.has_held_ticks = any(chunk.topic == CLOCKS for chunk in pending)
        self._store.add_pending(pending)
        self._write()

    def _advance(self, chunks: list[Chunk], safe_ms: dict[str, int] | None) -> list[Chunk]:
        """Work through every event a releasable tick covers; the rest comes back, packed as it was."""
        self._learn_who_tells(chunks)
        events = [event for chunk in chunks for event in events_of(chunk)]
        horizon: dict[str, int] = {}
        for event in events:
            cluster = event.event.cluster
            if event.topic == CLOCKS and (safe_ms is None or event.time_ms < safe_ms.get(cluster, 0)):
                horizon[cluster] = max(horizon.get(cluster, 0), event.time_ms)
        covered = [event for event in events if event.time_ms <= horizon.get(event.event.cluster, -1)]
        for event in sorted(covered, key=lambda event: event[:5]):
            self._apply(event)
        return pack(event for event in events if event.time_ms > horizon.get(event.event.cluster, -1))

    def _has_news(self, chunk: Chunk) -> bool:
        """Whether it is the first that shows the pulls of some broker."""
        brokers = (name.rsplit(" ", 1) for name in chunk.pulled_ms)
        return any(broker not in self._cluster(cluster).pulled_ms for cluster, broker in brokers)

    def _learn_who_tells(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            for name, time_ms in chunk.pulled_ms.items():
                cluster, broker_name = name.rsplit(" ", 1)
                pulled_ms = self._cluster(cluster).pulled_ms
                pulled_ms[broker_name] = min(pulled_ms.get(broker_name, time_ms), time_ms)

    def _apply(self, event: Event) -> None:
        if event.topic == CLOCKS:
            self._tick(event.event)
        elif event.topic == VOICES:
            self._listen(event.event)
        elif event.topic == ROUTES:
            self._learn_route(event.event)
        elif event.topic == HEARTBEATS:
            self._hear(event.event)
        else:
            self._observe(event)

    def _listen(self, voice: Voice) -> None:
        cluster = self._cluster(voice.cluster)
        voices = cluster.watch.voices
        for name in voice.groups:
            cluster.families.note(name, voice.event_time_ms)
        if voice.is_leaving:
            voices.leave(voice.broker_name, voice.client_id)
        else:
            voices.note(voice.broker_name, voice.client_id, voice.event_time_ms)

    def _tick(self, clock: Any) -> None:
        cluster = self._cluster(clock.cluster)
        if clock.source != RUN:
            if cluster.is_run_clock:
                self._put(CLOCK_WANTED, [{"cluster": clock.cluster, "is_wanted": False}])
            cluster.is_run_clock, cluster.foreign_ms = False, max(cluster.foreign_ms, clock.event_time_ms)
        else:
            cluster.is_run_clock = True
        self._heard[clock.cluster] = clock
        for name in clock.deleted_groups or ():
            self._delete_group(clock.cluster, name, clock.event_time_ms)
        heard = hear(cluster, clock, self._rules.of(clock.cluster))
        if heard is None:
            return
        if shard_of(clock.cluster, "", self._shards) == self._number:  # all shards conclude it, one writes it
            self._put("alerts", (alert_row(transition) for transition in heard.transitions))
        dirty = self._dirty.pop(clock.cluster, set())
        for name in sorted(heard.due | dirty):
            if heard.is_for(name):
                self._look_at(clock.cluster, name, clock.event_time_ms, heard)
            elif name in dirty:
                self._dirty.setdefault(clock.cluster, set()).add(name)

    def _delete_group(self, cluster: str, name: str, now_ms: int) -> None:
        """It was deleted on purpose: what was open ends for that reason, and nothing of it is kept."""
        if shard_of(cluster, name, self._shards) != self._number:
            return
        group = self._group(cluster, name, now_ms)
        self._put_changes(group, [Change(broker, one, LEFT, now_ms) for broker, one in group.membership.members()])
        self._end(group, Reason.GROUP_DELETED, now_ms)
        self._groups[_key(cluster, name)] = None
        self._cluster(cluster).groups.pop(name, None)
        self._dirty.get(cluster, set()).discard(name)

    def _look_at(self, cluster: str, name: str, now_ms: int, heard: Heard) -> None:
        group = self._group(cluster, name, now_ms)
        topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
        routes = {topic: route for topic in sorted(topics) if (route := self._route(cluster, topic))}
        rules = scaled(self._rules.of(cluster, name), heard.interval_ms)
        outcome = tick(group, routes, now_ms, heard.hearing, rules)
        self._put_changes(group, outcome.changes)
        rows = (assignment_row(group, row, outcome.completeness, now_ms) for row in outcome.ownership)
        self._put("assignments", rows)
        self._put("alerts", (alert_row(transition) for transition in outcome.transitions))
        entries = self._cluster(cluster).groups
        if group.is_forgotten():
            self._groups[_key(cluster, name)] = None
            entries.pop(name, None)
        else:
            entries[name] = GroupEntry(outcome.due_ms, sorted(topics))

    def _learn_route(self, event: Any) -> None:
        queues = tuple(
            QueueData(data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm) for data in event.queues
        )
        masterless = tuple(sorted(broker.broker_name for broker in event.brokers if 0 not in broker.broker_ids))
        route = Route(event.topic, queues, event.event_time_ms, masterless, bool(event.order_topic))
        if event.has_queue_mapping:
            route = replace(route, has_queue_mapping=True)
        known = self._route(event.cluster, event.topic)
        if known is not None and known.event_time_ms > route.event_time_ms:
            return
        key, cluster = _key(event.cluster, event.topic), self._cluster(event.cluster)
        before, brokers = known.broker_names() if known else set(), route.broker_names()
        change = QueueChange(event.topic, known.read_nums() if known else {}, route.read_nums())
        cluster.watch.learn_route(before, brokers, set(masterless) & brokers, event.event_time_ms, change)
        self._routes[key] = route if queues else None
        self._store.write_route(key, self._routes[key])
        if known == route:
            return
        for name, entry in cluster.groups.items():
            if event.topic in entry.topics:
                group = self._touch(event.cluster, name, event.event_time_ms)
                group.is_stale = True
                if not queues:
                    self._end(group, Reason.TOPIC_DELETED, event.event_time_ms, event.topic)

    def _end(self, group: GroupState, reason: Reason, now_ms: int, topic: str | None = None) -> None:
        """What was open of the group, or of one topic of it, ends; nobody is meant to own its queues any more."""
        closed = close_queues(group, now_ms, topic)
        self._put("assignments", (assignment_row(group, row, 1.0, now_ms) for row in closed))
        ended = end_all(group, reason, now_ms, topic)
        self._put("alerts", (alert_row(transition) for transition in ended))

    def _hear(self, heartbeat: Any) -> None:
        if heartbeat.broker_id:
            return  # the same client once more, at a slave
        channel = _key(heartbeat.cluster, heartbeat.broker_name, heartbeat.client_addr)
        consumers = {
            consumer.consumer_group: consumer
            for consumer in heartbeat.consumers
            if shard_of(heartbeat.cluster, consumer.consumer_group, self._shards) == self._number
        }
        if heartbeat.leaving:
            names = consumers.keys() or set(self._store.read_channel(channel))
            for name in sorted(names):
                group = self._touch(heartbeat.cluster, name, heartbeat.event_time_ms)
                change = group.membership.unregister(
                    heartbeat.broker_name, heartbeat.client_addr, heartbeat.event_time_ms
                )
                self._put_changes(group, [change] if change else [])
            return
        if (
            heartbeat.event_time_ms + self._rules.of(heartbeat.cluster).channel_expired_ms
            <= self._cluster(heartbeat.cluster).now_ms
        ):
            return  # so late that the broker itself would have expired the channel
        for name, consumer in sorted(consumers.items()):
            group = self._touch(heartbeat.cluster, name, heartbeat.event_time_ms)
            changes = [group.membership.displace(heartbeat), group.membership.register(heartbeat, consumer)]
            self._put_changes(group, [change for change in changes if change])

    def _observe(self, event: Event) -> None:
        pull = event.event
        route = self._route(pull.cluster, pull.topic)
        if route and pull.broker_name in route.broker_names() and not route.has_queue(pull.broker_name, pull.queue_id):
            reject = Reject(*event.message, ["unknown_queue: queue_id"])
            self._put("quarantine", [quarantine_row(event.topic, event.partition, reject)])
            return
        self._touch(pull.cluster, pull.consumer_group, pull.event_time_ms).observe(pull)

    def _put_changes(self, group: GroupState, changes: list[Change]) -> None:
        """Membership rows; the channel's groups are kept, for a client that unregisters may name none."""
        for change in changes:
            group.is_stale = True
            channel = _key(group.cluster, change.broker_name, change.member.client_addr)
            others = set(self._store.read_channel(channel)) - {group.consumer_group}
            joined = {group.consumer_group} if change.change in (JOINED, CHANGED) else set()
            self._store.write_channel(channel, sorted(others | joined))
            self._put("memberships", [membership_row(group, change)])

    def _touch(self, cluster: str, name: str, time_ms: int = 0) -> GroupState:
        self._dirty.setdefault(cluster, set()).add(name)
        return self._group(cluster, name, time_ms)

    def _group(self, cluster: str, name: str, time_ms: int) -> GroupState:
        key = _key(cluster, name)
        group = self._groups.get(key) or self._store.read_group(key) if key not in self._groups else self._groups[key]
        if group is None:
            group = GroupState(cluster, name, watched_since_ms=time_ms)
        self._groups[key] = group
        return group

    def _route(self, cluster: str, topic: str) -> Route | None:
        key = _key(cluster, topic)
        if key not in self._routes:
            self._routes[key] = self._store.read_route(key)
        return self._routes[key]

    def _cluster(self, name: str) -> ClusterEntry:
        return self._agenda.clusters.setdefault(name, ClusterEntry())

    def _put(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        self.rows.setdefault(table, []).extend(rows)

    def _write(self) -> None:
        for cluster, names in self._dirty.items():  # touched after the last tick that moved time: the next one looks
            for name in names:
                self._cluster(cluster).groups.setdefault(name, GroupEntry(0, [])).due_ms = 0
        for key, group in sorted(self._groups.items()):
            self._store.write_group(key, group)
        self._store.write_agenda(self._agenda)
        if self._number == 0:
            heard = (
                {"cluster": cluster, "newest_ms": clock.event_time_ms, "source": clock.source}
                for cluster, clock in sorted(self._heard.items())
            )
            self._put(CLOCK_HEARD, heard)


def _key(*names: str) -> str:
    """One text for several names, whatever they hold."""
    return "|".join(f"{len(name)}:{name}" for name in names)
