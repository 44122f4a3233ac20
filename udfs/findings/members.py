"""inconsistent_subscription, group_offline, client_id_at_risk: a group whose members are not as they should be."""

import re
from collections import Counter
from collections.abc import Iterable

from udfs.alert import Finding
from udfs.diagnosis import GROUP_OFFLINE
from udfs.findings import prose
from udfs.findings.starved import STARVED_QUEUE
from udfs.membership import Member
from udfs.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED
from udfs.scene import Findings, Scene
from udfs.version import parse_client_version
from udfs.watch import TopicWatch

INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK = "inconsistent_subscription", "client_id_at_risk"

_IP_AND_PID = re.compile(r"((?:[0-9]{1,3}\.){3}[0-9]{1,3})@([0-9]+)")

_UNIQUE_SINCE = (4, 9, 0)
"""From here on Java's ClientIds carry nanoTime (ClientConfig.changeInstanceNameToPID)."""


def find_inconsistent_subscription(scene: Scene) -> Findings:
    """Members subscribe different topics or expressions: `inconsistent_subscription`.

    Each heartbeat then replaces what the broker knows of the group, and messages are filtered by the wrong one.
    """
    told: dict[str, dict[str, str]] = {}
    for _, member in scene.judged_members():
        if member.has_told_topics and member.client_id not in scene.late:
            told[member.client_id] = {topic: member.filters.get(topic, "TAG *") for topic in _own_topics(member)}
    kinds = Counter(tuple(sorted(subscription.items())) for subscription in told.values())
    since_ms = scene.since(INCONSISTENT_SUBSCRIPTION, len(kinds) > 1)
    if since_ms is None:
        return {}
    usual = min(kinds, key=lambda kind: (-kinds[kind], kind))
    odd = sorted(client_id for client_id, subscription in told.items() if tuple(sorted(subscription.items())) != usual)
    effects = [f"{STARVED_QUEUE} {topic}" for topic, _ in scene.shared_topics()]
    explained = [key for key in effects if (one := scene.incident(key)) and one.cause == MEMBER_NOT_SUBSCRIBED]
    return {
        INCONSISTENT_SUBSCRIPTION: Finding(
            kind=INCONSISTENT_SUBSCRIPTION,
            cause=INCONSISTENT_SUBSCRIPTION,
            severity="warning",
            since_ms=since_ms,
            text=prose.tell_inconsistent_subscription(scene.labels, odd, {cid: told[cid] for cid in odd}, dict(usual)),
            labels=scene.labels,
            client_id=odd[0] if len(odd) == 1 else None,
            evidence={"usual": dict(usual), "others": {client_id: told[client_id] for client_id in odd}},
            suppressed_by=scene.suppressor(*explained),
            is_ready=scene.is_settled(since_ms),
        )
    }


def _own_topics(member: Member) -> list[str]:
    return [topic for topic in member.topics if not topic.startswith("%RETRY%")]


def find_group_offline(scene: Scene) -> Findings:
    """A group that shared queues out has no member left: `group_offline`.

    Not: one that was replaced (families), nor one that consumes, though its heartbeats are not told any more.
    """
    state = scene.state
    waiting = {topic: watched for topic, watched in scene.shared_topics() if watched.queues and topic in scene.routes}
    since_ms = scene.since(GROUP_OFFLINE, state.membership.is_empty() and bool(waiting) and not state.is_replaced)
    if since_ms is None:
        return {}
    topics = sorted(waiting)
    last_ms = max((watch.last_pull_ms or 0 for one in waiting.values() for watch in one.queues.values()), default=0)
    started_ms = min(since_ms, max(last_ms, state.watched_since_ms))
    return {
        GROUP_OFFLINE: Finding(
            kind=GROUP_OFFLINE,
            cause=GROUP_OFFLINE,
            severity="warning",
            since_ms=started_ms,
            text=prose.tell_group_offline(scene.labels, topics, started_ms),
            labels=scene.labels,
            topic=topics[0] if len(topics) == 1 else None,
            evidence={"topics": topics},
            is_ready=scene.is_settled(since_ms)
            and not any(_is_consumed(scene, watched) for watched in waiting.values()),
            under=tuple(sorted({name for topic in topics for name in scene.routes[topic].broker_names()})),
        )
    }


def _is_consumed(scene: Scene, watched: TopicWatch) -> bool:
    """Whether somebody pulls one of the topic's queues, or its commit advances."""
    lately_ms = scene.now_ms - scene.rules.pull_silence_ms
    return any(
        watch.pullers or (watch.consumption is not None and watch.consumption.was_consumed_after(lately_ms))
        for watch in watched.queues.values()
    )


def find_client_ids_at_risk(scene: Scene) -> Findings:
    """ClientIds that differ by luck only, one restart away from twins: `client_id_at_risk`.

    Containers on several hosts have an address and a pid each from their own Docker; the ClientId is made of both.
    Also a placeholder that nobody filled in (`${...}@...`). A prediction: where twins have come already it is not made.
    """
    has_twins = [f"{DUPLICATE_CLIENT_ID} {twins.client_id}" for twins in scene.twins]
    if has_twins and not scene.incident(CLIENT_ID_AT_RISK):
        scene.since(CLIENT_ID_AT_RISK, holds=False)
        return {}
    addrs = {member.client_id: member.client_addr for _, member in scene.judged_members()}
    at_risk = _one_restart_from_twins(scene.judged_members()) | {client_id for client_id in addrs if "${" in client_id}
    since_ms = scene.since(CLIENT_ID_AT_RISK, bool(at_risk))
    if since_ms is None:
        return {}
    client_ids = sorted(at_risk)
    return {
        CLIENT_ID_AT_RISK: Finding(
            kind=CLIENT_ID_AT_RISK,
            cause=CLIENT_ID_AT_RISK,
            severity="info",
            since_ms=since_ms,
            text=prose.tell_client_id_at_risk(scene.labels, {one: addrs[one] for one in client_ids}),
            labels=scene.labels,
            client_id=client_ids[0] if len(client_ids) == 1 else None,
            evidence={"client_addrs": {client_id: addrs[client_id] for client_id in client_ids}},
            suppressed_by=scene.suppressor(*has_twins),
            is_ready=scene.is_settled(since_ms),
        )
    }


def _one_restart_from_twins(members: Iterable[tuple[str, Member]]) -> set[str]:
    """Ids of one pid (or one address) on different hosts, whose address is not their host's."""
    seen: dict[str, dict[str, set[str]]] = {}
    for _, member in members:
        match = _IP_AND_PID.fullmatch(member.client_id)
        host = member.client_addr.rpartition(":")[0]
        is_old = member.language != "JAVA" or parse_client_version(member.client_version) < _UNIQUE_SINCE
        if match and is_old and match[1] != host:
            for part in (f"ip {match[1]}", f"pid {match[2]}"):
                seen.setdefault(part, {}).setdefault(host, set()).add(member.client_id)
    risky = (hosts for hosts in seen.values() if len(hosts) > 1 and len(set().union(*hosts.values())) > 1)
    return {client_id for hosts in risky for ids in hosts.values() for client_id in ids}
