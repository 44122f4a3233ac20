"""starved_queue: the queues of a topic that nobody consumes, with the cause of each."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from udfs import prose
from udfs.alert import Finding, Incident
from udfs.diagnosis import (
    CAUSES,
    CONSUME_STOPPED,
    FROZEN_CLIENT,
    GROUP_OFFLINE,
    Evidence,
    Starvation,
    StarvedTopic,
    diagnose,
    gather,
)
from udfs.explanation import SPLIT_VIEW
from udfs.findings.duplicates import is_pulled_anyway
from udfs.membership import Membership
from udfs.model import queue_order
from udfs.ownership import NOT_JUDGED, OK, SILENT, STARVED, QueueWatch
from udfs.plan import DUPLICATE_CLIENT_ID, WRITE_ONLY_QUEUE, names_of_brokers
from udfs.scene import Findings, Scene
from udfs.watch import TopicWatch

STARVED_QUEUE = "starved_queue"

WARNED = (GROUP_OFFLINE, WRITE_ONLY_QUEUE)
"""Causes that are as often meant as not: a group that was shut down, a topic that is being scaled."""


def find_starved(scene: Scene) -> Findings:
    """A finding a topic with starved queues, by `starved_queue TOPIC`.

    A queue of the open incident stays in it until somebody pulls: a new plan alone ends nothing.
    """
    findings = {}
    for topic, watched in sorted(scene.state.topics.items()):
        incident = scene.incident(f"{STARVED_QUEUE} {topic}")
        if incident is None and not is_quiet(watched):
            continue
        evidence = scene.evidence(topic, watched)
        starvations = _keep_causes(diagnose_topic(scene, watched, evidence), incident)
        starved = gather(
            starvations,
            _coming(watched, starvations, evidence),
            _still_silent(watched, incident),
            incident.cause if incident else None,
            scene.now_ms,
            scene.rules,
        )
        if starved is not None:
            findings[f"{STARVED_QUEUE} {topic}"] = _starved_finding(scene, topic, watched, starved, incident)
    return findings


def is_quiet(watched: TopicWatch) -> bool:
    """Whether nobody pulls some queue: most groups, at most ticks, need no more than this."""
    return any(watch.verdict in (STARVED, SILENT) for watch in watched.queues.values())


def diagnose_topic(scene: Scene, watched: TopicWatch, evidence: Evidence) -> dict[str, Starvation]:
    """Each queue of the topic that starves, or is about to, and why."""
    watched_since_ms = max(scene.state.watched_since_ms, watched.watched_since_ms)
    found = {}
    for name, watch in watched.queues.items():
        broker_name, _ = queue_order(name)
        since_ms = max(watched_since_ms, scene.hearing.heard_since_ms(broker_name) or 0)
        if starvation := diagnose(watch, evidence, since_ms, scene.rules, broker_name=broker_name):
            found[name] = starvation
    return found


def _keep_causes(starvations: dict[str, Starvation], incident: Incident | None) -> dict[str, Starvation]:
    """A queue that nobody has pulled since its cause was told keeps that cause, unless a stronger one shows.

    What a trouble leaves behind looks like silence: locks that come late, a plan that changed.
    """
    told = _told(incident)
    untold: dict[str, Any] = {"cause": incident.cause, "client_id": incident.client_id} if incident else {}
    unlisted = frozenset(incident.queues) - told.keys() if incident else frozenset()
    kept = {}
    for name, starvation in starvations.items():
        before = told.get(name) or (untold if name in unlisted else {})
        known = before.get("cause")
        is_stronger = starvation.cause == GROUP_OFFLINE
        if known is None or is_stronger or CAUSES.index(starvation.cause) <= CAUSES.index(known):
            kept[name] = starvation
        else:
            kept[name] = replace(starvation, cause=known, client_id=before["client_id"] or starvation.client_id)
    return kept


def _told(incident: Incident | None) -> Mapping[str, Any]:
    """Queue → its evidence when it was last told, of the first queues (alert.bound)."""
    return incident.evidence.get("queues", {}) if incident else {}


def _coming(watched: TopicWatch, starvations: Mapping[str, Starvation], evidence: Evidence) -> frozenset[str]:
    """Queues about to starve for a reason already known: a proven twin's slots, a frozen owner's queues."""
    frozen = {s.client_id for s in starvations.values() if s.cause == FROZEN_CLIENT}
    return frozenset(
        name
        for name, watch in watched.queues.items()
        if watch.verdict not in (STARVED, SILENT)
        and not is_pulled_anyway(watch)
        and (
            (watch.share.gap == DUPLICATE_CLIENT_ID and watch.share.slot_of in evidence.twin_ids)
            or watch.share.owner in frozen
        )
    )


def _still_silent(watched: TopicWatch, incident: Incident | None) -> frozenset[str]:
    if incident is None or not watched.is_shared:
        return frozenset()
    return frozenset(
        name
        for name in incident.queues
        if (watch := watched.queues.get(name))
        and (watch.verdict == SILENT or (not watch.pullers and watch.verdict not in (NOT_JUDGED, OK)))
    )


def _starved_finding(
    scene: Scene, topic: str, watched: TopicWatch, starved: StarvedTopic, incident: Incident | None
) -> Finding:
    """What other incidents explain in part only is told by the cause of the rest, and not suppressed."""
    state = scene.state
    queues = {name: _queue_evidence(watched, name, starved, incident) for name in starved.queues}
    cause, client_id, suppressed_by = _blame(scene, starved, queues)
    addr = _addr_of(state.membership, client_id)
    strategies = scene.strategies(topic, watched)
    return Finding(
        kind=STARVED_QUEUE,
        cause=cause,
        severity="warning" if cause in WARNED else "critical",
        since_ms=starved.since_ms,
        text=prose.tell_starved_queue(
            state.cluster,
            state.consumer_group,
            topic,
            cause,
            starved.queues,
            starved.since_ms,
            client_id=client_id,
            client_addr=addr,
            backlog=_backlog(watched, starved.queues),
            strategies=strategies,
            came=_came(watched, starved.queues) if cause == CONSUME_STOPPED else 0,
        ),
        labels={**scene.labels, "topic": topic},
        topic=topic,
        client_id=client_id,
        broker_name=names_of_brokers(starved.queues),
        queues=starved.queues,
        evidence={"client_addr": addr, "queues": queues, "strategies": strategies},
        suppressed_by=suppressed_by,
        is_ready=starved.is_ready,
    )


def _blame(
    scene: Scene, starved: StarvedTopic, queues: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str | None, str | None]:
    """(cause, client_id, suppressed_by): all explained by open incidents, or the strongest cause that is not."""
    open_ones = {name: _explained_by(scene, told["cause"], told["client_id"]) for name, told in queues.items()}
    rest = sorted(
        (CAUSES.index(queues[name]["cause"]), queues[name]["client_id"] or "")
        for name, incident_id in open_ones.items()
        if incident_id is None and queues[name]["cause"] in CAUSES
    )
    if rest and len(rest) < len(queues):
        position, client_id = rest[0]
        return CAUSES[position], client_id or None, None
    suppressor = None if rest else _explained_by(scene, starved.cause, starved.client_id)
    return starved.cause, starved.client_id, suppressor


def _explained_by(scene: Scene, cause: str | None, client_id: str | None) -> str | None:
    """The open incident that is the reason for a cause."""
    keys = {
        DUPLICATE_CLIENT_ID: f"{DUPLICATE_CLIENT_ID} {client_id}",
        GROUP_OFFLINE: GROUP_OFFLINE,
        SPLIT_VIEW: SPLIT_VIEW,
    }
    return scene.suppressor(keys[cause]) if cause in keys else None


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


def _came(watched: TopicWatch, names: tuple[str, ...]) -> int:
    """Messages that came while the commits stood still."""
    known = (watched.queues[name].consumption for name in names)
    return sum(one.max_offset - one.first_max_offset for one in known if one is not None)


def _queue_evidence(watched: TopicWatch, name: str, starved: StarvedTopic, incident: Incident | None) -> dict[str, Any]:
    """A queue that is only still silent keeps what was told of it."""
    watch, starvation = watched.queues[name], starved.causes.get(name)
    told = _told(incident).get(name, {})
    if not told and starvation is None and incident is not None:
        told = {"cause": incident.cause, "client_id": incident.client_id}
    return {
        "cause": starvation.cause if starvation else told.get("cause"),
        "client_id": starvation.client_id if starvation else told.get("client_id"),
        "planned_owner": watch.share.owner,
        "slot_of": watch.share.slot_of,
        "last_pull_ms": watch.last_pull_ms,
        "commit_offset": watch.commit_offset,
        "max_offset": watch.max_offset,
        **(_stands(watch) if starvation and starvation.cause == CONSUME_STOPPED else {}),
    }


def _stands(watch: QueueWatch) -> dict[str, Any]:
    """The commit and the end of the queue when the commit was last seen to move, and now."""
    known = watch.consumption
    if known is None:
        return {}
    then = {"time_ms": known.since_ms, "commit_offset": known.commit_offset, "max_offset": known.first_max_offset}
    return {"then": then, "now": {**then, "time_ms": known.told_ms, "max_offset": known.max_offset}}
