"""Up to where all topics of a batch are known to be complete: what is judged by several waits for the last of them."""

from collections.abc import Iterable, Sequence

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.queries.chunk import Chunk, safe_time_ms
from streaming.queries.planned import Planned

OF_GROUPS = frozenset((HEARTBEATS, PULLS, ROUTES, CLOCKS))
OF_SENDS = frozenset((SEND_LATENCIES, CLOCKS))


class Complete:
    """`groups` and `sends` are safe_time_ms of either's topics, by cluster; None: all of them was read.

    `chunks` are those of the batch that tell of groups, `read` how far its partitions of sends were read; `limit` is
    maxOffsetsPerTrigger, 0 for none; `planned` what Spark was to read, if known.
    """

    def __init__(
        self, chunks: Sequence[Chunk], read: Iterable[Chunk], limit: int = 0, planned: Planned | None = None
    ) -> None:
        self.groups = safe_time_ms(chunks, CLOCKS, limit, planned.of(OF_GROUPS) if planned is not None else None)
        self.sends = safe_time_ms(list(read), CLOCKS, limit, planned.of(OF_SENDS) if planned is not None else None)

    def holds(self, cluster: str, time_ms: int, *, has_fleet: bool) -> bool:
        """Whether a tick of then may be followed by more of what it is to judge."""
        of_groups = self.groups is not None and time_ms >= self.groups.get(cluster, 0)
        return of_groups or (has_fleet and self.sends is not None and time_ms >= self.sends.get(cluster, 0))

    def most_ms(self, cluster: str, *, has_groups: bool) -> int | None:
        """The newest time at which none of the cluster's sends is missing, nor what else gives data; None for any."""
        parts = (self.sends, self.groups if has_groups or cluster in (self.groups or ()) else None)
        return min((max(0, safe.get(cluster, 0) - 1) for safe in parts if safe is not None), default=None)
