"""inconsistent_subscription, group_offline, client_id_at_risk: a group whose members are not as they should be."""

import re
from collections import Counter
from collections.abc import Iterable

from udfs.alerts.alert import Finding
from udfs.groups.diagnosis import GROUP_OFFLINE
from udfs.groups.findings import prose
from udfs.groups.findings.starved import STARVED_QUEUE
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED
from udfs.groups.queue_state import last_served_ms
from udfs.groups.snapshot import Findings, GroupSnapshot
from udfs.groups.state import TopicState
from udfs.groups.verdict_reason import ASSIGNED, BROKER
from udfs.rocketmq.heartbeat import ANY
from udfs.rocketmq.membership import Member
from udfs.rocketmq.own_names import is_own_group
from udfs.rocketmq.version import parse_client_version

INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK = "inconsistent_subscription", "client_id_at_risk"

ASSIGNED_MS = 300_000
"""Who reads by assign() for less is a tool or a person."""

_IP_AND_PID = re.compile(r"((?:[0-9]{1,3}\.){3}[0-9]{1,3})@([0-9]+)")

_UNIQUE_SINCE = (4, 9, 0)
"""From here on Java's ClientIds carry nanoTime (ClientConfig.changeInstanceNameToPID)."""


def find_inconsistent_subscription(snapshot: GroupSnapshot) -> Findings:
    """Kind 7. A group's subscription is inconsistent when members subscribe different topics or expressions:
    `inconsistent_subscription`. Each heartbeat then replaces what the broker knows of the group, and messages are
    filtered by the wrong expression. Not inconsistent: members whose heartbeats are late, as in a roll-out.
    """
    reported: dict[str, dict[str, str]] = {}
    for _, member in snapshot.judged_members():
        if member.has_reported_topics and member.client_id not in snapshot.late:
            reported[member.client_id] = {topic: member.filters.get(topic, ANY) for topic in _own_topics(member)}
    kinds = Counter(tuple(sorted(subscription.items())) for subscription in reported.values())
    since_ms = snapshot.since(INCONSISTENT_SUBSCRIPTION, len(kinds) > 1)
    if since_ms is None:
        return {}
    usual = min(kinds, key=lambda kind: (-kinds[kind], kind))
    odd = sorted(
        client_id for client_id, subscription in reported.items() if tuple(sorted(subscription.items())) != usual
    )
    effects = [f"{STARVED_QUEUE} {topic}" for topic, _ in snapshot.shared_topics()]
    explained = [key for key in effects if (one := snapshot.incident(key)) and one.cause == MEMBER_NOT_SUBSCRIBED]
    return {
        INCONSISTENT_SUBSCRIPTION: Finding(
            kind=INCONSISTENT_SUBSCRIPTION,
            cause=INCONSISTENT_SUBSCRIPTION,
            severity="warning",
            since_ms=since_ms,
            text=prose.describe_inconsistent_subscription(
                snapshot.labels, odd, {cid: reported[cid] for cid in odd}, dict(usual)
            ),
            labels=snapshot.labels,
            client_id=odd[0] if len(odd) == 1 else None,
            evidence={"usual": dict(usual), "others": {client_id: reported[client_id] for client_id in odd}},
            inhibited_by=snapshot.inhibitor(*explained),
            is_ready=snapshot.is_settled(since_ms),
        )
    }


def _own_topics(member: Member) -> list[str]:
    return [topic for topic in member.topics if not topic.startswith("%RETRY%")]


def find_group_offline(snapshot: GroupSnapshot) -> Findings:
    """Kind 2. A group is offline when members of it consumed a topic and none is left: `group_offline`. However they
    consumed: being offline needs no rebalance. What arrives meanwhile waits, or is lost to a broadcasting group.

    Not offline: a group that was replaced (udfs.brokers.families); a group that consumes without any known heartbeat; a
    group of RocketMQ's own; one that read by assign() for less than ASSIGNED_MS, as ad-hoc tools do.
    """
    state = snapshot.state
    waiting = {
        topic: topic_state
        for topic, topic_state in sorted(state.topics.items())
        if topic_state.queues and topic in snapshot.routes and _needs_members(state.consumer_group, topic_state)
    }
    since_ms = snapshot.since(GROUP_OFFLINE, state.membership.is_empty() and bool(waiting) and not state.is_replaced)
    if since_ms is None:
        return {}
    topics = sorted(waiting)
    last_ms = max(last_served_ms(queue_state) for one in waiting.values() for queue_state in one.queues.values())
    started_ms = min(since_ms, max(last_ms, state.watched_since_ms)) if last_ms else since_ms
    return {
        GROUP_OFFLINE: Finding(
            kind=GROUP_OFFLINE,
            cause=GROUP_OFFLINE,
            severity="warning",
            since_ms=started_ms,
            text=prose.describe_group_offline(snapshot.labels, topics, started_ms),
            labels=snapshot.labels,
            topic=topics[0] if len(topics) == 1 else None,
            evidence={"topics": topics},
            is_ready=snapshot.is_settled(since_ms)
            and not any(_is_consumed(snapshot, topic_state) for topic_state in waiting.values()),
            under=tuple(sorted({name for topic in topics for name in snapshot.routes[topic].broker_names()})),
        )
    }


def _needs_members(consumer_group: str, topic_state: TopicState) -> bool:
    if topic_state.is_shared:
        return True
    if topic_state.unjudged in (None, BROKER) or is_own_group(consumer_group):
        return False
    if topic_state.unjudged != ASSIGNED:
        return True
    last_ms = max(queue_state.last_pull_ms or 0 for queue_state in topic_state.queues.values())
    return last_ms >= (topic_state.first_pull_ms or last_ms) + ASSIGNED_MS


def _is_consumed(snapshot: GroupSnapshot, topic_state: TopicState) -> bool:
    """Whether somebody pulls one of the topic's queues, or its commit advances."""
    lately_ms = snapshot.now_ms - snapshot.rules.pull_silence_ms
    return any(
        queue_state.pullers
        or (queue_state.consumption is not None and queue_state.consumption.was_consumed_after(lately_ms))
        for queue_state in topic_state.queues.values()
    )


def find_client_ids_at_risk(snapshot: GroupSnapshot) -> Findings:
    """Kind 11. A group's ClientIds are at risk when they differ by luck only, one restart away from twins:
    `client_id_at_risk`. Containers on several hosts have an address and a pid each from their own Docker, and the
    ClientId is made of both; so has a placeholder that nobody filled in (`${...}@...`). Not at risk: a group that has
    twins already, which kind 1 tells.
    """
    has_twins = [f"{DUPLICATE_CLIENT_ID} {twins.client_id}" for twins in snapshot.twins]
    if has_twins and not snapshot.incident(CLIENT_ID_AT_RISK):
        snapshot.since(CLIENT_ID_AT_RISK, holds=False)
        return {}
    addrs = {member.client_id: member.client_addr for _, member in snapshot.judged_members()}
    at_risk = _one_restart_from_twins(snapshot.judged_members()) | {
        client_id for client_id in addrs if "${" in client_id
    }
    since_ms = snapshot.since(CLIENT_ID_AT_RISK, bool(at_risk))
    if since_ms is None:
        return {}
    client_ids = sorted(at_risk)
    return {
        CLIENT_ID_AT_RISK: Finding(
            kind=CLIENT_ID_AT_RISK,
            cause=CLIENT_ID_AT_RISK,
            severity="info",
            since_ms=since_ms,
            text=prose.describe_client_id_at_risk(snapshot.labels, {one: addrs[one] for one in client_ids}),
            labels=snapshot.labels,
            client_id=client_ids[0] if len(client_ids) == 1 else None,
            evidence={"client_addrs": {client_id: addrs[client_id] for client_id in client_ids}},
            inhibited_by=snapshot.inhibitor(*has_twins),
            is_ready=snapshot.is_settled(since_ms),
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
