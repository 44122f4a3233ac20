"""What ends by a person's decision: a group that was deleted, and whatever `balancewatch forget` names.

What was open of it ends for that reason, each of its queues and members gets its last row, and nothing of it is kept.
Should it give data again, it begins anew.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk
from streaming.queries.shard_clock import RUN
from streaming.queries.shard_events import Event
from streaming.queries.shard_values import ShardIndex
from streaming.queries.working_set import WorkingSet
from udfs.alerts.alert import Incident, Transition, brokers_of, with_words
from udfs.alerts.life import Evaluation, Reason, end
from udfs.brokers.cluster import CLUSTER_NO_DATA
from udfs.rocketmq.membership import LEFT, Change

FORGET = "forget"
"""The source of clock events that move no time, and tell what a person decided is gone."""

CLUSTER, BROKER, GROUP, COLLECTOR = "cluster", "broker", "group", "collector"
"""What a clock event's `forgotten` may name."""

FORGET_CLUSTER_MS = 86_400_000


class ForgottenClusters:
    """Which clusters a person decided are gone, in one batch of one shard.

    What Kafka had before the decision is of no cluster any more. What comes after it brings the cluster back, but for
    a clock event that no broker stands behind: one of `run`'s own, or a round that none answered.
    """

    def __init__(self, shard_index: ShardIndex, chunks: Iterable[Chunk]) -> None:
        """As of when the batch's arrivals are noted."""
        self._at_ms = shard_index.forgotten_ms
        self._silent = shard_index.forgotten_ms.keys() - shard_index.clusters.keys()
        self._arrived_ms: dict[str, int] = {}
        for chunk in chunks:
            for cluster, span in chunk.spans.items():
                self._arrived_ms[cluster] = max(span.newest_ms, self._arrived_ms.get(cluster, 0))

    def forget(self, cluster: str, at_ms: int) -> None:
        self._at_ms[cluster] = at_ms
        if self._arrived_ms.get(cluster, 0) <= at_ms:
            self._silent.add(cluster)

    def is_silent(self, cluster: str) -> bool:
        """Whether nothing but clock events has come of it since it was forgotten."""
        return cluster in self._silent

    def has(self, event: Event) -> bool:
        """Whether the event is of a cluster that is gone, and does not bring it back."""
        if not self._at_ms:
            return False
        cluster = event.event.cluster
        if event.ingest_time_ms <= self._at_ms.get(cluster, -1):
            return True
        if event.topic != CLOCKS or not self.is_silent(cluster) or event.event.source == FORGET:
            return False
        return event.event.source == RUN or not event.event.brokers_answered


def words_of(decision: Any) -> str:
    """Who decided it, and why."""
    return f"Forgotten by {decision.owner}{f': {decision.reason}' if decision.reason else ''}."


def end_group(work: WorkingSet, cluster: str, name: str, reason: Reason, now_ms: int, words: str = "") -> None:
    """`words` are those of who decided it; they are reported with what ends."""
    group = work.change(cluster, name, now_ms)
    work.put_changes(group, [Change(broker, one, LEFT, now_ms) for broker, one in group.membership.members()])
    work.end(group, reason, now_ms, words=words)
    work.drop_group(cluster, name)
    work.dirty.get(cluster, set()).discard(name)


def forget_cluster(work: WorkingSet, cluster: str, words: str, now_ms: int, *, writes_rows: bool) -> None:
    """The whole cluster. `writes_rows`: this shard writes what all of them conclude of it."""
    entry = work.cluster(cluster)
    for name in sorted(entry.groups.keys() | work.dirty.get(cluster, set())):
        end_group(work, cluster, name, Reason.FORGOTTEN, now_ms, words)
    if writes_rows:
        incidents = (incident for _, incident in sorted(entry.watch.incidents.items()))
        work.put_alerts(_ended(incident, words, now_ms) for incident in incidents)
    if entry.timing.drop is not None:
        work.put_alerts([_ended(entry.timing.drop, words, now_ms)])
    for route in work.routes_of(cluster):
        work.set_route(cluster, route.topic, None)
    work.shard_index.clusters.pop(cluster, None)
    work.dirty.pop(cluster, None)


def give_up_clusters(work: WorkingSet) -> None:
    """Drop those that nobody has heard of for a day, by Kafka's time, and of which nothing is open."""
    for name, entry in sorted(work.shard_index.clusters.items()):
        arrived_ms = entry.timing.arrived_ms
        if not arrived_ms or work.shard_index.swept_ms - arrived_ms <= FORGET_CLUSTER_MS or entry.watch.incidents:
            continue
        if not any(work.group(name, group, entry.now_ms).incidents for group in entry.groups):
            now_ms = max(entry.now_ms, entry.timing.newest_ms) + 1
            for group in sorted(entry.groups):
                end_group(work, name, group, Reason.GIVEN_UP, now_ms)
            forget_cluster(work, name, "", now_ms, writes_rows=False)


def forget_broker(
    work: WorkingSet, cluster: str, broker_name: str, words: str, now_ms: int, *, writes_rows: bool
) -> None:
    """A broker, until it gives data again: its members have left, its queues are in no route."""
    entry = work.cluster(cluster)
    incidents = entry.watch.forget_broker(broker_name, now_ms)
    if writes_rows:
        work.put_alerts(_ended(incident, words, now_ms) for incident in incidents)
    for of_broker in (entry.data_since_ms, entry.pulled_ms, entry.newest_pulled_ms):
        of_broker.pop(broker_name, None)
    for route in work.routes_of(cluster):
        if broker_name in route.broker_names():
            queues = tuple(data for data in route.queues if data.broker_name != broker_name)
            work.set_route(cluster, route.topic, replace(route, queues=queues) if queues else None)
    for name in sorted(entry.groups):
        group = work.change(cluster, name, now_ms)
        members = list(group.membership.views.get(broker_name, {}).values())
        work.put_changes(group, [Change(broker_name, member, LEFT, now_ms) for member in members])
        group.membership.views.pop(broker_name, None)
        about = [key for key, one in sorted(group.incidents.items()) if brokers_of(one) == {broker_name}]
        work.put_alerts(_ended(group.incidents.pop(key), words, now_ms) for key in about)
        is_concerned = work.concerns(group, broker_name)
        group.is_stale |= is_concerned
        if is_concerned or members:
            work.touch(cluster, name, now_ms)


def forget_collector(work: WorkingSet, cluster: str, name: str, words: str, now_ms: int, *, writes_rows: bool) -> None:
    """Forget a collector until its next round: nothing misses what it alone read, and its open incident ends."""
    watch = work.cluster(cluster).watch
    watch.rounds.sources.pop(name, None)
    incident = watch.incidents.pop(f"{CLUSTER_NO_DATA} {name}", None)
    if incident is not None and writes_rows:
        work.put_alerts([_ended(incident, words, now_ms)])


def _ended(incident: Incident, words: str, now_ms: int) -> Transition:
    return with_words(end(incident, Reason.FORGOTTEN, Evaluation(now_ms)), words)
