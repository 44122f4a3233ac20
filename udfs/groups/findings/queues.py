"""Queues that are not consumed as they should be: starved_queue with the cause of each queue, stalled_queue,
double_consumed_queue, offset_regression.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from udfs.alerts.alert import Finding, Incident, wording
from udfs.alerts.phrase import phrase, plural, some_of
from udfs.alerts.prose import Reason, clock, describe_starved_queue, number_of, runs_of
from udfs.alerts.rules import REBALANCE_MS
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
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MIXED_STRATEGY, SPLIT_VIEW, STALE_ROUTE, are_mixed, names_of_brokers
from udfs.groups.queue_state import (
    DOUBLE_CONSUMED,
    NOT_CONSUMED,
    NOT_JUDGED,
    OK,
    UNKNOWN,
    UNOWNED,
    QueueState,
    is_pulled_anyway,
)
from udfs.groups.snapshot import GroupSnapshot, is_never_heard
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import PULLS_NOT_REPORTED
from udfs.groups.verdicts import find_doublings
from udfs.rocketmq.model import queue_order

STARVED_QUEUE, STALLED_QUEUE = "starved_queue", "stalled_queue"
DOUBLE_CONSUMED_QUEUE, OFFSET_REGRESSION = "double_consumed_queue", "offset_regression"

ROUTE_POLL_MS = 30_000
"""How often a client polls the route of a topic. Source: ClientConfig.pollNameServerInterval, 5.5.0."""

UNEXPLAINED = "unexplained"

DOUBLE_CONSUMPTION = {
    DUPLICATE_CLIENT_ID: wording(
        "they share one ClientId, and each takes its share",
        "Give each process its own ClientId (instanceName), then restart it.",
    ),
    MIXED_STRATEGY: wording(
        "the members use different allocation strategies",
        "Give all members the same AllocateMessageQueueStrategy and SDK; restart those that differ.",
    ),
    SPLIT_VIEW: wording(
        "they use the member lists of different brokers",
        "Find the broker that one of them cannot reach; the lists agree once its heartbeats arrive.",
    ),
    STALE_ROUTE: wording(
        "one of them still uses the topic's old route", "Restart the client that still uses the old route."
    ),
    UNEXPLAINED: wording(
        "unknown; neither the member lists nor the strategies explain it",
        "Compare the members' strategies, versions and ClientIds; stop the client that does not belong there.",
    ),
}
"""Cause → its reason and advice."""


class Blame(NamedTuple):
    """The cause of a queue's starvation, and the client that it lies with."""

    cause: str
    client_id: str | None


@dataclass(frozen=True)
class StarvedTopic:
    """The queues of one topic that starve, as one finding."""

    cause: str
    client_id: str | None
    since_ms: int
    queues: tuple[str, ...]
    causes: dict[str, Starvation]
    is_ready: bool


def gather(
    starvations: Mapping[str, Starvation],
    coming: frozenset[str],
    still_silent: Mapping[str, Blame],
    known_cause: str | None,
    now_ms: int,
) -> StarvedTopic | None:
    """One finding for a topic's starved queues, or None when none starves. It is not ready before one is certain.

    `coming` are queues about to starve for a reason already known: the page waits for them so that it lists all, but
    for one rebalance at most. `still_silent` are queues of the open incident that nobody pulled since, as they were
    reported; `known_cause` is its cause, None when there is no open incident.
    """
    certain = {
        queue: starvation
        for queue, starvation in starvations.items()
        if starvation.certain_at_ms is not None and starvation.certain_at_ms <= now_ms
    }
    if known_cause is None and not certain and starvations:  # the first sign: by the likeliest cause
        likeliest = min(starvations.values(), key=lambda starvation: gravity(starvation.cause))
        since_ms = min(starvation.since_ms for starvation in starvations.values())
        queues = tuple(sorted(starvations, key=queue_order))
        return StarvedTopic(likeliest.cause, likeliest.client_id, since_ms, queues, dict(starvations), is_ready=False)
    if not certain:
        if not still_silent or known_cause is None:
            return None
        return StarvedTopic(known_cause, None, now_ms, tuple(sorted(still_silent, key=queue_order)), {}, False)
    coming = coming | {queue for queue, s in starvations.items() if s.certain_at_ms is not None} - certain.keys()
    first_ms = min(starvation.certain_at_ms or 0 for starvation in certain.values())
    blames = {**still_silent, **{queue: Blame(s.cause, s.client_id) for queue, s in certain.items()}}.values()
    cause = min((blame.cause for blame in blames), key=gravity)
    blamed = sorted({blame.client_id for blame in blames if blame.cause == cause and blame.client_id})
    return StarvedTopic(
        cause=cause,
        client_id=blamed[0] if blamed else None,
        since_ms=min(starvation.since_ms for starvation in certain.values()),
        queues=tuple(sorted(certain.keys() | still_silent, key=queue_order)),
        causes=certain,
        is_ready=not coming or now_ms >= first_ms + REBALANCE_MS,
    )


def find_starved(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 4. A queue starves when nobody consumes it and one of the causes of udfs.groups.diagnosis is certain; a
    finding a topic. A queue of the open incident stays starved until somebody pulls it: a new
    plan alone ends nothing. Not starved: a queue without a certain cause, which is kind 5; the queues of a group
    without members where kind 2 is off for the group, for it is offline on purpose.
    """
    for topic, topic_state in sorted(snapshot.state.topics.items()):
        incident = snapshot.incident(f"{STARVED_QUEUE} {topic}")
        if incident is None and not is_quiet(topic_state):
            continue
        evidence = snapshot.evidence(topic, topic_state)
        starvations, blames = diagnose_topic(snapshot, topic_state, evidence), reported_blames(incident)
        if not snapshot.rules.of_kind(GROUP_OFFLINE).is_enabled:
            has_left = not snapshot.last_heartbeat_ms  # it may have stopped before its members left
            causes_of_none = (GROUP_OFFLINE, CONSUME_STOPPED) if has_left else (GROUP_OFFLINE,)
            offline = {name for name, one in starvations.items() if one.cause in causes_of_none}
            starvations = {name: one for name, one in starvations.items() if name not in offline}
            blames = {name: one for name, one in blames.items() if name not in offline}
        starvations = keep_causes(starvations, blames, snapshot.last_heartbeat_ms.keys())
        starved = gather(
            starvations,
            _coming(topic_state, starvations, evidence),
            {  # queues of the open incident that no client has consumed since
                name: blame
                for name, blame in blames.items()
                if topic_state.is_shared
                and (queue_state := topic_state.queues.get(name))
                and _is_silent(snapshot.state, queue_state, blame)
            },
            incident.cause if incident else None,
            snapshot.now_ms,
        )
        if starved is not None:
            yield _starved_finding(snapshot, topic, topic_state, starved, blames)


def is_quiet(topic_state: TopicState) -> bool:
    """Return whether some queue has no puller. Most groups need no other check at most ticks."""
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
    """If other incidents explain only some of the queues, the cause is that of the others, and nothing inhibits it."""
    state = snapshot.state
    queues = {name: _queue_evidence(topic_state, name, starved, blames) for name in starved.queues}
    cause, client_id, inhibited_by = _blame(snapshot, starved, queues)
    of_cause: dict[str, list[str]] = {}
    for name, reported in queues.items():
        of_cause.setdefault(reported["cause"] if reported["cause"] in CAUSES else cause, []).append(name)
    reasons = []
    for one, names in sorted(of_cause.items(), key=lambda item: (item[0] != cause, gravity(item[0]))):
        clients = filter(None, (queues[name]["client_id"] for name in names))
        blamed = client_id if one == cause else min(clients, default=None)
        reasons.append(_reason(snapshot, topic_state, one, names, blamed))
    strategies = snapshot.strategies(topic, topic_state)
    return Finding(
        kind=STARVED_QUEUE,
        cause=cause,
        severity="warning" if cause in WARNED else "critical",
        since_ms=starved.since_ms,
        text=describe_starved_queue(
            state.cluster,
            state.consumer_group,
            topic,
            reasons,
            starved.since_ms,
            backlog=_backlog(topic_state, starved.queues),
            strategies=strategies,
        ),
        labels={**snapshot.labels, "topic": topic},
        topic=topic,
        client_id=client_id,
        broker_name=names_of_brokers(starved.queues),
        queues=starved.queues,
        evidence={"client_addr": _addr_of(snapshot, client_id), "queues": queues, "strategies": strategies},
        inhibited_by=inhibited_by,
        is_ready=starved.is_ready,
    )


def _reason(
    snapshot: GroupSnapshot, topic_state: TopicState, cause: str, names: Sequence[str], client_id: str | None
) -> Reason:
    known = [topic_state.queues[name].consumption for name in names] if cause == CONSUME_STOPPED else []
    return Reason(
        cause,
        names,
        client_id,
        _addr_of(snapshot, client_id),
        came=sum(one.max_offset - one.first_max_offset for one in known if one),
        is_listed_again=cause == DUPLICATE_CLIENT_ID and client_id not in {one.client_id for one in snapshot.twins},
    )


def _addr_of(snapshot: GroupSnapshot, client_id: str | None) -> str | None:
    return min((member.client_addr for member in snapshot.members if member.client_id == client_id), default=None)


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


def _backlog(topic_state: TopicState, names: tuple[str, ...]) -> int | None:
    known = [
        queue_state.max_offset - queue_state.commit_offset
        for name in names
        if (queue_state := topic_state.queues[name]).max_offset is not None and queue_state.commit_offset is not None
    ]
    return sum(max(0, lag) for lag in known) if known else None


def _queue_evidence(
    topic_state: TopicState, name: str, starved: StarvedTopic, blames: Mapping[str, Blame]
) -> dict[str, Any]:
    """A queue that is only still silent keeps its reported blame. Where its commit stands still: the commit and the end
    of the queue when the commit was last seen to move, and now.
    """
    queue_state, starvation = topic_state.queues[name], starved.causes.get(name)
    blame = Blame(starvation.cause, starvation.client_id) if starvation else blames.get(name)
    stands: dict[str, Any] = {}
    if starvation and starvation.cause == CONSUME_STOPPED and (known := queue_state.consumption):
        then = {"time_ms": known.since_ms, "commit_offset": known.commit_offset, "max_offset": known.first_max_offset}
        stands = {"then": then, "now": {**then, "time_ms": known.reported_ms, "max_offset": known.max_offset}}
    return {
        "cause": blame.cause if blame else None,
        "client_id": blame.client_id if blame else None,
        "planned_owner": queue_state.share.owner,
        "slot_of": queue_state.share.slot_of,
        "last_pull_ms": queue_state.last_pull_ms,
        "commit_offset": queue_state.commit_offset,
        "max_offset": queue_state.max_offset,
        **stands,
    }


def find_stalled(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 5. A queue is silent when its owner has not pulled it for longer than changes take to settle, and no cause
    is certain yet: the early sign; a finding a topic. Once a cause is certain `starved_queue`
    pages, and explains the silence. Not silent: queues of a broker that no client reaches.
    """
    for topic, topic_state in snapshot.shared_topics():
        if not is_quiet(topic_state):
            continue
        incident = snapshot.incident(f"{STALLED_QUEUE} {topic}")
        starvations = diagnose_topic(snapshot, topic_state, snapshot.evidence(topic, topic_state))
        starvations = keep_causes(starvations, reported_blames(incident), snapshot.last_heartbeat_ms.keys())
        silent = {
            name: starvation
            for name, starvation in starvations.items()
            if topic_state.queues[name].verdict == NOT_CONSUMED
            and queue_order(name)[0] not in snapshot.broker_coverage.silent
            and snapshot.is_settled(max(starvation.since_ms, starvation.given_ms))
        }
        uncertain = [name for name, s in silent.items() if s.certain_at_ms is None or s.certain_at_ms > snapshot.now_ms]
        if not silent or not (uncertain or incident):
            continue
        since_ms = min(starvation.since_ms for starvation in silent.values())
        owners = sorted({topic_state.queues[name].share.owner or "" for name in silent})
        names = tuple(sorted(silent, key=queue_order))
        cause = min((silent[name].cause for name in uncertain or names), key=CAUSES.index)
        words = wording(
            plural(
                len(names),
                "{number} queue of topic {topic} in {group} has not been pulled since {time}: {queues}. Planned owner: "
                "{owners}, still listed by the brokers.",
                "{number} queues of topic {topic} in {group} have not been pulled since {time}: {queues}. Planned "
                "owner: {owners}, still listed by the brokers.",
            ),
            "Check {owners} for a full GC, a paused or flow-controlled consumer, or a stuck listener (jstack).",
        )
        if any(starvation.cause == CONSUME_STOPPED for starvation in silent.values()):  # the owner may go on pulling
            words = wording(
                "The committed offset of {count} of topic {topic} in {group} has stood still since {time} while "
                "messages wait: {queues}. Planned owner: {owners}.",
                "Check {owners} for a listener that hangs (jstack, or mqadmin consumerStatus -g {consumer_group} "
                "-i CLIENT_ID -s), a suspended consumer or a full cache.",
            )
        yield Finding(
            kind=STALLED_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=words.given(
                consumer_group=snapshot.state.consumer_group,
                topic=topic,
                group=snapshot.where,
                time=clock(since_ms),
                count=number_of(len(names), "queue"),
                queues=runs_of(names),
                owners=some_of(owners),
            ),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            client_id=owners[0] if len(owners) == 1 else None,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={
                "owners": owners,
                "queues": {
                    name: {
                        "cause": silent[name].cause,
                        "client_id": silent[name].client_id,
                        "last_pull_ms": topic_state.queues[name].last_pull_ms,
                    }
                    for name in names
                },
            },
            inhibited_by=snapshot.inhibitor(f"{STARVED_QUEUE} {topic}"),
        )


def find_double_consumed(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 6. A queue is doubled when two clients have consumed it side by side for longer than a hand-over takes; a
    finding a topic. Not: a queue that changed hands, whose first owner pulls no more.
    """
    for topic, topic_state in snapshot.shared_topics():
        doubled = {
            name: queue_state
            for name, queue_state in topic_state.queues.items()
            if queue_state.verdict == DOUBLE_CONSUMED
        }
        if not doubled:
            continue
        since_ms = min(queue_state.since_ms for queue_state in doubled.values())
        is_mixed = len(snapshot.strategies(topic, topic_state)) > 1 or are_mixed(snapshot.judged_members)
        cause, twin = _cause_of_double_consumed(doubled, topic_state, is_mixed=is_mixed)
        names = tuple(sorted(doubled, key=queue_order))
        pullers = {
            name: sorted(f"{one.client_id or '?'} at {one.client_addr or '?'}" for one in queue_state.pullers.values())
            for name, queue_state in doubled.items()
        }
        named = sorted({puller for of_queue in pullers.values() for puller in of_queue})
        clients = [
            phrase("{client_id} at {client_addr}", client_id=client_id, client_addr=addr)
            for client_id, _, addr in (puller.rpartition(" at ") for puller in named)
        ]
        inhibitors = {DUPLICATE_CLIENT_ID: f"{DUPLICATE_CLIENT_ID} {twin}", SPLIT_VIEW: SPLIT_VIEW}
        yield Finding(
            kind=DOUBLE_CONSUMED_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=wording(
                plural(
                    len(names),
                    "{number} queue of topic {topic} in {group} has been consumed twice since {time}: {queues}, by "
                    "{clients}. Cause: {reason}.",
                    "{number} queues of topic {topic} in {group} have been consumed twice since {time}: {queues}, by "
                    "{clients}. Cause: {reason}.",
                ),
                DOUBLE_CONSUMPTION[cause].advice,
            ).given(
                topic=topic,
                group=snapshot.where,
                time=clock(since_ms),
                queues=runs_of(names),
                clients=some_of(clients),
                reason=DOUBLE_CONSUMPTION[cause].summary,
            ),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            client_id=twin,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"pullers": pullers},
            inhibited_by=snapshot.inhibitor(inhibitors[cause]) if cause in inhibitors else None,
            is_ready=any(
                snapshot.now_ms >= one.since_ms + REBALANCE_MS
                and _outlasts_a_change(
                    snapshot, one, max(one.share_since_ms, snapshot.state.changed_ms if cause == UNEXPLAINED else 0)
                )
                for one in doubled.values()
            ),
        )


def _outlasts_a_change(snapshot: GroupSnapshot, queue_state: QueueState, changed_ms: int) -> bool:
    """Whether two clients still pulled the queue when both must have polled the new route and rebalanced.

    One client polls the route, or rebalances, up to half a minute before another, and both pull meanwhile. Their last
    pulls count, because they stay known for some time after one of them has stopped.
    """
    over_ms = changed_ms + ROUTE_POLL_MS + REBALANCE_MS
    pairs = find_doublings(queue_state, list(queue_state.pullers.values()))
    return snapshot.is_settled(changed_ms) and any(
        min(one.last_pull_ms, other.last_pull_ms) >= over_ms for one, other in pairs
    )


def _cause_of_double_consumed(
    doubled: dict[str, QueueState], topic_state: TopicState, *, is_mixed: bool
) -> tuple[str, str | None]:
    """Why two clients pull the same queues, and the ClientId it is about.

    Twins pull side by side themselves: a client that came back on another channel is none.
    """
    pairs = [
        pair
        for queue_state in doubled.values()
        for pair in find_doublings(queue_state, list(queue_state.pullers.values()))
    ]
    twins = [one.client_id for one, other in pairs if one.client_id and one.client_id == other.client_id]
    if twins:
        return DUPLICATE_CLIENT_ID, min(twins)
    ids = {puller.client_id or "" for pair in pairs for puller in pair}
    explained = sorted(ids & topic_state.inference.causes.keys())
    if explained:
        return topic_state.inference.causes[explained[0]], explained[0]
    return (MIXED_STRATEGY if is_mixed else UNEXPLAINED), None


def find_regressions(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 9. Offsets regress when a queue's committed offset goes back; a finding a topic, until the offsets have come
    again. Not a regression: two clients that commit by turns while a queue changes hands.
    """
    for topic, topic_state in sorted(snapshot.state.topics.items()):
        fallen = {
            name: queue_state.anomaly
            for name, queue_state in topic_state.queues.items()
            if queue_state.anomaly and queue_state.anomaly.regressed_ms is not None
        }
        if not fallen:
            continue
        again = {name: odd.high_offset - odd.low_offset for name, odd in fallen.items()}
        since_ms = min(odd.regressed_ms or 0 for odd in fallen.values())
        names = tuple(sorted(fallen, key=queue_order))
        yield Finding(
            kind=OFFSET_REGRESSION,
            cause=OFFSET_REGRESSION,
            severity="warning" if sum(again.values()) >= snapshot.rules.offset_regression_messages else "info",
            since_ms=since_ms,
            text=wording(
                "The committed offset of {number} of topic {topic} in {group} went back at {time}: {queues}. "
                "{messages} will be consumed again.",
                "No action if the offset was reset on purpose or a broker crashed (it persists offsets every 5 s); "
                "otherwise find the second consumer that commits for this group.",
            ).given(
                number=number_of(len(names), "queue"),
                topic=topic,
                group=snapshot.where,
                time=clock(since_ms),
                queues=runs_of(names),
                messages=number_of(sum(again.values()), "message"),
            ),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"consumed_again": again, "from": {name: odd.high_offset for name, odd in fallen.items()}},
        )
