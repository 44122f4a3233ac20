"""What a shard keeps between batches, beside its groups: each cluster's time, and what was told of it last."""

import msgspec

from udfs.alerts.alert import Incident
from udfs.brokers.broker_coverage import FrozenQueues, Unasked
from udfs.brokers.cluster import ClusterState
from udfs.brokers.families import Families


class GroupEntry(msgspec.Struct, array_like=True):
    """When to look at a group again (None: only when something arrives), and which topics' routes concern it.

    `is_calm`: what only repeats what is known need no evaluation, and at `due_ms` only its deadlines need to be asked
    (udfs.groups.calm).
    """

    due_ms: int | None
    topics: list[str]
    is_calm: bool = False

    def wake(self) -> None:
        """If it is calm: the next tick looks at it in full."""
        if self.is_calm:
            self.is_calm, self.due_ms = False, 0


class ClusterContext(msgspec.Struct):
    """Which brokers give data and how (Hearing), and which incidents stand above groups."""

    without_data: list[str]
    explained: dict[str, str]
    masterless: dict[str, str]
    cluster_id: str | None
    missed: list[str] = []
    silent: list[str] = []
    answered: list[str] = []
    reporting: list[str] = []


class Timing(msgspec.Struct):
    """Whether a tick takes what arrives, by Kafka's time; 0 is never.

    arrived_ms   the newest of the cluster's events, or of a clock of its own
    ticked_ms    the newest tick that moved time; before the first of all, the first event
    began_ms     the oldest event's time, until the first tick
    newest_ms    the newest event's time
    noted_ms     since when a tick has been missed for long; None while it has not
    dropped      events that were dropped since the last tick
    drop         the incident that tells it
    said_again_ms  when a known route was last said again
    routes_ms      when the routes were last looked through
    """

    arrived_ms: int = 0
    ticked_ms: int = 0
    began_ms: int = 0
    newest_ms: int = 0
    noted_ms: int | None = None
    dropped: int = 0
    drop: Incident | None = None
    said_again_ms: int = 0
    routes_ms: int = 0


class ClusterEntry(msgspec.Struct):
    """A cluster's time: its newest tick, the newest of a foreign clock, and whether `run` keeps it now.

    `groups` are kept on a shelf of their own, each under its key, and are not part of the value.
    `data_since_ms` is 0 for a broker that was never missed. `pulled_ms` is since when a broker reports its pulls,
    `newest_pulled_ms` its newest one.
    `unasked` and `context` are what the newest tick passed to the groups. `frozen` has, by group, the open incidents of
    frozen processes.
    """

    now_ms: int = 0
    collector_time_ms: int = 0
    is_run_clock: bool = False
    without_data: list[str] = []
    data_since_ms: dict[str, int] = {}
    pulled_ms: dict[str, int] = {}
    groups: dict[str, GroupEntry] = {}
    watch: ClusterState = msgspec.field(default_factory=ClusterState)
    unasked: list[Unasked] = []
    context: ClusterContext = msgspec.field(default_factory=lambda: ClusterContext([], {}, {}, None))
    families: Families = msgspec.field(default_factory=Families)
    timing: Timing = msgspec.field(default_factory=Timing)
    newest_pulled_ms: dict[str, int] = {}
    frozen: dict[str, list[FrozenQueues]] = {}


class ShardIndex(msgspec.Struct):
    """What a shard must know before it looks at any group. `version` is that of all its state values.

    `rules` is the fingerprint of those it last worked by. `swept_ms` is when, by Kafka's time, the shard last looked at
    all that waits. `forgotten_ms` is when Kafka had the decision that a cluster
    is gone: what it had before is of no cluster any more. `shelves` has the buckets and bytes of each shelf.
    """

    version: int = 7
    rules: str = ""
    has_held_ticks: bool = False
    swept_ms: int = 0
    clusters: dict[str, ClusterEntry] = {}
    forgotten_ms: dict[str, int] = {}
    shelves: dict[str, tuple[int, int]] = {}
