"""Events other than clock events, applied to the state of a shard; nothing is concluded here.

An event at which a rule fails is quarantined, and its group set aside (set_aside.py).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from schemas.events import HEARTBEATS, ROUTES
from streaming.queries.events import PULLINGS, SAMPLED, Event
from streaming.queries.parcel import Reject, shard_of
from streaming.queries.set_aside import cluster_set_aside, group_set_aside, is_set_aside
from streaming.queries.state import GroupEntry
from streaming.queries.store import RETRIED
from streaming.queries.tick import note_report
from streaming.queries.working_set import WorkingSet, key_of
from udfs.alerts.life import Reason
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_state import QueueChange
from udfs.brokers.mute_brokers import SampledHeartbeat, note_puller_heartbeat, note_pulling
from udfs.groups.repeat import repeat_heartbeat, repeat_pull
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
        cluster = event.event.cluster
        writes_rows = shard_of(cluster, "", self._shards) == self._number
        with cluster_set_aside(self._work, cluster, event, self._rules.of(cluster), writes_rows=writes_rows):
            if event.topic == SAMPLED:
                self._observe_sampled(event.event)
            elif event.topic == PULLINGS and event.event.is_by_broker:
                note_report(self._work.cluster(cluster), event.event.broker_name, event.event.event_time_ms)
            elif event.topic == PULLINGS:
                note_pulling(self._work.cluster(cluster).watch, event.event)
            else:
                self._learn_route(event.event)

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
            work.quarantine(event.topic, event.partition, Reject(*event.message, ["unknown_queue: queue_id"]))
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
        cluster = event.event.cluster
        return group_set_aside(self._work, cluster, name, event, self._rules.of(cluster, name))
