"""Consumer groups as the tables say they are now: their queues by verdict, and their members.

Told of rows, it keeps each queue's verdict and each broker's members, so a batch costs its rows, not the groups.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.metrics.cardinality import clean
from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.totals import Figure, Subject, Totals
from streaming.metrics.verdict_names import CLIENT_IDS, GROUPS, MEMBERS, QUEUES
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED
from udfs.rocketmq.membership import CHANGED, JOINED

Row = Mapping[str, Any]

VERDICTS = (OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED, UNKNOWN)

BY_VERDICT: Mapping[str, Figure] = {verdict: (QUEUES, (("verdict", verdict),)) for verdict in VERDICTS}
ALL_MEMBERS: Figure = (MEMBERS, ())
ALL_CLIENT_IDS: Figure = (CLIENT_IDS, ())


@dataclass
class _View:
    """A group's members as one broker lists them: channel to ClientId, and how many channels carry each."""

    channels: dict[str, str] = field(default_factory=dict)
    client_ids: Counter[str] = field(default_factory=Counter)

    def put(self, client_addr: str, client_id: str | None) -> None:
        """With None the channel is gone."""
        before = self.channels.pop(client_addr, None)
        if before is not None:
            self.client_ids[before] -= 1
            if not self.client_ids[before]:
                del self.client_ids[before]
        if client_id is not None:
            self.channels[client_addr] = client_id
            self.client_ids[client_id] += 1


@dataclass
class _Group:
    """`closed` counts queues that nobody is meant to own any more: a deleted group leaves only these."""

    verdicts: dict[tuple[str, str, int], tuple[str, bool]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    views: dict[str, _View] = field(default_factory=dict)

    def judge(self, queue: tuple[str, str, int], verdict: str, is_closed: bool) -> None:
        before, was_closed = self.verdicts.get(queue, (None, False))
        if before is not None:
            self.counts[before] -= 1
        self.counts[verdict] += 1
        self.closed += is_closed - was_closed
        self.verdicts[queue] = verdict, is_closed

    def is_gone(self) -> bool:
        return self.closed == len(self.verdicts) and not any(view.channels for view in self.views.values())

    def figures(self) -> dict[Figure, int]:
        by_verdict = {figure: self.counts[verdict] for verdict, figure in BY_VERDICT.items()}
        return by_verdict | {
            ALL_MEMBERS: max((len(view.channels) for view in self.views.values()), default=0),
            ALL_CLIENT_IDS: max((len(view.client_ids) for view in self.views.values()), default=0),
        }


class Groups:
    """Tell it of rows of `assignments` and `memberships`, the newest of each key at first, then as they come."""

    def __init__(self, exporter: Exporter, clusters: Clusters, limit: int) -> None:
        self._exporter, self._clusters = exporter, clusters
        self._totals = Totals(exporter, "consumer_group", clusters, limit)
        self._groups: dict[Subject, _Group] = {}
        self._by_cluster: Counter[str] = Counter()
        clusters.when_lost(self._lose)

    @property
    def folded(self) -> int:
        """Groups without a series of their own."""
        return self._totals.folded

    def update(self, assignments: Iterable[Row], memberships: Iterable[Row]) -> None:
        """Rows in the order in which they were written; the canary's are left out.

        A group in trouble is told before the others: of two that fight for the last name it is the one to see.
        """
        touched: dict[Subject, _Group] = {}
        for row in assignments:
            is_closed = row["verdict"] == NOT_JUDGED and not row["planned_owner"] and not row["observed_owners"]
            if (group := self._touch(row, touched)) is not None:
                group.judge((row["topic"], row["broker_name"], row["queue_id"]), row["verdict"], is_closed)
        for row in memberships:
            is_member = row["change"] in (JOINED, CHANGED)
            if (group := self._touch(row, touched)) is not None:
                view = group.views.setdefault(row["broker_name"], _View())
                view.put(row["client_addr"], row["client_id"] if is_member else None)
        for subject in sorted(touched, key=lambda one: (_is_well(touched[one]), one)):
            self._put(subject, touched[subject])
        self._totals.flush()

    def _touch(self, row: Row, touched: dict[Subject, _Group]) -> _Group | None:
        subject = row["cluster"], row["consumer_group"]
        if row["cluster"] == CANARY_CLUSTER:
            return None
        group = touched[subject] = self._groups.get(subject) or touched.get(subject) or _Group()
        return group

    def _put(self, subject: Subject, group: _Group) -> None:
        was_there, is_gone = subject in self._groups, group.is_gone()
        if is_gone:
            self._groups.pop(subject, None)
            self._totals.remove(subject)
        else:
            self._groups[subject] = group
            self._totals.put(subject, group.figures())
        self._count(subject[0], (not is_gone) - was_there)

    def _count(self, cluster: str, change: int) -> None:
        if change and self._clusters.is_named(cluster):
            self._by_cluster[cluster] += change
            self._exporter.set(GROUPS, self._by_cluster[cluster], cluster=clean(cluster))

    def _lose(self, cluster: str) -> None:
        if cluster in self._by_cluster:
            del self._by_cluster[cluster]
            self._exporter.drop(GROUPS, cluster=clean(cluster))


def _is_well(group: _Group) -> bool:
    return not any(group.counts[verdict] for verdict in (UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED))
