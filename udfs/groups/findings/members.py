"""A group whose members are not as they should be: duplicate_client_id, inconsistent_subscription, group_offline,
client_id_at_risk, and split_view, where the brokers list different members or are about to.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from udfs.alerts.alert import Finding, wording
from udfs.alerts.phrase import phrase, some_of
from udfs.alerts.prose import clock, describe_duplicate_client_id, host_of, runs_of
from udfs.groups.diagnosis import GROUP_OFFLINE
from udfs.groups.findings.queues import STARVED_QUEUE, is_quiet
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, SPLIT_VIEW
from udfs.groups.queue_state import NOT_CONSUMED, NOT_JUDGED, UNOWNED, is_pulled_anyway, last_served_ms
from udfs.groups.snapshot import GroupSnapshot, split_condition
from udfs.groups.state import TopicState
from udfs.groups.verdict_reason import ASSIGNED, BROKER
from udfs.rocketmq.heartbeat import ANY
from udfs.rocketmq.membership import Member
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import is_own_group
from udfs.rocketmq.version import parse_client_version


def find_duplicates(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 1. A ClientId is duplicate when several live channels carry it; a finding each. Not duplicate: broadcasting
    clients, which carry `ip@DEFAULT` by design and share out nothing; a reconnect, whose first channel sends no
    heartbeat after the second appeared.
    """
    state = snapshot.state
    for client_id in sorted({twin.client_id for twin in snapshot.twins}):
        of_client = [twin for twin in snapshot.twins if twin.client_id == client_id]
        if not any(member.client_id == client_id for member in snapshot.judged_members):
            continue
        views = {twin.broker_name: list(twin.client_addrs) for twin in of_client}
        since_ms = min(twin.since_ms for twin in of_client)
        starved: dict[str, list[str]] = {}
        for topic, topic_state in sorted(state.topics.items()):
            for name, queue_state in topic_state.queues.items():
                share = queue_state.share
                is_slot = share.gap == DUPLICATE_CLIENT_ID and share.slot_of == client_id  # a later slot of the twin
                if is_slot and queue_state.verdict != NOT_JUDGED and not is_pulled_anyway(queue_state):
                    starved.setdefault(topic, []).append(name)
        topics = [topic for topic, _ in snapshot.shared_topics()]
        yield Finding(
            kind=DUPLICATE_CLIENT_ID,
            cause=DUPLICATE_CLIENT_ID,
            severity="critical" if starved else "warning",
            since_ms=since_ms,
            text=describe_duplicate_client_id(state.cluster, state.consumer_group, client_id, views, starved, since_ms),
            labels={**snapshot.labels, "client_id": client_id},
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


INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK = "inconsistent_subscription", "client_id_at_risk"

ASSIGNED_MS = 300_000
"""Who reads by assign() for less is a tool or a person."""

_IP_AND_PID = re.compile(r"((?:[0-9]{1,3}\.){3}[0-9]{1,3})@([0-9]+)")

_UNIQUE_SINCE = (4, 9, 0)
"""From here on Java's ClientIds carry nanoTime (ClientConfig.changeInstanceNameToPID)."""


def find_inconsistent_subscription(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 7. A group's subscription is inconsistent when members subscribe different topics or expressions. Each
    heartbeat then replaces what the broker knows of the group, and messages are filtered by the wrong expression. Not
    inconsistent: members whose heartbeats are late, as in a roll-out.
    """
    reported: dict[str, dict[str, str]] = {}
    for member in snapshot.judged_members:
        if member.has_reported_topics and member.client_id not in snapshot.late:
            reported[member.client_id] = {
                topic: member.filters.get(topic, ANY) for topic in member.topics if not topic.startswith("%RETRY%")
            }
    kinds = Counter(tuple(sorted(subscription.items())) for subscription in reported.values())
    since_ms = snapshot.since(INCONSISTENT_SUBSCRIPTION, len(kinds) > 1)
    if since_ms is None:
        return
    usual = min(kinds, key=lambda kind: (-kinds[kind], kind))
    odd = sorted(
        client_id for client_id, subscription in reported.items() if tuple(sorted(subscription.items())) != usual
    )
    example, expected = reported[odd[0]], dict(usual)
    differing = sorted(topic for topic in expected.keys() | example.keys() if expected.get(topic) != example.get(topic))
    differs = [
        phrase("{topic} ({subscribed} instead of {expected})").given(
            topic=topic,
            subscribed=example.get(topic, phrase("not subscribed")),
            expected=expected.get(topic, phrase("none")),
        )
        for topic in differing
    ]
    effects = [f"{STARVED_QUEUE} {topic}" for topic, _ in snapshot.shared_topics()]
    explained = [key for key in effects if (one := snapshot.incident(key)) and one.cause == MEMBER_NOT_SUBSCRIBED]
    yield Finding(
        kind=INCONSISTENT_SUBSCRIPTION,
        cause=INCONSISTENT_SUBSCRIPTION,
        severity="warning",
        since_ms=since_ms,
        text=wording(
            "Members of {group} have different subscriptions: {client_ids}, on {differs}. Each heartbeat replaces "
            "the group's subscription at the broker, so messages are skipped or topics are not read.",
            "Give all members the same topics and expressions, or move {client_ids} to another group.",
        ).given(group=snapshot.where, client_ids=some_of(odd), differs=differs),
        labels=snapshot.labels,
        client_id=odd[0] if len(odd) == 1 else None,
        evidence={"usual": expected, "others": {client_id: reported[client_id] for client_id in odd}},
        inhibited_by=snapshot.inhibitor(*explained),
        is_ready=snapshot.is_settled(since_ms),
    )


def find_group_offline(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 2. A group is offline when members of it consumed a topic, however they did, and none is left. What arrives
    meanwhile waits, or is lost to a broadcasting group.

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
        return
    topics = sorted(waiting)
    last_ms = max(last_served_ms(queue_state) for one in waiting.values() for queue_state in one.queues.values())
    started_ms = min(since_ms, max(last_ms, state.watched_since_ms)) if last_ms else since_ms
    yield Finding(
        kind=GROUP_OFFLINE,
        cause=GROUP_OFFLINE,
        severity="warning",
        since_ms=started_ms,
        text=wording(
            "No member of {group} has been connected since {time}, so no client consumes {topics} for it.",
            "Start a consumer of group {consumer_group}. After a day without members the group counts as given up.",
        ).given(
            group=snapshot.where, time=clock(started_ms), topics=some_of(topics), consumer_group=state.consumer_group
        ),
        labels=snapshot.labels,
        topic=topics[0] if len(topics) == 1 else None,
        evidence={"topics": topics},
        is_ready=snapshot.is_settled(since_ms)
        and not any(_is_consumed(snapshot, topic_state) for topic_state in waiting.values()),
        under=tuple(sorted({name for topic in topics for name in snapshot.routes[topic].broker_names()})),
    )


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


def find_client_ids_at_risk(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 11. A group's ClientIds are at risk when they differ by luck only, one restart away from twins.
    Containers on several hosts have an address and a pid each from their own Docker, and the ClientId is made of both;
    so has a placeholder that nobody filled in (`${...}@...`). Not at risk: a group that has twins already (kind 1).
    """
    has_twins = [f"{DUPLICATE_CLIENT_ID} {twins.client_id}" for twins in snapshot.twins]
    if has_twins and not snapshot.incident(CLIENT_ID_AT_RISK):
        snapshot.since(CLIENT_ID_AT_RISK, holds=False)
        return
    addrs = {member.client_id: member.client_addr for member in snapshot.judged_members}
    at_risk = _one_restart_from_twins(snapshot.judged_members) | {one for one in addrs if "${" in one}
    since_ms = snapshot.since(CLIENT_ID_AT_RISK, bool(at_risk))
    if since_ms is None:
        return
    client_ids = sorted(at_risk)
    who = some_of([phrase("{client_id} on {host}", client_id=one, host=host_of(addrs[one])) for one in client_ids])
    yield Finding(
        kind=CLIENT_ID_AT_RISK,
        cause=CLIENT_ID_AT_RISK,
        severity="info",
        since_ms=since_ms,
        text=wording(
            "ClientIds of {group} are unique only by chance: {clients}. They consist of a container's address and "
            "pid, so after a restart two clients may share a ClientId, and some queues would have no consumer.",
            "Give each process its own instanceName, or use rocketmq-client 4.9.0 or newer, which adds nanoTime.",
        ).given(group=snapshot.where, clients=who),
        labels=snapshot.labels,
        client_id=client_ids[0] if len(client_ids) == 1 else None,
        evidence={"client_addrs": {client_id: addrs[client_id] for client_id in client_ids}},
        inhibited_by=snapshot.inhibitor(*has_twins),
        is_ready=snapshot.is_settled(since_ms),
    )


def _one_restart_from_twins(members: Iterable[Member]) -> set[str]:
    """Ids of one pid (or one address) on different hosts, whose address is not their host's."""
    seen: dict[str, dict[str, set[str]]] = {}
    for member in members:
        match = _IP_AND_PID.fullmatch(member.client_id)
        host = member.client_addr.rpartition(":")[0]
        is_old = member.language != "JAVA" or parse_client_version(member.client_version) < _UNIQUE_SINCE
        if match and is_old and match[1] != host:
            for part in (f"ip {match[1]}", f"pid {match[2]}"):
                seen.setdefault(part, {}).setdefault(host, set()).add(member.client_id)
    risky = (hosts for hosts in seen.values() if len(hosts) > 1 and len(set().union(*hosts.values())) > 1)
    return {client_id for hosts in risky for ids in hosts.values() for client_id in ids}


def find_split_view(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 3. A group's view is split when brokers list different members for settle_ms. Each client asks a
    random broker at each rebalance. A client that heartbeats at one broker and has fallen silent at another splits the
    view at once: the client's queues at the other have no puller already, and that broker forgets the client after 120
    s. Not split: twins that one broker lists more often than another.
    """
    lacking = _lacking(snapshot)
    pairs = {(name, client_id) for found in (lacking, snapshot.cut_off) for name in found for client_id in found[name]}
    since = {pair: snapshot.since(split_condition(*pair), holds=True) or snapshot.now_ms for pair in sorted(pairs)}
    held = {split_condition(*pair) for pair in pairs}
    for condition in [name for name in snapshot.state.conditions if name.startswith(f"{SPLIT_VIEW}|")]:
        snapshot.since(condition, condition in held)  # in a roll-out another client is missing at each tick
    if not since:
        return
    sure = {
        (name, client_id)
        for name, client_id in pairs
        if client_id in snapshot.cut_off.get(name, ()) or snapshot.is_settled(since[name, client_id])
    }
    missing: dict[str, list[str]] = {}
    for broker_name, client_id in sorted(sure or pairs):
        missing.setdefault(broker_name, []).append(client_id)
    since_ms = min(since[pair] for pair in sure or pairs)
    starving = _starving(snapshot)
    views = {
        name: sorted(member.client_id for member in view.values())
        for name, view in sorted(snapshot.state.membership.views.items())
    }
    lacks = [
        phrase("{broker_name} lacks {client_ids}", broker_name=name, client_ids=some_of(client_ids))
        for name, client_ids in sorted(missing.items())
    ]
    effect = phrase(" No client consumes {queues}.", queues=runs_of(starving)) if starving else ""
    yield Finding(
        kind=SPLIT_VIEW,
        cause=SPLIT_VIEW,
        severity="critical" if starving else "warning",
        since_ms=since_ms,
        text=wording(
            "The brokers have listed different members of {group} since {time}: {lacks}. Each client asks a random "
            "broker at each rebalance, so queues change owners, have two owners or none.{effect}",
            "Check the network between the missing clients and {brokers}; a restarted client registers again.",
        ).given(group=snapshot.where, time=clock(since_ms), lacks=lacks, effect=effect, brokers=sorted(missing)),
        labels=snapshot.labels,
        broker_name=",".join(missing),
        queues=starving,
        evidence={"views": views, "missing": missing},
        is_ready=bool(sure),
    )


def _starving(snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Return the queues without a puller whose owner uses another list, or cannot reach their broker."""
    names = set()
    for topic, topic_state in snapshot.shared_topics():
        if not is_quiet(topic_state):
            continue
        evidence = snapshot.evidence(topic, topic_state)
        for name, queue_state in topic_state.queues.items():
            owner, cut_off = queue_state.share.owner or "", evidence.cut_off.get(queue_order(name)[0], ())
            if queue_state.verdict in (UNOWNED, NOT_CONSUMED) and (
                owner in cut_off or evidence.explained.get(owner) == SPLIT_VIEW
            ):
                names.add(name)
    return tuple(sorted(names, key=queue_order))


def _lacking(snapshot: GroupSnapshot) -> dict[str, list[str]]:
    """Broker → ClientIds that it should list and does not: those alive that subscribe a topic it serves."""
    views = snapshot.state.membership.views
    masters = {topic: route.broker_names() - set(route.without_master) for topic, route in snapshot.routes.items()}
    brokers = set().union(*masters.values())
    listed = {name: {member.client_id for member in views.get(name, {}).values()} for name in brokers}
    if len({frozenset(client_ids) for client_ids in listed.values()}) < 2:
        return {}
    topics = {member.client_id: member.topics for member in snapshot.judged_members}
    expected: dict[str, set[str]] = {}
    for client_id in topics.keys() - snapshot.late:
        for topic in topics[client_id]:
            for broker_name in masters.get(topic, ()):
                expected.setdefault(broker_name, set()).add(client_id)
    lacking = {}
    for broker_name, client_ids in sorted(expected.items()):
        is_on_time = any(member.last_heartbeat_ms > snapshot.late_ms for member in views.get(broker_name, {}).values())
        is_reached = is_on_time and broker_name not in snapshot.broker_coverage.silent
        is_heard = is_reached or broker_name in snapshot.broker_coverage.answered
        unlisted = client_ids - listed[broker_name]
        if unlisted and is_heard and broker_name not in snapshot.broker_coverage.without_data:
            lacking[broker_name] = sorted(unlisted)
    return lacking
