"""Which brokers tell every pull they get, and since when: where a broker does, whoever is not among them does not pull.

A group that is not calm may have to be judged by it, though nothing else of it has changed (udfs.groups.deadlines).
"""

from collections.abc import Iterable, Iterator

from streaming.queries.chunk import Chunk
from streaming.queries.working_set import WorkingSet


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
