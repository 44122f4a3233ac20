"""starved_queue: the queues of a topic that nobody consumes, with the cause of each."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from udfs.alerts import prose
from udfs.alerts.alert import Finding, Incident
from udfs.groups.diagnosis import (
    CAUSES,
    CONSUME_STOPPED,
    FROZEN_CLIENT,
    GROUP_OFFLINE,
    WARNED,
    Evidence,
    Starvation,
    diagnose,
    gravity,
)
from udfs.groups.findings.duplicates import is_pulled_anyway
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.plan import DUPLICATE_CLIENT_ID, names_of_brokers
from udfs.groups.queue_state import NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED, QueueState
from udfs.groups.snapshot import Findings, GroupSnapshot, is_never_heard
from udfs.groups.starved_topic import Blame, StarvedTopic, gather
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import PULLS_NOT_REPORTED
from udfs.rocketmq.membership import Membership
from udfs.rocketmq.model import queue_order

STARVED_QUEUE = "starved_queue"


def find_starved(snapshot: GroupSnapshot) -> Findings:
    """Kind 4. A queue starves when nobody consumes it and one of the causes of udfs.groups.diagnosis is certain; a
    finding a topic, by `starved_queue TOPIC`. A queue of the open incident stays starved until somebody pulls it: a new
    plan alone ends nothing. Not starved: a queue without a certain cause, which is kind 5; the queues of a group
    without members where kind 2 is off for the group, for it is offline on purpose.
    """
    findings = {}
    for topic, topic_state in sorted(snapshot.state.topics.items()):
        incident = snapshot.incident(f"{STARVED_QUEUE} {topic}")
        if incident is None and not is_quiet(topic_state):
            continue
        evidence = snapshot.evidence(topic, topic_state)
        starvations, blames = diagnose_topic(snapshot, topic_state, evidence), reported_blames(incident)
        if not snapshot.rules.of_kind(GROUP_OFFLINE).is_enabled:
            offline = {name for name, starvation in starvations.items() if _is_offline(snapshot, starvation)}
            starvations = {name: one for name, one in starvations.items() if name not in offline}
            blames = {name: one for name, one in blames.items() if name not in offline}
        starvations = keep_causes(starvations, blames, snapshot.last_heartbeat_ms.keys())
        starved = gather(
            starvations,
            _coming(topic_state, starvations, evidence),
            _still_silent(snapshot.state, topic_state, blames),
            incident.cause if incident else None,
            snapshot.now_ms,
        )
        if starved is not None:
            findings[f"{STARVED_QUEUE} {topic}"] = _starved_finding(snapshot, topic, topic_state, starved, blames)
    return findings


def is_quiet(topic_state: TopicState) -> bool:
    """Whether nobody pulls some queue: most groups, at most ticks, need no more than this."""
    return any(queue_state.verdict in (UNOWNED, NOT_CONSUMED) for queue_state in topic_state.queues.values())


def diagnose_topic(snapshot: GroupSnapshot, topic_state: TopicState, evidence: Evidence) -> dict[str, Starvation]:
    """Each queue of the topic that starves, or is about to, and why."""
    watched_since_ms = max(snapshot.state.watched_since_ms, topic_state.watched_since_ms)
    found = {}
    for name, queue_state in topic_state.queues.items():
        broker_name, _ = queue_order(name)
        since_ms = max(watched_since_ms, snapshot.broker_coverage.data_since_ms(broker_name) or 0)
        if starvation := diagnose(queue_state, evidence, since_ms, snapshot.rules, broker_name=broker_name):
            found[name] = starvation
    return found


def _is_offline(snapshot: GroupSnapshot, starvation: Starvation) -> bool:
    """Whether the queue starves because the group has no member, or had stopped before its members left."""
    has_left = not snapshot.last_heartbeat_ms
    return starvation.cause == GROUP_OFFLINE or (has_left and starvation.cause == CONSUME_STOPPED)


def keep_causes(
    starvations: Mapping[str, Starvation], blames: Mapping[str, Blame], members: Collection[str]
) -> dict[str, Starvation]:
    """Return the starvations, each with its reported cause (`blames`) unless a stronger one shows.

    What a trouble leaves behind looks like silence: locks that come late, a plan that changed. A cause that lies with a
    client is kept while the client is one of the `members`.
    """
    kept = dict(starvations)
    for name, starvation in starvations.items():
        known = blames.get(name)
        if known is None or starvation.cause == GROUP_OFFLINE:
            continue
        is_weaker = CAUSES.index(starvation.cause) > CAUSES.index(known.cause)
        if is_weaker and (known.client_id is None or known.client_id in members):
            kept[name] = replace(starvation, cause=known.cause, client_id=known.client_id or starvation.client_id)
    return kept


def reported_blames(incident: Incident | None) -> dict[str, Blame]:
    """Map each queue of the incident to its blame in the newest row. The evidence lists the first queues (alert.bound);
    the others have the incident's own.
    """
    if incident is None:
        return {}
    evidence, of_all = incident.evidence.get("queues", {}), Blame(incident.cause, incident.client_id)
    return {
        name: Blame(known["cause"] or incident.cause, known["client_id"]) if (known := evidence.get(name)) else of_all
        for name in incident.queues
    }


def _coming(topic_state: TopicState, starvations: Mapping[str, Starvation], evidence: Evidence) -> frozenset[str]:
    """Queues about to starve for a reason already known: a proven twin's slots, a frozen owner's queues."""
    frozen = {s.client_id for s in starvations.values() if s.cause == FROZEN_CLIENT}
    return frozenset(
        name
        for name, queue_state in topic_state.queues.items()
        if queue_state.verdict not in (UNOWNED, NOT_CONSUMED)
        and not is_pulled_anyway(queue_state)
        and (
            (queue_state.share.gap == DUPLICATE_CLIENT_ID and queue_state.share.slot_of in evidence.twin_ids)
            or queue_state.share.owner in frozen
        )
    )


def _still_silent(state: GroupState, topic_state: TopicState, blames: Mapping[str, Blame]) -> dict[str, Blame]:
    """The queues of the open incident that nobody has consumed since."""
    if not topic_state.is_shared:
        return {}
    return {
        name: blame
        for name, blame in blames.items()
        if (queue_state := topic_state.queues.get(name)) and _is_silent(state, queue_state, blame)
    }


def _is_silent(state: GroupState, queue_state: QueueState, blame: Blame) -> bool:
    """Not: a queue that another client owns now, whose pulls are not reported."""
    owner = queue_state.share.owner
    is_unreported = queue_state.reason == PULLS_NOT_REPORTED or is_never_heard(state, queue_state)
    if queue_state.verdict == UNKNOWN and is_unreported and owner:
        return owner == blame.client_id and not queue_state.pullers
    if queue_state.verdict == NOT_CONSUMED:
        return True
    return not queue_state.pullers and queue_state.verdict not in (NOT_JUDGED, OK)


def _starved_finding(
    snapshot: GroupSnapshot, topic: str, topic_state: TopicState, starved: StarvedTopic, blames: Mapping[str, Blame]
) -> Finding:
    """What other incidents explain in part only is reported by the cause of the rest, and not inhibited."""
    state = snapshot.state
    queues = {name: _queue_evidence(topic_state, name, starved, blames) for name in starved.queues}
    cause, client_id, inhibited_by = _blame(snapshot, starved, queues)
    addr = _addr_of(state.membership, client_id)
    strategies = snapshot.strategies(topic, topic_state)
    return Finding(
        kind=STARVED_QUEUE,
        cause=cause,
        severity="warning" if cause in WARNED else "critical",
        since_ms=starved.since_ms,
        text=prose.describe_starved_queue(
            state.cluster,
            state.consumer_group,
            topic,
            cause,
            starved.queues,
            starved.since_ms,
            client_id=client_id,
            client_addr=addr,
            backlog=_backlog(topic_state, starved.queues),
            strategies=strategies,
            came=_came(topic_state, starved.queues) if cause == CONSUME_STOPPED else 0,
            is_listed_again=cause == DUPLICATE_CLIENT_ID and client_id not in {one.client_id for one in snapshot.twins},
        ),
        labels={**snapshot.labels, "topic": topic},
        topic=topic,
        client_id=client_id,
        broker_name=names_of_brokers(starved.queues),
        queues=starved.queues,
        evidence={"client_addr": addr, "queues": queues, "strategies": strategies},
        inhibited_by=inhibited_by,
        is_ready=starved.is_ready,
    )


def _blame(
    snapshot: GroupSnapshot, starved: StarvedTopic, queues: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str | None, str | None]:
    """(cause, client_id, inhibited_by): all explained by open incidents, or the gravest cause that is not."""
    open_ones = {
        name: _explained_by(snapshot, reported["cause"], reported["client_id"]) for name, reported in queues.items()
    }
    rest = sorted(
        (gravity(queues[name]["cause"]), queues[name]["client_id"] or "")
        for name, incident_id in open_ones.items()
        if incident_id is None and queues[name]["cause"] in CAUSES
    )
    if rest and len(rest) < len(queues):
        (_, position), client_id = rest[0]
        return CAUSES[position], client_id or None, None
    inhibitor = None if rest else _explained_by(snapshot, starved.cause, starved.client_id)
    return starved.cause, starved.client_id, inhibitor


def _explained_by(snapshot: GroupSnapshot, cause: str | None, client_id: str | None) -> str | None:
    """The open incident that is the reason for a cause."""
    keys = {
        DUPLICATE_CLIENT_ID: f"{DUPLICATE_CLIENT_ID} {client_id}",
        GROUP_OFFLINE: GROUP_OFFLINE,
        SPLIT_VIEW: SPLIT_VIEW,
    }
    if cause == CONSUME_STOPPED and client_id is None:
        return snapshot.inhibitor(GROUP_OFFLINE)  # its members stopped first, and left afterwards
    return snapshot.inhibitor(keys[cause]) if cause in keys else None


def _addr_of(membership: Membership, client_id: str | None) -> str | None:
    addrs = sorted(member.client_addr for _, member in membership.members() if member.client_id == client_id)
    return addrs[0] if addrs else None


def _backlog(topic_state: TopicState, names: tuple[str, ...]) -> int | None:
    known = [
        queue_state.max_offset - queue_state.commit_offset
        for name in names
        if (queue_state := topic_state.queues[name]).max_offset is not None and queue_state.commit_offset is not None
    ]
    return sum(max(0, lag) for lag in known) if known else None


def _came(topic_state: TopicState, names: tuple[str, ...]) -> int:
    """Messages that came while the commits stood still."""
    known = (topic_state.queues[name].consumption for name in names)
    return sum(one.max_offset - one.first_max_offset for one in known if one is not None)


def _queue_evidence(
    topic_state: TopicState, name: str, starved: StarvedTopic, blames: Mapping[str, Blame]
) -> dict[str, Any]:
    """A queue that is only still silent keeps its reported blame."""
    queue_state, starvation = topic_state.queues[name], starved.causes.get(name)
    blame = Blame(starvation.cause, starvation.client_id) if starvation else blames.get(name)
    return {
        "cause": blame.cause if blame else None,
        "client_id": blame.client_id if blame else None,
        "planned_owner": queue_state.share.owner,
        "slot_of": queue_state.share.slot_of,
        "last_pull_ms": queue_state.last_pull_ms,
        "commit_offset": queue_state.commit_offset,
        "max_offset": queue_state.max_offset,
        **(_stands(queue_state) if starvation and starvation.cause == CONSUME_STOPPED else {}),
    }


def _stands(queue_state: QueueState) -> dict[str, Any]:
    """The commit and the end of the queue when the commit was last seen to move, and now."""
    known = queue_state.consumption
    if known is None:
        return {}
    then = {"time_ms": known.since_ms, "commit_offset": known.commit_offset, "max_offset": known.first_max_offset}
    return {"then": then, "now": {**then, "time_ms": known.reported_ms, "max_offset": known.max_offset}}
