"""A frozen process that carries several groups, or topics, is one cause.

The first of its incidents pages and lists the queues of the others, which wait under it (`inhibited_by`). The process
of a channel is udfs.rocketmq.process's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from udfs.alerts.alert import Finding, Incident
from udfs.alerts.prose import join_words, name_queues, some
from udfs.brokers.broker_coverage import FrozenQueues
from udfs.groups.diagnosis import FROZEN_CLIENT
from udfs.groups.findings.starved import STARVED_QUEUE
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Membership
from udfs.rocketmq.process import process_of

PROCESSES = "processes"
"""The entry of the evidence that names the frozen processes."""

Frozen = Mapping[str, Sequence[FrozenQueues]]
"""Consumer group to its open incidents of frozen processes."""


def frozen_of(state: GroupState) -> list[FrozenQueues]:
    """Return the group's open incidents of frozen processes, as of an evaluation that is done."""
    return [
        FrozenQueues(
            state.consumer_group,
            incident.topic or "",
            incident.incident_id,
            list(incident.evidence[PROCESSES]),
            list(incident.queues),
            incident.has_fired and incident.inhibited_by is None,
        )
        for key, incident in sorted(state.incidents.items())
        if incident.kind == STARVED_QUEUE and incident.evidence.get(PROCESSES)
    ]


def as_one_cause(findings: Mapping[str, Finding], state: GroupState, frozen: Frozen) -> dict[str, Finding]:
    """Return a group's starved queues with their frozen processes named. An incident whose processes another one of
    the cluster has paged waits under that one; an incident that pages lists what the others hold.
    """
    named: dict[str, Finding] = {}
    for key, finding in findings.items():
        if finding.cause != FROZEN_CLIENT or finding.inhibited_by is not None:
            named[key] = finding
            continue
        own = state.incidents.get(key)
        processes = _processes_of(finding, own, state.membership)
        others = [
            one for one in _all(frozen) if (one.consumer_group, one.topic) != (state.consumer_group, finding.topic)
        ]
        page = None if _is_page(own) else _page_of(others, processes, finding)
        named[key] = replace(
            _listing(finding, processes, others) if page is None else finding,
            evidence={**finding.evidence, PROCESSES: processes},
            inhibited_by=page,
        )
    return named


def _all(frozen: Frozen) -> Iterator[FrozenQueues]:
    for name in sorted(frozen):
        yield from frozen[name]


def _is_page(own: Incident | None) -> bool:
    """An incident that was notified by itself is not put under another one afterwards."""
    return own is not None and own.has_fired and own.inhibited_by is None


def _processes_of(finding: Finding, own: Incident | None, membership: Membership) -> list[str]:
    """The processes of the clients that the finding blames; of one that has left, as they were before."""
    addrs = {member.client_id: member.client_addr for _, member in membership.members()}
    queues: Mapping[str, Mapping[str, Any]] = finding.evidence["queues"]
    client_ids = {one["client_id"] for one in queues.values() if one["cause"] == FROZEN_CLIENT and one["client_id"]}
    known = set(own.evidence.get(PROCESSES, ())) if own is not None else set()
    return sorted({process_of(one, addrs[one]) for one in client_ids if one in addrs} or known)


def _page_of(others: Sequence[FrozenQueues], processes: Sequence[str], finding: Finding) -> str | None:
    """The open page that covers each of the finding's processes, where nothing but those starves its queues."""
    is_frozen_only = all(one["cause"] == FROZEN_CLIENT for one in finding.evidence["queues"].values())
    pages = [one for one in others if one.is_page and processes and set(processes) <= set(one.processes)]
    return pages[0].incident_id if pages and is_frozen_only else None


def _listing(finding: Finding, processes: Sequence[str], others: Sequence[FrozenQueues]) -> Finding:
    """The finding with the other queues of its processes in the summary."""
    same = [one for one in others if set(one.processes) & set(processes)]
    if not same:
        return finding
    listed = some([f"{name_queues(one.queues)} of topic {one.topic} in group {one.consumer_group}" for one in same], 20)
    verb = "is" if len(processes) == 1 else "are"
    summary = f"{finding.text.summary} Process {join_words(list(processes))} {verb} frozen; affected, too: {listed}."
    return replace(finding, text=finding.text._replace(summary=summary), figures=listed)
