"""One shard of the assignments query: events in event-time order, the rules at each tick, rows out.

Nothing is concluded between two clock events: what arrives waits, packed, until a tick covers it. So a log gives
the same rows whether it comes in one batch, in a hundred, or live. The state behind it is a `ShardStore`: Spark's
in the stream, a dictionary in the tests.
"""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from schemas.decode import DECODERS
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.chunk import Chunk, Message, Reject, safe_time_ms
from streaming.queries.rows import Rows
from streaming.queries.shard_rows import alert_row, assignment_row, membership_row, quarantine_row
from streaming.queries.shard_store import ClusterEntry, GroupEntry, ShardStore
from udfs.group import tick
from udfs.hearing import Hearing
from udfs.membership import CHANGED, JOINED, Change
from udfs.route import QueueData, Route
from udfs.rules import Rules
from udfs.watch import GroupState

RUN = "run"
"""The source of the clock events that `balancewatch run` itself sends."""

CLOCK_WANTED = "clock_wanted"
"""Not a Delta table: rows that tell `run` which clusters no one else keeps the time of."""

CLOCK_MISSED_MS = 15_000

_RANK = {ROUTES: 0, HEARTBEATS: 1, PULLS: 2, CLOCKS: 3}


class _Event(NamedTuple):
    """Sorts by time; at one time routes come first and the tick last."""

    time_ms: int
    rank: int
    partition: int
    offset: int
    topic: str
    message: Message
    event: Any


def shard_of(cluster: str, consumer_group: str, shards: int) -> int:
    """The shard that keeps a group."""
    return zlib.crc32(f"{cluster}|{consumer_group}".encode()) % shards


class Shard:
    """One batch of one shard. `rows` holds what it concluded."""

    def __init__(self, number: int, shards: int, store: ShardStore, rules: Rules) -> None:
        self.rows: Rows = {}
        self._number, self._shards, self._store, self._rules = number, shards, store, rules
        self._agenda = store.read_agenda()
        self._groups: dict[str, GroupState | None] = {}
        self._routes: dict[str, Route | None] = {}
        self._dirty: dict[str, set[str]] = {}

    def process(self, chunks: list[Chunk], limit: int) -> None:
        """Take in a batch. `limit` is maxOffsetsPerTrigger, 0 for none."""
        for chunk in chunks:
            self._put("quarantine", (quarantine_row(chunk.topic, chunk.partition, reject) for reject in chunk.rejects))
        self._ask_for_clocks(chunks)
        messages = [chunk for chunk in chunks if chunk.messages or self._has_news(chunk)]
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
        events = [_read(chunk, message) for chunk in chunks for message in chunk.messages]
        horizon: dict[str, int] = {}
        for event in events:
            cluster = event.event.cluster
            if event.topic == CLOCKS and (safe_ms is None or event.time_ms < safe_ms.get(cluster, 0)):
                horizon[cluster] = max(horizon.get(cluster, 0), event.time_ms)
        covered = [event for event in events if event.time_ms <= horizon.get(event.event.cluster, -1)]
        for event in sorted(covered, key=lambda event: event[:5]):
            self._apply(event)
        return _pack(event for event in events if event.time_ms > horizon.get(event.event.cluster, -1))

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

    def _apply(self, event: _Event) -> None:
        if event.topic == CLOCKS:
            self._tick(event.event)
        elif event.topic == ROUTES:
            self._learn_route(event.event)
        elif event.topic == HEARTBEATS:
            self._hear(event.event)
        else:
            self._observe(event)

    def _tick(self, clock: Any) -> None:
        cluster = self._cluster(clock.cluster)
        if clock.source != RUN:
            if cluster.is_run_clock:
                self._put(CLOCK_WANTED, [{"cluster": clock.cluster, "is_wanted": False}])
            cluster.is_run_clock, cluster.foreign_ms = False, max(cluster.foreign_ms, clock.event_time_ms)
        else:
            cluster.is_run_clock = True
        if clock.event_time_ms <= cluster.now_ms:
            return
        now_ms = cluster.now_ms = clock.event_time_ms
        unheard = frozenset(clock.brokers_asked) - frozenset(clock.brokers_answered)
        answered = frozenset() if clock.source == RUN else frozenset(clock.brokers_answered)  # `run` asks nobody
        heard_since = {name: cluster.heard_since_ms.get(name, 0) for name in clock.brokers_answered}
        cluster.heard_since_ms = {
            name: now_ms if name in cluster.unheard else since for name, since in heard_since.items()
        }
        due = {name for name, entry in cluster.groups.items() if entry.due_ms is not None and entry.due_ms <= now_ms}
        if sorted(unheard) != cluster.unheard:
            due = set(cluster.groups)
        cluster.unheard = sorted(unheard)
        heard_again = {name: since for name, since in cluster.heard_since_ms.items() if since}
        hearing = Hearing(unheard, heard_again, answered, cluster.pulled_ms)
        for name in sorted(due | self._dirty.pop(clock.cluster, set())):
            self._look_at(clock.cluster, name, now_ms, hearing)

    def _look_at(self, cluster: str, name: str, now_ms: int, hearing: Hearing) -> None:
        group = self._group(cluster, name, now_ms)
        topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
        routes = {topic: route for topic in sorted(topics) if (route := self._route(cluster, topic))}
        outcome = tick(group, routes, now_ms, hearing, self._rules)
        self._put_changes(group, outcome.changes)
        self._put("assignments", (assignment_row(group, row, now_ms) for row in outcome.ownership))
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
        known = self._route(event.cluster, event.topic)
        if known is not None and known.event_time_ms > route.event_time_ms:
            return
        key = _key(event.cluster, event.topic)
        self._routes[key] = route
        self._store.write_route(key, route)
        if known == route:
            return
        for name, entry in self._cluster(event.cluster).groups.items():
            if event.topic in entry.topics:
                self._touch(event.cluster, name)
                self._group(event.cluster, name, event.event_time_ms).is_stale = True

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
        if heartbeat.event_time_ms + self._rules.channel_expired_ms <= self._cluster(heartbeat.cluster).now_ms:
            return  # so late that the broker itself would have expired the channel
        for name, consumer in sorted(consumers.items()):
            group = self._touch(heartbeat.cluster, name, heartbeat.event_time_ms)
            changes = [group.membership.displace(heartbeat), group.membership.register(heartbeat, consumer)]
            self._put_changes(group, [change for change in changes if change])

    def _observe(self, event: _Event) -> None:
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

    def _ask_for_clocks(self, chunks: list[Chunk]) -> None:
        """Shard 0 says which clusters have events, but no clock events of their own."""
        if self._number:
            return
        newest: dict[str, int] = {}
        for chunk in chunks:
            for cluster, time_ms in chunk.newest_ms.items():
                newest[cluster] = max(newest.get(cluster, 0), time_ms)
        told = {cluster for chunk in chunks if chunk.topic == CLOCKS for cluster in chunk.newest_ms}
        for cluster, time_ms in sorted(newest.items()):
            entry = self._agenda.clusters.get(cluster, ClusterEntry())
            if cluster not in told and time_ms > entry.foreign_ms + CLOCK_MISSED_MS:
                self._put(CLOCK_WANTED, [{"cluster": cluster, "is_wanted": True, "newest_ms": time_ms}])

    def _write(self) -> None:
        for cluster, names in self._dirty.items():  # touched after the last tick that moved time: the next one looks
            for name in names:
                self._cluster(cluster).groups.setdefault(name, GroupEntry(0, [])).due_ms = 0
        for key, group in sorted(self._groups.items()):
            self._store.write_group(key, group)
        self._store.write_agenda(self._agenda)


def _key(*names: str) -> str:
    """One text for several names, whatever they hold."""
    return "|".join(f"{len(name)}:{name}" for name in names)


def _read(chunk: Chunk, message: Message) -> _Event:
    event = DECODERS[chunk.topic].decode(message.value)
    return _Event(event.event_time_ms, _RANK[chunk.topic], chunk.partition, message.offset, chunk.topic, message, event)


def _pack(events: Iterable[_Event]) -> list[Chunk]:
    chunks: dict[tuple[str, int], Chunk] = {}
    for event in events:
        place = (event.topic, event.partition)
        chunk = chunks.setdefault(
            place, Chunk(*place, first_offset=0, last_offset=0, newest_ms={}, messages=[], rejects=[])
        )
        chunk.messages.append(event.message)
    return list(chunks.values())
