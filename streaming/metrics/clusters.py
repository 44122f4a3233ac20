"""Clusters with their own series: the first MOST_CLUSTERS. A cluster without members frees its place.

Each counted group, broker or incident joins its cluster and leaves it when it is gone. Clock events alone do not join.
"""

from collections import Counter
from collections.abc import Callable

MOST_CLUSTERS = 100
"""Limit on clusters with series."""


class Clusters:
    """The clusters with series, shared by all metrics of clusters."""

    def __init__(self, limit: int = MOST_CLUSTERS) -> None:
        self._limit = limit
        self._named: dict[str, int] = {}
        self._folded: Counter[str] = Counter()
        self._hearers: list[Callable[[str], None]] = []

    @property
    def folded(self) -> int:
        """Return the number of clusters without series."""
        return len(self._folded)

    def when_lost(self, hear: Callable[[str], None]) -> None:
        """Call `hear` with each cluster that loses its series."""
        self._hearers.append(hear)

    def is_named(self, cluster: str) -> bool:
        """Return whether the cluster has series. The answer does not change while the cluster has members."""
        return cluster in self._named

    def join(self, cluster: str) -> None:
        """Count a member of the cluster."""
        if cluster in self._named:
            self._named[cluster] += 1
        elif cluster not in self._folded and self._has_room():
            self._named[cluster] = 1
        else:
            self._folded[cluster] += 1

    def leave(self, cluster: str) -> None:
        """Uncount a member. An empty cluster keeps its series, which show 0, until another cluster needs the place."""
        if cluster in self._named:
            self._named[cluster] -= 1
        elif self._folded[cluster] > 1:
            self._folded[cluster] -= 1
        else:
            del self._folded[cluster]

    def _has_room(self) -> bool:
        if len(self._named) < self._limit:
            return True
        empty = next((cluster for cluster, count in self._named.items() if not count), None)
        if empty is None:
            return False
        del self._named[empty]
        for hear in self._hearers:
            hear(empty)
        return True
