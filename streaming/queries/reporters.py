"""Which brokers report every pull they get, and since when: a client without a pull there does not pull.

A broker is believed until others report pulls or offsets there for BELIEVED_MS while the broker itself reports no pull:
its agent was removed. What it reports later counts from then on.

A group that is not calm may have to be judged by it, though nothing else of it has changed (udfs.groups.deadlines).
"""

from collections.abc import Iterable, Iterator

from streaming.queries.chunk import Chunk
from streaming.queries.shard_values import ClusterEntry
from streaming.queries.working_set import WorkingSet

BELIEVED_MS = 60_000
"""Idle consumers pull every 15 to 20 s: a broker with any consumer reports a pull this often."""


def note_report(entry: ClusterEntry, broker_name: str, time_ms: int) -> None:
    """Take in a pull that the broker itself reported."""
    entry.pulled_ms.setdefault(broker_name, time_ms)
    entry.newest_pulled_ms[broker_name] = max(time_ms, entry.newest_pulled_ms.get(broker_name, 0))


def reporting(entry: ClusterEntry, now_ms: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the brokers that report each pull and since when; those that no longer do, and until when."""
    for broker_name, newest_ms in entry.newest_pulled_ms.items():
        others_ms = max(entry.watch.pulls.at(broker_name) or 0, entry.watch.offsets_ms.get(broker_name, 0))
        if others_ms > newest_ms + BELIEVED_MS:
            entry.pulled_ms.pop(broker_name, None)
    since_ms = {name: at_ms for name, at_ms in sorted(entry.pulled_ms.items()) if at_ms <= now_ms}
    return since_ms, {name: at_ms for name, at_ms in entry.newest_pulled_ms.items() if name not in since_ms}


def shows_pulls(work: WorkingSet, chunk: Chunk) -> bool:
    """Whether it is the first that shows the pulls of some broker."""
    clusters = work.shard_index.clusters
    return any(
        cluster not in clusters or broker not in clusters[cluster].pulled_ms
        for cluster, broker, _ in _pulled(work, chunk)
    )


def learn_who_reports(work: WorkingSet, chunks: Iterable[Chunk]) -> None:
    """Take in what the chunks show; the next tick looks at the groups that it may concern."""
    for chunk in chunks:
        for cluster, broker_name, time_ms in _pulled(work, chunk):
            entry = work.cluster(cluster)
            if time_ms < entry.pulled_ms.get(broker_name, time_ms + 1):
                entry.pulled_ms[broker_name] = time_ms
                restless = {name for name, group in entry.groups.items() if not group.is_calm}
                work.dirty.setdefault(cluster, set()).update(restless)


def _pulled(work: WorkingSet, chunk: Chunk) -> Iterator[tuple[str, str, int]]:
    """(cluster, broker, its oldest pull), of clusters that were not forgotten since."""
    for (cluster, broker_name), time_ms in chunk.pulled_ms.items():
        if time_ms > work.shard_index.forgotten_ms.get(cluster, 0):
            yield cluster, broker_name, time_ms
