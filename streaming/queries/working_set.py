"""What one batch of a shard has read of its state, changed and concluded; written back at the end of the batch.

A failing rule leaves the state before the batch, one alert and one quarantined message; all else continues. A group is
evaluated again when its members, its routes or the rules change, and every RETRY_MS; a cluster at each clock event; a
broker's items and a cluster's fleet with the next batch, without this batch's attempts. The first evaluation without a
failure resolves the alert. Errors of the state store and lack of memory are no rule's: the batch fails, and runs again.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from schemas.events import SEND_LATENCIES
from streaming.queries.events import Event
from streaming.queries.parcel import Reject
from streaming.queries.rows import alert_row, assignment_row, backlog_row, membership_row, quarantine_row
from streaming.queries.state import GroupEntry, ShardState
from streaming.queries.store import RETRIED
from streaming.warehouse.rows import Rows
from udfs.alerts.alert import Transition, with_words
from udfs.alerts.failed_rule import RULE_FAILED, find_failure
from udfs.alerts.life import Evaluation, Reason, end, step
from udfs.alerts.phrase import Words
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.families import family_of
from udfs.groups.backlog import BacklogRow, end_backlogs
from udfs.groups.group import end_all
from udfs.groups.planning import close_queues
from udfs.groups.state import GroupState
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet
from udfs.rocketmq.membership import CHANGED, JOINED, LEFT, Change
from udfs.rocketmq.route import Route

RETRY_MS = 120_000
"""A broker's CHANNEL_EXPIRED_TIMEOUT: the member at which the rule failed may have left without unregistering."""

FRAMES = 6
"""Innermost frames of the traceback that are reported."""

MOST_CHARACTERS = 1_000


@lru_cache(maxsize=65536)
def key_of(*names: str) -> str:
    """Return one text for several names, unambiguous for any names."""
    return "|".join(f"{len(name)}:{name}" for name in names)


class WorkingSet:
    """The changes of one batch to a shard. `dirty` are the groups with an event since their last evaluation."""

    def __init__(self, state: ShardState) -> None:
        self.rows: Rows = {}
        self.state = state
        self.shard_index = state.shard_index
        self.cluster = state.shard_index.cluster
        self.dirty: dict[str, set[str]] = {}
        self._births: dict[str, set[str]] = {}
        self._queues: dict[tuple[str, str], dict[str, int] | None] = {}
        self._changed: set[tuple[str, str]] = set()
        self._moved: set[tuple[str, str]] = set()
        self._entered: set[tuple[str, str]] = set()
        self._new: set[str] = set()

    def put(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        self.rows.setdefault(table, []).extend(rows)

    def put_alerts(self, transitions: Iterable[Transition]) -> None:
        self.put("alerts", (alert_row(transition) for transition in transitions))

    def quarantine(self, topic: str, partition: int, reject: Reject) -> None:
        self.put("quarantine", [quarantine_row(topic, partition, reject)])

    def touch(self, cluster: str, name: str, time_ms: int = 0) -> GroupState:
        """Return the group, which the next clock event evaluates."""
        self.dirty.setdefault(cluster, set()).add(name)
        self.cluster(cluster).groups.setdefault(name, GroupEntry(0, [])).wake()
        return self.change(cluster, name, time_ms)

    def calm_group(self, cluster: str, name: str) -> GroupState | None:
        """Return the group if it is calm: repetitions may then move its times (udfs.groups.calm)."""
        of_cluster = self.shard_index.clusters.get(cluster)
        entry = of_cluster.groups.get(name) if of_cluster is not None else None
        return self.group(cluster, name, 0) if entry is not None and entry.is_calm else None

    def move(self, cluster: str, name: str) -> None:
        """Note that the times of a calm group were moved, and nothing else of it."""
        self._moved.add((cluster, name))

    def note_birth(self, cluster: str, consumer_group: str) -> None:
        """Note that a group is new or older than known: groups of its family without members may be replaced."""
        self._births.setdefault(cluster, set()).add(family_of(consumer_group) or "")

    def take_dirty(self, cluster: str) -> set[str]:
        """Return the groups with an event, or with one near them, since the last clock event."""
        dirty, births = self.dirty.pop(cluster, set()), self._births.pop(cluster, set())
        if births:
            groups = self.cluster(cluster).groups.items()
            dirty |= {name for name, entry in groups if not entry.is_calm and family_of(name) in births}
        return dirty

    def change(self, cluster: str, name: str, time_ms: int = 0) -> GroupState:
        """Return the group, which is written at the end of the batch."""
        self._changed.add((cluster, name))
        return self.group(cluster, name, time_ms)

    def group(self, cluster: str, name: str, time_ms: int) -> GroupState:
        """Return the group for reading; to change it, use `change`."""
        key = key_of(cluster, name)
        group = self.state.groups.get(key)
        if group is None:
            group = GroupState(cluster, name, watched_since_ms=time_ms)
            self.state.groups.keep(key, group)
            self._new.add(key)
        return group

    def enter(
        self, cluster: str, name: str, due_ms: int | None, topics: Iterable[str] = (), *, is_calm: bool = False
    ) -> None:
        """Set when the group is due, and add topics that concern it."""
        entry = self.cluster(cluster).groups.setdefault(name, GroupEntry(None, []))
        entry.due_ms, entry.is_calm = due_ms, is_calm
        if topics:
            entry.topics = sorted({*entry.topics, *topics})
        self._entered.add((cluster, name))

    def route(self, cluster: str, topic: str) -> Route | None:
        return self.state.routes.get(key_of(cluster, topic))

    def has_queue(self, cluster: str, topic: str, broker_name: str, queue_id: int) -> bool:
        """Return False for a queue that is missing in a route that names its broker (Route.has_queue)."""
        key = cluster, topic
        if key not in self._queues:
            route = self.route(cluster, topic)
            self._queues[key] = None if route is None else route.most_queues()
        of_brokers = self._queues[key]
        return of_brokers is None or queue_id < of_brokers.get(broker_name, queue_id + 1)

    def set_route(self, cluster: str, topic: str, route: Route | None) -> None:
        self._queues.pop((cluster, topic), None)
        self.state.routes.put(key_of(cluster, topic), route)

    def routes_of(self, cluster: str) -> list[Route]:
        prefix = key_of(cluster, "").removesuffix("0:")
        keys = sorted(key for key in self.state.routes.all_keys() if key.startswith(prefix))
        return [route for key in keys if (route := self.state.routes.get(key)) is not None]

    def put_changes(self, group: GroupState, changes: Iterable[Change]) -> None:
        """Add membership rows, and keep the channel's groups: a client that unregisters may name none."""
        for change in changes:
            group.is_stale = True
            channel = key_of(group.cluster, change.broker_name, change.member.client_addr)
            others = set(self.state.channels.get(channel) or ()) - {group.consumer_group}
            joined = {group.consumer_group} if change.change in (JOINED, CHANGED) else set()
            self.state.channels.put(channel, sorted(others | joined) or None)
            self.put("memberships", [membership_row(group, change)])

    def put_backlogs(self, group: GroupState, rows: Iterable[BacklogRow], now_ms: int) -> None:
        self.put("backlogs", (backlog_row(group, row, now_ms) for row in rows))

    def end(self, group: GroupState, reason: Reason, now_ms: int, topic: str | None = None, words: Words = "") -> None:
        """Resolve the open incidents of the group, or of one topic of it; its queues have no planned owner any more."""
        closed = close_queues(group, now_ms, topic)
        self.put("assignments", (assignment_row(group, row, 1.0, now_ms) for row in closed))
        self.put_alerts(with_words(transition, words) for transition in end_all(group, reason, now_ms, topic))
        self.put_backlogs(group, end_backlogs(group, topic), now_ms)

    def end_group(self, cluster: str, name: str, reason: Reason, now_ms: int, words: Words = "") -> None:
        """Resolve all of the group, let its members leave, and drop it. `words` go into the alerts."""
        group = self.change(cluster, name, now_ms)
        self.put_changes(group, [Change(broker, member, LEFT, now_ms) for broker, member in group.membership.members()])
        self.end(group, reason, now_ms, words=words)
        self.drop_group(cluster, name)
        self.dirty.get(cluster, set()).discard(name)

    def drop_group(self, cluster: str, name: str) -> None:
        self.state.groups.keep(key_of(cluster, name), None)
        self._changed.add((cluster, name))
        self.cluster(cluster).groups.pop(name, None)
        self.cluster(cluster).frozen.pop(name, None)

    def revert_group(self, cluster: str, name: str) -> None:
        """Bring back the group as it was before this batch, and drop the batch's rows of it, except rule_failed."""
        key = key_of(cluster, name)
        self.state.groups.keep(key, self.state.groups.get_anew(key))
        self._drop_rows(lambda row: row.get("cluster") == cluster and row.get("consumer_group") == name)

    def revert_cluster(self, name: str) -> None:
        """Bring back the cluster, without its groups, as it was before this batch; its data's times are kept."""
        known = self.cluster(name)
        entry = self.shard_index.clusters[name] = self.state.read_index().cluster(name)
        entry.groups, entry.families, entry.frozen = known.groups, known.families, known.frozen
        entry.watch.heartbeat_sample = known.watch.heartbeat_sample
        about = ("cluster", name)
        self._drop_rows(lambda row: about in row.items() and "state" in row and row["consumer_group"] is None)

    def _drop_rows(self, is_dropped: Callable[[dict[str, Any]], bool]) -> None:
        for table in ("alerts", "assignments", "backlogs", "memberships"):
            if table in self.rows:
                kept = [row for row in self.rows[table] if row.get("kind") == RULE_FAILED or not is_dropped(row)]
                self.rows[table] = kept

    def write(self) -> None:
        for cluster in sorted(self.dirty.keys() | self._births.keys()):
            for name in sorted(self.take_dirty(cluster)):  # events since the last clock event: the next one evaluates
                group = self.state.groups.get(key_of(cluster, name))
                if group is None or RULE_FAILED not in group.incidents or group.is_stale:
                    self.enter(cluster, name, 0)
        for cluster, name in sorted(self._changed):
            key = key_of(cluster, name)
            self.state.groups.put(key, self.state.groups.get(key))
            self._new.discard(key)
        for cluster, name in sorted(self._moved - self._changed):
            key = key_of(cluster, name)
            group = self.state.groups.get(key)
            if group is not None:
                self.state.groups.move(key, group)
        for cluster, name in sorted(self._changed | self._entered):
            known = self.shard_index.clusters.get(cluster)
            entry = known.groups.get(name) if known is not None else None
            self.state.put_entry(key_of(cluster, name), cluster, name, entry)
        for key in self._new:
            self.state.groups.keep(key, None)
        self.state.write()


@contextmanager
def group_set_aside(work: WorkingSet, cluster: str, name: str, event: Event, rules: Rules) -> Iterator[None]:
    """Set the group aside if a rule fails within."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # an error of a rule must not end the query
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        before = work.group(cluster, name, now_ms)
        work.revert_group(cluster, name)
        group = work.change(cluster, name, now_ms)
        _keep_alert(before, group)
        group.is_stale = False
        alerts, reasons = _report(group, error, {"cluster": cluster, "consumer_group": name}, now_ms, rules)
        work.put_alerts(alerts)
        if reasons:
            work.quarantine(event.topic, event.partition, event.reject(reasons))
        topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
        work.enter(cluster, name, now_ms + RETRY_MS, topics)
        work.dirty.get(cluster, set()).discard(name)


@contextmanager
def cluster_set_aside(
    work: WorkingSet, cluster: str, event: Event, rules: Rules, *, writes_rows: bool
) -> Iterator[None]:
    """Set the cluster aside if a rule fails within. `writes_rows`: this shard writes the cluster's rows."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # an error of a rule must not end the query
        before = work.cluster(cluster).watch
        work.revert_cluster(cluster)
        watch = work.cluster(cluster).watch
        _keep_alert(before, watch)
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        alerts, reasons = _report(watch, error, {"cluster": cluster}, now_ms, rules)
        if writes_rows:
            work.put_alerts(alerts)
            if reasons:
                work.quarantine(event.topic, event.partition, event.reject(reasons))


def _keep_alert(before: GroupState | ClusterState, reverted: GroupState | ClusterState) -> None:
    """Keep this batch's rule_failed alert in the reverted state."""
    pairs: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        (before.incidents, reverted.incidents),
        (before.windows, reverted.windows),
    )
    for newest, kept in pairs:
        kept.pop(RULE_FAILED, None)
        if RULE_FAILED in newest:
            kept[RULE_FAILED] = newest[RULE_FAILED]


def is_set_aside(group: GroupState) -> bool:
    return RULE_FAILED in group.incidents


def is_tried_again(work: WorkingSet, group: GroupState, now_ms: int) -> bool:
    """Whether the group has changed since the rule failed, or its retry is due."""
    entry = work.cluster(group.cluster).groups.get(group.consumer_group)
    return group.is_stale or entry is None or (entry.due_ms is not None and entry.due_ms <= now_ms)


def as_after_a_gap(
    broker_coverage: BrokerCoverage, group: GroupState, brokers: set[str], now_ms: int
) -> BrokerCoverage:
    """Return the coverage of a group that was not evaluated since the rule failed: its silences begin now."""
    away_ms = now_ms - group.incidents[RULE_FAILED].started_at_ms
    since_ms = {**broker_coverage.since_ms, **dict.fromkeys(brokers, now_ms)}
    return replace(broker_coverage, gap_ms=max(broker_coverage.gap_ms, away_ms), since_ms=since_ms)


def come_back(state: GroupState | ClusterState | Board | Fleet, now_ms: int) -> Iterator[Transition]:
    """Resolve the alert after an evaluation without a failure."""
    failed = state.incidents.pop(RULE_FAILED, None)
    if failed is not None:
        yield end(failed, Reason.RECOVERED, Evaluation(now_ms))


def set_aside(state: Board | Fleet, error: Exception, labels: dict[str, Any], now_ms: int, rules: Rules) -> Rows:
    """Return the batch's only rows of a failed broker or fleet. `state` is as it was before the batch."""
    alerts, reasons = _report(state, error, labels, now_ms, rules)
    rows: Rows = {"alerts": [alert_row(transition) for transition in alerts]}
    if reasons:
        rows["quarantine"] = [quarantine_row(SEND_LATENCIES, 0, Reject(0, now_ms, None, reasons))]
    return rows


def _report(
    state: GroupState | ClusterState | Board | Fleet,
    error: Exception,
    labels: dict[str, str],
    now_ms: int,
    rules: Rules,
) -> tuple[list[Transition], list[str]]:
    """Open the alert in the reverted state. Return its rows, and the reason of the quarantine if it was not open."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]  # without the machine's paths
    places = [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]
    message, trace = f"{type(error).__name__}: {error}"[: MOST_CHARACTERS // 2], " > ".join(places)
    is_new, windows = RULE_FAILED not in state.incidents, {}
    if isinstance(state, GroupState | ClusterState):
        windows = state.windows
    findings = {RULE_FAILED: find_failure(labels, message, places[-1] if places else "", trace, now_ms)}
    alerts = list(step(state.incidents, windows, RULE_FAILED, findings, Evaluation(now_ms), rules))
    return alerts, [f"{RULE_FAILED}: {message} in {trace}"[:MOST_CHARACTERS]] if is_new else []
