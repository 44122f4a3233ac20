"""Starved queues of several groups, or topics, with one cause: a frozen process, or a broker that serves no pull.

The first incident of each kind pages and lists the queues of the others, which wait under it (`inhibited_by`). The
process of a channel is udfs.rocketmq.process's, a broker without pulls udfs.brokers.mute_brokers'.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from udfs.alerts.alert import Finding, Incident, brokers_of
from udfs.alerts.prose import join_words, name_queues, some
from udfs.brokers.broker_coverage import FrozenQueues
from udfs.groups.diagnosis import CONSUME_STOPPED, FROZEN_CLIENT, PULL_STOPPED
from udfs.groups.findings.queues import STALLED_QUEUE, STARVED_QUEUE
from udfs.groups.state import GroupState
from udfs.rocketmq.process import process_of

PROCESSES, UNSERVED = "processes", "unserved_brokers"
"""The entries of the evidence that name the frozen processes, or the brokers that serve no pull."""

KINDS = (STARVED_QUEUE, STALLED_QUEUE)
"""An incident waits under one of its own kind or of an earlier one."""

Frozen = Mapping[str, Sequence[FrozenQueues]]
"""Consumer group to its open incidents with a shared cause."""


def frozen_of(state: GroupState) -> list[FrozenQueues]:
    """Return the group's open incidents with a shared cause, as of an evaluation that is done."""
    return [
        FrozenQueues(
            state.consumer_group,
            incident.topic or "",
            incident.incident_id,
            list(culprits),
            list(incident.queues),
            incident.has_fired and incident.inhibited_by is None,
            incident.kind,
        )
        for key, incident in sorted(state.incidents.items())
        if incident.kind in KINDS
        and (culprits := incident.evidence.get(PROCESSES) or incident.evidence.get(UNSERVED))
        and not (incident.kind == STALLED_QUEUE and incident.inhibited_by)
    ]


@dataclass(frozen=True)
class _Shared:
    """A finding whose cause other incidents may share: `culprits` by the name of their entry in the evidence."""

    key: str
    finding: Finding
    entry: str
    culprits: list[str]
    own: Incident | None

    @property
    def is_page(self) -> bool:
        """An incident that was notified by itself is not put under another one afterwards."""
        return self.own is not None and self.own.has_fired and self.own.inhibited_by is None


def as_one_cause(
    findings: Mapping[str, Finding], state: GroupState, frozen: Frozen, unserved: frozenset[str] = frozenset()
) -> dict[str, Finding]:
    """Return a group's findings of one kind, with frozen processes and brokers without pulls named. An incident whose
    culprits another one of the cluster has paged waits under that one; an incident that pages lists what the others
    hold. `unserved` are the brokers that serve no pull. Queues that a frozen process leaves to one that does not pull
    them either stay one incident.
    """
    shared = {one.key: one for one in _find_shared(findings, state, unserved)}
    named = dict(findings)
    for key, one in shared.items():
        own = (state.consumer_group, one.finding.topic)
        page = None if one.is_page else _page_of(one, _others(frozen, own)) or _sibling_of(one, shared)
        named[key] = replace(
            _listing(one, _others(frozen, own)) if page is None else one.finding,
            evidence={**one.finding.evidence, one.entry: one.culprits},
            inhibited_by=page,
        )
    return named


def _others(frozen: Frozen, own: tuple[str, str | None]) -> Iterator[FrozenQueues]:
    """Yield the incidents of other groups or topics, oldest group first: a page comes before what waits under it."""
    return (other for incidents in frozen.values() for other in incidents if (other.consumer_group, other.topic) != own)


def _find_shared(findings: Mapping[str, Finding], state: GroupState, unserved: frozenset[str]) -> Iterator[_Shared]:
    for key, finding in sorted(findings.items()):
        own = state.incidents.get(key)
        if finding.inhibited_by is not None:
            continue
        known = own.evidence if own is not None else {}
        brokers = brokers_of(finding)
        if finding.cause in (PULL_STOPPED, CONSUME_STOPPED) and brokers <= unserved | set(known.get(UNSERVED, ())):
            yield _Shared(key, finding, UNSERVED, sorted(brokers), own)
        elif finding.kind == STARVED_QUEUE and (
            finding.cause == FROZEN_CLIENT
            or (finding.cause == PULL_STOPPED and own is not None and own.has_fired and PROCESSES in known)
        ):
            addrs = {member.client_id: member.client_addr for _, member in state.membership.members()}
            blamed = {one["client_id"] for one in finding.evidence["queues"].values() if one["cause"] == finding.cause}
            processes = {process_of(one, addrs[one]) for one in blamed if one in addrs}
            yield _Shared(key, finding, PROCESSES, sorted(processes or set(known.get(PROCESSES, ()))), own)


def _covers_all(one: _Shared) -> bool:
    """Whether nothing but the culprits starves the finding's queues."""
    if one.entry == UNSERVED:
        return True
    return bool(one.culprits) and all(
        each["cause"] == one.finding.cause for each in one.finding.evidence["queues"].values()
    )


def _page_of(one: _Shared, others: Iterable[FrozenQueues]) -> str | None:
    """The first open page that covers each of the culprits."""
    if not _covers_all(one):
        return None
    kinds, culprits = KINDS[: KINDS.index(one.finding.kind) + 1], set(one.culprits)
    covering = (
        other for other in others if other.is_page and other.kind in kinds and culprits.issubset(other.culprits)
    )
    return next((other.incident_id for other in covering), None)


def _sibling_of(one: _Shared, shared: Mapping[str, _Shared]) -> str | None:
    """The incident of another topic of the group that pages for the same culprits, now or before."""
    for key, first in shared.items():
        if key >= one.key or first.own is None or not _covers_all(one) or not set(one.culprits) <= set(first.culprits):
            continue
        is_due = first.finding.is_ready and first.own.held_ms >= (one.own.held_ms if one.own else 0)
        if first.is_page or (is_due and not first.own.has_fired):
            return first.own.incident_id
    return None


def _listing(one: _Shared, others: Iterable[FrozenQueues]) -> Finding:
    """The finding with its culprits, and the other queues that they starve, in the summary."""
    culprits, kind = set(one.culprits), one.finding.kind
    same = [other for other in others if other.kind == kind and not culprits.isdisjoint(other.culprits)]
    same.sort(key=lambda other: (other.consumer_group, other.topic))
    if not one.culprits or not (same or one.entry == UNSERVED):
        return one.finding
    queues = [f"{name_queues(other.queues)} of topic {other.topic} in group {other.consumer_group}" for other in same]
    listed, text, names = some(queues, 20) if queues else "", one.finding.text, join_words(one.culprits)
    is_one = len(one.culprits) == 1
    also = f"; affected, too: {listed}." if listed else "."
    if one.entry == UNSERVED:
        whose = f"roker {names}" if is_one else f"rokers {names}"
        summary = (
            f"{text.summary} B{whose} {'serves' if is_one else 'serve'} no pull of any group, although heartbeats and "
            f"committed offsets arrive{also}"
        )
        text = text._replace(summary=summary, advice=f"First check the pull threads of b{whose}. {text.advice}")
    else:
        state = "frozen" if one.finding.cause == FROZEN_CLIENT else "without pulls"
        text = text._replace(summary=f"{text.summary} Process {names} {'is' if is_one else 'are'} {state}{also}")
    return replace(one.finding, text=text, figures=listed)
