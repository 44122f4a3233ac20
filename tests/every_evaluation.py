"""The engine that knows no deadlines: each event is news, and each tick looks at each group in full.

What `make` runs must say the same, row for row, at the same times, though it looks at hardly anything.
"""

from streaming.queries.shard import Shard
from streaming.queries.shard_clock import Heard
from streaming.queries.working_set import WorkingSet
from udfs.groups.state import GroupState


class AllNews(WorkingSet):
    """No group of it is ever calm."""

    def calm_group(self, cluster: str, name: str) -> GroupState | None:
        return None


class EveryEvaluation(Shard):
    """A shard that looks at every group it knows, at every tick that is for it."""

    working_set = AllNews

    def _due(self, cluster: str, heard: Heard) -> set[str]:
        return set(self._work.cluster(cluster).groups)

    def _stays_calm(self, cluster: str, name: str, heard: Heard) -> bool:
        return False
