"""What is wrong in a group, as findings: duplicate ClientIds first, then the queues nobody consumes."""

from collections.abc import Mapping
from typing import Any

from udfs import prose
from udfs.alert import Finding, Incident
from udfs.diagnosis import FROZEN_CLIENT, GROUP_OFFLINE, Evidence, Starvation, StarvedTopic, diagnose, gather
from udfs.hearing import Hearing
from udfs.membership import Membership, Twins
from udfs.ownership import (
    DUPLICATE_CLIENT_ID,
    HAND_OVER_MS,
    NOT_JUDGED,
    SILENT,
    STARVED,
    QueueWatch,
    queue_order,
)
from udfs.rules import Rules
from udfs.watch import GroupState, TopicWatch

STARVED_QUEUE = "starved_queue"


def find_duplicates(state: GroupState, twins: list[Twins]) -> dict[str, Finding]:
    """A finding a ClientId that several live channels carry, by `duplicate_client_id CLIENT_ID`.

    Broadcasting clients carry `ip@DEFAULT` by design and share out nothing: not a finding.
    """
    findings = {}
    for client_id in sorted({twin.client_id for twin in twins}):
        of_client = [twin for twin in twins if twin.client_id == client_id]
        if not _shares_out(state.membership, client_id):
            continue
        views = {twin.broker_name: list(twin.client_addrs) for twin in of_client}
        since_ms = min(twin.since_ms for twin in of_client)
        starved = {
            topic: names
            for topic, watched in sorted(state.topics.items())
            if (names := [name for name, watch in watched.queues.items() if _is_lost_to(client_id, watch)])
        }
        topics = sorted({topic for topic, watched in state.topics.items() if watched.is_shared})
        findings[f"{DUPLICATE_CLIENT_ID} {client_id}"] = Finding(
            kind=DUPLICATE_CLIENT_ID,
            cause=DUPLICATE_CLIENT_ID,
            severity="critical" if starved else "warning",
            since_ms=since_ms,
            text=prose.tell_duplicate_client_id(
                state.cluster, state.consumer_group, client_id, views, starved, since_ms
            ),
            labels={"cluster": state.cluster, "consumer_group": state.consumer_group, "client_id": client_id},
            topic=topics[0] if len(topics) == 1 else None,
            client_id=client_id,
            broker_name=",".join(sorted(views)),
            queues=tuple(sorted({name for names in starved.values() for name in names}, key=queue_order)),
            evidence={
                "client_addrs": sorted({addr for addrs in views.values() for addr in addrs}),
                "views": views,
                "starved": starved,
            },
        )
    return findings


def find_starved(
    state: GroupState, evidence: Evidence, hearing: Hearing, now_ms: int, rules: Rules
) -> dict[str, Finding]:
    """A finding a topic with starved queues, by `starved_queue TOPIC`.

    A queue of the open incident stays in it until somebody pulls: a new plan alone ends nothing.
    """
    findings = {}
    for topic, watched in sorted(state.topics.items()):
        incident = state.incidents.get(f"{STARVED_QUEUE} {topic}")
        watched_since_ms = max(state.watched_since_ms, watched.watched_since_ms)
        starvations = {
            name: starvation
            for name, watch in watched.queues.items()
            if (starvation := diagnose(watch, evidence, max(watched_since_ms, _heard_ms(hearing, name)), rules))
        }
        starved = gather(
            starvations,
            _coming(watched, starvations, evidence),
            _still_silent(watched, incident),
            incident.cause if incident else None,
            now_ms,
            rules,
        )
        if starved is not None:
            findings[f"{STARVED_QUEUE} {topic}"] = _starved_finding(state, topic, watched, starved)
    return findings


def _heard_ms(hearing: Hearing, queue: str) -> int:
    return hearing.heard_since_ms(queue_order(queue)[0]) or 0


def _shares_out(membership: Membership, client_id: str) -> bool:
    return any(member.is_judged for _, member in membership.members() if member.client_id == client_id)


def _is_lost_to(client_id: str, watch: QueueWatch) -> bool:
    """The queue is in a later slot of this twin, and nobody has been seen to pull it nevertheless."""
    is_slot = watch.share.gap == DUPLICATE_CLIENT_ID and watch.share.slot_of == client_id
    return is_slot and watch.verdict != NOT_JUDGED and not _is_pulled_anyway(watch)


def _is_pulled_anyway(watch: QueueWatch) -> bool:
    """Pulled for longer after the plan changed than a hand-over takes."""
    return any(puller.last_pull_ms > watch.share_since_ms + HAND_OVER_MS for puller in watch.pullers.values())


def _coming(watched: TopicWatch, starvations: Mapping[str, Starvation], evidence: Evidence) -> frozenset[str]:
    """Queues about to starve for a reason already known: a proven twin's slots, a frozen owner's queues."""
    frozen = {s.client_id for s in starvations.values() if s.cause == FROZEN_CLIENT}
    return frozenset(
        name
        for name, watch in watched.queues.items()
        if watch.verdict not in (STARVED, SILENT)
        and not _is_pulled_anyway(watch)
        and (
            (watch.share.gap == DUPLICATE_CLIENT_ID and watch.share.slot_of in evidence.twin_ids)
            or watch.share.owner in frozen
        )
    )


def _still_silent(watched: TopicWatch, incident: Incident | None) -> frozenset[str]:
    if incident is None or not watched.is_shared:
        return frozenset()
    return frozenset(name for name in incident.queues if name in watched.queues and not watched.queues[name].pullers)


def _starved_finding(state: GroupState, topic: str, watched: TopicWatch, starved: StarvedTopic) -> Finding:
    addr = _addr_of(state.membership, starved.client_id)
    cause_incident = state.incidents.get(f"{DUPLICATE_CLIENT_ID} {starved.client_id}")
    is_explained = starved.cause == DUPLICATE_CLIENT_ID and cause_incident is not None
    return Finding(
        kind=STARVED_QUEUE,
        cause=starved.cause,
        severity="warning" if starved.cause == GROUP_OFFLINE else "critical",
        since_ms=starved.since_ms,
        text=prose.tell_starved_queue(
            state.cluster,
            state.consumer_group,
            topic,
            starved.cause,
            starved.queues,
            starved.since_ms,
            client_id=starved.client_id,
            client_addr=addr,
            backlog=_backlog(watched, starved.queues),
        ),
        labels={"cluster": state.cluster, "consumer_group": state.consumer_group, "topic": topic},
        topic=topic,
        client_id=starved.client_id,
        broker_name=",".join(sorted({queue_order(name)[0] for name in starved.queues})),
        queues=starved.queues,
        evidence={
            "client_addr": addr,
            "queues": {name: _queue_evidence(watched, name, starved) for name in starved.queues},
        },
        suppressed_by=cause_incident.incident_id if is_explained and cause_incident else None,
        is_ready=starved.is_ready,
    )


def _addr_of(membership: Membership, client_id: str | None) -> str | None:
    addrs = sorted(member.client_addr for _, member in membership.members() if member.client_id == client_id)
    return addrs[0] if addrs else None


def _backlog(watched: TopicWatch, names: tuple[str, ...]) -> int | None:
    known = [
        watch.max_offset - watch.commit_offset
        for name in names
        if (watch := watched.queues[name]).max_offset is not None and watch.commit_offset is not None
    ]
    return sum(max(0, lag) for lag in known) if known else None


def _queue_evidence(watched: TopicWatch, name: str, starved: StarvedTopic) -> dict[str, Any]:
    watch, starvation = watched.queues[name], starved.causes.get(name)
    return {
        "cause": starvation.cause if starvation else None,
        "planned_owner": watch.share.owner,
        "slot_of": watch.share.slot_of,
        "last_pull_ms": watch.last_pull_ms,
        "commit_offset": watch.commit_offset,
        "max_offset": watch.max_offset,
    }
