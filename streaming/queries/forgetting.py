"""Clusters, brokers, groups and collectors that end by a person's decision (`balancewatch forget`) or after a day.

Their open incidents are resolved for that reason, each queue and member gets its last row, and nothing of them is kept.
New data starts them afresh.
"""

from collections.abc import Iterable
from dataclasses import replace

from schemas.events import CLOCKS
from streaming.queries.events import FORGET, RUN, Event
from streaming.queries.parcel import Chunk
from streaming.queries.state import ShardIndex
from streaming.queries.working_set import WorkingSet
from udfs.alerts.alert import Incident, Transition, brokers_of, with_words
from udfs.alerts.life import Evaluation, Reason, end
from udfs.alerts.phrase import Words
from udfs.brokers.cluster_findings import CLUSTER_NO_DATA
from udfs.rocketmq.membership import LEFT, Change

FORGET_CLUSTER_MS = 86_400_000


class ForgottenClusters:
    """The clusters that a person decided to forget, in one batch of one shard, after its arrivals are noted.

    Events that Kafka had before the decision count for nothing. Later events bring the cluster back, except clock
    events without a broker's answer: those of `run`, and a round that no broker answered.
    """

    def __init__(self, shard_index: ShardIndex, chunks: Iterable[Chunk]) -> None:
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
        """Whether nothing but clock events has come since the cluster was forgotten."""
        return cluster in self._silent

    def are_any(self) -> bool:
        return bool(self._at_ms)

    def has(self, event: Event) -> bool:
        """Whether the event is of a forgotten cluster and does not bring it back."""
        clock, cluster = event.decoded, event.cluster
        if event.ingest_time_ms <= self._at_ms.get(cluster, -1):
            return True
        if event.topic != CLOCKS or cluster not in self._silent or clock.source == FORGET:
            return False
        return clock.source == RUN or not clock.brokers_answered


def forget_cluster(work: WorkingSet, cluster: str, words: Words, now_ms: int, *, writes_rows: bool) -> None:
    """Forget the cluster with all its groups. `writes_rows`: this shard writes the cluster's rows."""
    entry = work.cluster(cluster)
    for name in sorted(entry.groups.keys() | work.dirty.get(cluster, set())):
        work.end_group(cluster, name, Reason.FORGOTTEN, now_ms, words)
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
    """Drop clusters without data for a day, by Kafka's time, and without open incidents."""
    for name, entry in sorted(work.shard_index.clusters.items()):
        arrived_ms = entry.timing.arrived_ms
        if not arrived_ms or work.shard_index.swept_ms - arrived_ms <= FORGET_CLUSTER_MS or entry.watch.incidents:
            continue
        if not any(work.group(name, group, entry.now_ms).incidents for group in entry.groups):
            now_ms = max(entry.now_ms, entry.timing.newest_ms) + 1
            for group in sorted(entry.groups):
                work.end_group(name, group, Reason.GIVEN_UP, now_ms)
            forget_cluster(work, name, "", now_ms, writes_rows=False)


def forget_broker(
    work: WorkingSet, cluster: str, broker_name: str, words: Words, now_ms: int, *, writes_rows: bool
) -> None:
    """Forget a broker until it gives data again: its members leave, and its queues are in no route."""
    entry = work.cluster(cluster)
    incidents = entry.watch.forget_broker(broker_name, now_ms)
    if writes_rows:
        work.put_alerts(_ended(incident, words, now_ms) for incident in incidents)
    for by_broker in (entry.data_since_ms, entry.pulled_ms, entry.newest_pulled_ms):
        by_broker.pop(broker_name, None)
    for route in work.routes_of(cluster):
        if broker_name in route.broker_names():
            queues = tuple(data for data in route.queues if data.broker_name != broker_name)
            work.set_route(cluster, route.topic, replace(route, queues=queues) if queues else None)
    for name in sorted(entry.groups):
        group = work.change(cluster, name, now_ms)
        members = list(group.membership.views.get(broker_name, {}).values())
        work.put_changes(group, [Change(broker_name, member, LEFT, now_ms) for member in members])
        group.membership.views.pop(broker_name, None)
        about = [key for key, incident in sorted(group.incidents.items()) if brokers_of(incident) == {broker_name}]
        work.put_alerts(_ended(group.incidents.pop(key), words, now_ms) for key in about)
        is_concerned = any(
            queue.startswith(f"{broker_name}:") for watched in group.topics.values() for queue in watched.queues
        )
        group.is_stale |= is_concerned
        if is_concerned or members:
            work.touch(cluster, name, now_ms)


def forget_collector(
    work: WorkingSet, cluster: str, name: str, words: Words, now_ms: int, *, writes_rows: bool
) -> None:
    """Forget a collector until its next round: its groups are not missed, and its open incident is resolved."""
    watch = work.cluster(cluster).watch
    watch.rounds.sources.pop(name, None)
    incident = watch.incidents.pop(f"{CLUSTER_NO_DATA} {name}", None)
    if incident is not None and writes_rows:
        work.put_alerts([_ended(incident, words, now_ms)])


def _ended(incident: Incident, words: Words, now_ms: int) -> Transition:
    return with_words(end(incident, Reason.FORGOTTEN, Evaluation(now_ms)), words)
