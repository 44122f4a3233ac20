"""Clusters with series of their own: the first so many; one that nothing belongs to any more makes room for another.

Whoever counts something of a cluster joins it, and leaves it when that is gone. A clock event alone gives no name.
"""

from collections import Counter
from collections.abc import Callable

MOST_CLUSTERS = 100
"""Clusters with a name of their own."""


class Clusters:
    """All that count here share one, so that a cluster has its name everywhere or nowhere."""

    def __init__(self, limit: int = MOST_CLUSTERS) -> None:
        self._limit = limit
        self._named: dict[str, int] = {}
        self._folded: Counter[str] = Counter()
        self._hearers: list[Callable[[str], None]] = []

    @property
    def folded(self) -> int:
        """How many have no name of their own."""
        return len(self._folded)

    def when_lost(self, hear: Callable[[str], None]) -> None:
        """Tell `hear` of each cluster that loses its name, so that its series go."""
        self._hearers.append(hear)

    def is_named(self, cluster: str) -> bool:
        """Whether it has a name of its own. That stays so, either way, for as long as anything belongs to it."""
        return cluster in self._named

    def join(self, cluster: str) -> None:
        """One thing more belongs to it."""
        if cluster in self._named:
            self._named[cluster] += 1
        elif cluster not in self._folded and self._has_room():
            self._named[cluster] = 1
        else:
            self._folded[cluster] += 1

    def leave(self, cluster: str) -> None:
        """One thing less. An empty one keeps its name until another wants it: what is over is seen to be over."""
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
