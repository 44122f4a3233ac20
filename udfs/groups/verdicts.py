"""The verdict on each queue of a group at one tick, and why it is UNKNOWN or NOT_JUDGED. Verdicts: queue_state.py.

Topics whose consumers do not share queues out (POP, gRPC, server rebalance, assign(), the broker) have no planned
owners. Their commits are judged all the same, as far as the broker keeps them:

POP, gRPC  the broker commits when it hands messages out (PopBufferMergeService.scanCommitOffset, PopConsumerService),
           ordered ones when they are acknowledged. A commit that stands still while messages wait means that no client
           asks for more: clients do not while they hold unacknowledged messages (popThresholdForQueue).
assign()   clients commit, or keep offsets elsewhere. Only a commit that was seen to advance counts.
broker     PopReviveService commits what it has read of the revive log.

Broadcasting clients keep their offsets in files: those that the broker has are old.
"""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from udfs.alerts.rules import Rules
from udfs.groups.plan import (
    DUPLICATE_CLIENT_ID,
    MIXED_STRATEGY,
    STRATEGY_GAP,
    WRITE_ONLY_QUEUE,
    PlannedShare,
    are_mixed,
    plan,
    queue_name,
)
from udfs.groups.planning import last_rows, plan_topic
from udfs.groups.queue_state import (
    CONSUME_STOPPED_MS,
    DOUBLE_CONSUMED,
    DOUBLED_TURNS,
    HAND_OVER_MS,
    MISPLACED,
    NOT_CONSUMED,
    NOT_JUDGED,
    OK,
    UNKNOWN,
    UNOWNED,
    OwnershipRow,
    Puller,
    QueueState,
    is_held_back,
    is_pulled_in_vain,
    last_served_ms,
    observed_owners,
    observed_pullers,
)
from udfs.groups.snapshot import GroupSnapshot
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import (
    ASSIGNED,
    BROKER,
    BROKER_NO_DATA,
    FLOW_CONTROL,
    NOT_ASKED,
    NOT_HEARD,
    PULLS_NOT_REPORTED,
    REPLACED,
    STATIC_TOPIC,
    STRATEGY_UNKNOWN,
    TOO_NEW,
)
from udfs.rocketmq.heartbeat import GRPC, POP, SERVER_REBALANCE
from udfs.rocketmq.membership import Member
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import REVIVE_GROUP
from udfs.rocketmq.route import Route, route_of_nums

KEEP_COMMITS = (POP, GRPC, SERVER_REBALANCE, ASSIGNED, BROKER)
"""Reasons of NOT_JUDGED under which a broker keeps the group's offsets."""


REVIVE_SILENCE_MS = 600_000
"""A revive log without a report for this long went with its broker: no route says that it is gone."""


class Judged(NamedTuple):
    """A verdict, and why, where it is UNKNOWN or NOT_JUDGED."""

    verdict: str
    reason: str | None = None


@dataclass
class Judgement:
    """One topic of a group at one tick.

    pullers   queue → who has pulled the queue lately
    unjudged  why the topic's queues are not judged by who pulls them; None where they are
    verdicts  queue → its verdict and reason; the others are not judged
    closed    the last rows of queues that the route does not have any more
    """

    route: Route
    topic_state: TopicState
    pullers: dict[str, list[Puller]]
    unjudged: str | None
    closed: list[OwnershipRow]
    verdicts: Mapping[str, Judged] = field(default_factory=dict)


def judge(snapshot: GroupSnapshot, topic: str) -> Judgement:
    """Phase 3. The verdict of each queue of a topic, by the plan and the pulls."""
    topic_state, route = snapshot.state.topics[topic], snapshot.routes[topic]
    unjudged = _why_not_judged(snapshot, topic)
    _excuse_dropping(topic_state, is_mixed=topic in snapshot.mixed)
    pullers = {name: refresh_pullers(snapshot, name, queue_state) for name, queue_state in topic_state.queues.items()}
    dropped = _drop_unrouted(topic_state, route, pullers)
    if unjudged is None and not topic_state.is_planned:
        _plan_by_pulls(snapshot, topic_state, pullers)
    judgement = Judgement(route, topic_state, pullers, unjudged, last_rows(topic, dropped, snapshot.now_ms))
    if unjudged is None:
        judgement.verdicts = judge_queues(snapshot, judgement)
    elif unjudged in KEEP_COMMITS:
        judgement.verdicts = judge_commits(snapshot, topic_state, unjudged)
    return judgement


def _drop_unrouted(topic_state: TopicState, route: Route, pullers: dict[str, list[Puller]]) -> dict[str, QueueState]:
    """Drop the queues that the route has no more and no client pulls: clients learn a route up to 30 s later, and pull
    these until then.
    """
    if route.has_queue_mapping:
        return {}
    places = {queue_name(queue) for queue in (*route.readable_queues(), *route.write_only_queues())}
    left = [name for name in topic_state.queues if name not in places and not pullers[name]]
    for name in left:
        del pullers[name]
    return {name: topic_state.queues.pop(name) for name in left}


def _plan_by_pulls(snapshot: GroupSnapshot, topic_state: TopicState, pullers: Mapping[str, list[Puller]]) -> None:
    """Where a strategy cannot be recomputed, who pulled a queue last keeps it until the members change.

    A queue that nobody has pulled since then, while others are pulled, is left out by the strategy or its options.
    """
    members = {member.client_id: member for member in snapshot.members}
    twins = sorted({twins.client_id for twins in snapshot.twins})
    is_mixed, changed_ms = are_mixed(members.values()), snapshot.state.changed_ms
    for name, queue_state in topic_state.queues.items():
        pulling = {puller.client_id for puller in pullers[name]}
        newest = queue_state.share.owner if queue_state.share.owner in pulling else queue_state.last_client_id
        owner = newest if newest in members else None
        has_kept = bool(pullers[name]) or (queue_state.last_pull_ms or 0) > changed_ms
        if queue_state.share.gap == WRITE_ONLY_QUEUE:
            continue
        if owner and has_kept:
            share = PlannedShare(owner)
        elif not any(pullers.values()) or not members:
            share = PlannedShare(None)
        elif twins and queue_state.last_pull_ms is not None:
            share = PlannedShare(None, DUPLICATE_CLIENT_ID, twins[0])
        else:
            share = PlannedShare(None, MIXED_STRATEGY if is_mixed else STRATEGY_GAP)
        if share != queue_state.share:
            queue_state.share = share
            queue_state.share_since_ms = max(changed_ms, queue_state.last_pull_ms or 0)


def _excuse_dropping(topic_state: TopicState, *, is_mixed: bool) -> None:
    """Excuse commits that stand still because a client drops messages that only another member's expression matches.

    `is_mixed`: members subscribe the topic by different expressions. Once they agree every standstill begins anew.
    """
    if not (is_mixed or topic_state.is_mixed):
        return
    topic_state.is_mixed = is_mixed
    for queue_state in topic_state.queues.values():
        if queue_state.consumption is None:
            continue
        if is_mixed:
            queue_state.consumption.excuse_dropping()
        else:
            queue_state.consumption.forget_standstill()


def judge_again(snapshot: GroupSnapshot, judgement: Judgement) -> None:
    """Phases 2 and 3 once more, by what was inferred. The plan was so before, unknown to us: shares keep their age."""
    topic_state = judgement.topic_state
    since_ms = {name: queue_state.share_since_ms for name, queue_state in topic_state.queues.items()}
    plan_topic(snapshot.state, topic_state, judgement.route, snapshot.now_ms, snapshot.rules)
    for name, queue_state in topic_state.queues.items():
        queue_state.share_since_ms = since_ms[name]
    judgement.verdicts = judge_queues(snapshot, judgement)


def report(judgement: Judgement, now_ms: int) -> Iterator[OwnershipRow]:
    """Phase 5. The rows of queues whose owners, verdict or reason changed; the state keeps what was reported."""
    yield from judgement.closed
    for name, queue_state in judgement.topic_state.queues.items():
        verdict, reason = judgement.verdicts.get(name) or Judged(NOT_JUDGED, judgement.unjudged)
        if verdict != queue_state.verdict:
            queue_state.verdict, queue_state.since_ms = verdict, now_ms
        reported = (queue_state.share.owner, observed_owners(judgement.pullers[name]), verdict)
        if reported != queue_state.reported or reason != queue_state.reason:
            queue_state.reported, queue_state.reason = reported, reason
            yield OwnershipRow(judgement.route.topic, name, *reported, queue_state.since_ms, reason)


def _why_not_judged(snapshot: GroupSnapshot, topic: str) -> str | None:
    """Why none of the topic's queues is judged; None where they are."""
    topic_state, members = snapshot.state.topics[topic], snapshot.unjudged_members
    if snapshot.routes[topic].has_queue_mapping:
        return STATIC_TOPIC
    if not topic_state.is_shared:
        return topic_state.unjudged or ASSIGNED
    if snapshot.state.is_replaced:
        return REPLACED
    return min((member.unjudged or ASSIGNED for member in members if member.subscribes(topic)), default=None)


def judge_queues(snapshot: GroupSnapshot, judgement: Judgement) -> dict[str, Judged]:
    """Judge each queue. Without a pull it is UNKNOWN while its broker gives no data; its silence counts from then."""
    topic_state, other_plans = judgement.topic_state, _other_plans(snapshot, judgement)
    verdicts = {}
    for name in topic_state.queues:
        other_owners = {owner for shares in other_plans if name in shares and (owner := shares[name].owner)}
        verdicts[name] = _judge_queue(snapshot, topic_state, name, judgement.pullers[name], other_owners)
    return verdicts


def _judge_queue(
    snapshot: GroupSnapshot, topic_state: TopicState, name: str, pullers: list[Puller], other_owners: set[str]
) -> Judged:
    state, coverage, not_asked = snapshot.state, snapshot.broker_coverage, snapshot.not_asked
    queue_state, (broker_name, _) = topic_state.queues[name], queue_order(name)
    data_since_ms = coverage.data_since_ms(broker_name)
    if data_since_ms is None and not pullers:
        if broker_name in coverage.missed and broker_name not in not_asked.brokers:
            return Judged(queue_state.verdict, queue_state.reason)  # a lost round says nothing new
        return Judged(UNKNOWN, not_asked.brokers.get(broker_name, BROKER_NO_DATA))
    watched_ms = max(state.watched_since_ms, topic_state.watched_since_ms, topic_state.first_pull_ms or 0)
    since_ms = max(watched_ms, data_since_ms or 0, state.first_pull_ms.get(broker_name, 0))
    unreported = None if pullers else _why_unreported(snapshot, topic_state, queue_state, broker_name)
    # A client that has left pulls no more, though its last pull is not long ago; a broker may report no list.
    view = state.membership.views.get(broker_name, {})
    listed = [puller for puller in pullers if puller.client_addr is None or puller.client_addr in view]
    verdict = verdict_of(
        queue_state,
        listed or pullers,
        other_owners,
        watched_since_ms=since_ms,
        has_pulls=unreported is None,
        now_ms=snapshot.now_ms,
        rules=snapshot.rules,
        is_planned=topic_state.is_planned,
    )
    if verdict == UNOWNED and not topic_state.is_planned and unreported not in (None, PULLS_NOT_REPORTED):
        return Judged(UNKNOWN, unreported)  # no known pull takes it, and not all pulls are known
    if verdict != UNKNOWN:
        return Judged(verdict)
    if is_too_new(queue_state, since_ms, snapshot.now_ms, snapshot.rules):
        unreported = TOO_NEW
    elif unreported in NOT_HEARD and not_asked.is_lately(queue_state.share.owner):
        return Judged(queue_state.verdict, queue_state.reason)  # it was not asked in this round, by turn
    elif unreported == PULLS_NOT_REPORTED and not topic_state.is_planned:
        unreported = STRATEGY_UNKNOWN
    return Judged(UNKNOWN, unreported)


def _why_unreported(
    snapshot: GroupSnapshot, topic_state: TopicState, queue_state: QueueState, broker_name: str
) -> str | None:
    """Return why a pull of the queue would not be known, or is not expected; None when its absence is evidence.

    Pulls are known if their broker reports all pulls, or has reported pulls of the group and of the owner before. On a
    topic without any pull so far they are also known if the owner answers a collector; those of an orderly owner that
    answers are always known, because it is a push consumer and answers which queues it holds. Consumers that do not
    (DefaultMQPullConsumer, LitePull before 5.1.1) are never seen to pull. A frozen owner is known by its heartbeats,
    whatever other data is missing.
    """
    owner, is_late = queue_state.share.owner, queue_state.share.owner in snapshot.late
    if not is_late and is_held_back(queue_state, snapshot.now_ms, snapshot.rules):
        return FLOW_CONTROL
    coverage, by_ms = snapshot.broker_coverage, snapshot.now_ms - snapshot.rules.settle_ms
    if coverage.pulled_ms.get(broker_name, by_ms + 1) <= by_ms:
        return None
    missing = snapshot.not_asked.members
    reason = NOT_ASKED if broker_name in snapshot.not_asked.mute else missing.get(owner or "")
    if reason and not is_late:
        return reason
    may_pull = missing.keys() - snapshot.late
    if may_pull and not topic_state.is_planned:
        return min(missing[client_id] for client_id in may_pull)
    answers = owner in snapshot.reporting and coverage.reports_answers
    if answers and (topic_state.first_pull_ms is None or owner in snapshot.orderly):
        return None
    last_pull_ms = queue_state.last_pull_ms
    has_stopped = last_pull_ms is not None and last_pull_ms <= coverage.reported_until_ms.get(broker_name, -1)
    is_unknown = has_stopped and not is_late and owner not in snapshot.reporting
    is_reported = broker_name in snapshot.state.first_pull_ms and topic_state.first_pull_ms is not None
    is_seen = owner is None or is_late or owner in snapshot.state.seen_pulling
    return None if is_reported and not is_unknown and is_seen else PULLS_NOT_REPORTED


def verdict_of(
    queue_state: QueueState,
    pullers: Sequence[Puller],
    other_owners: set[str],
    *,
    watched_since_ms: int,
    has_pulls: bool,
    now_ms: int,
    rules: Rules,
    is_planned: bool = True,
) -> str:
    """The verdict on one queue. A commit that advances is as good as a pull; one that stands still is worse than none.

    `other_owners` are the owners other brokers' views would give it; `watched_since_ms` is when the group and its
    topic were first seen; `has_pulls` whether any pull of the group was ever seen; `is_planned` is False when the
    strategy cannot be recomputed, so that every puller is right.
    """
    known, owner = queue_state.consumption, queue_state.share.owner
    if pullers and not is_pulled_in_vain(queue_state):
        if find_doublings(queue_state, pullers):
            return DOUBLE_CONSUMED
        ids = {puller.client_id for puller in pullers}
        is_right = ids == {None} or ids & ({owner, *other_owners} - {None}) or not is_planned
        verdict = OK if is_right else MISPLACED
    elif is_too_new(queue_state, watched_since_ms, now_ms, rules):
        verdict = UNKNOWN
    elif owner is None:
        return UNOWNED if has_pulls or queue_state.share.gap else UNKNOWN
    else:
        verdict = NOT_CONSUMED if has_pulls else UNKNOWN
    if known is None or owner is None:
        return verdict
    if known.stands_ms(now_ms, watched_since_ms) >= rules.consume_silence_ms:
        return NOT_CONSUMED
    is_life = verdict != MISPLACED and known.was_consumed_after(now_ms - rules.pull_silence_ms)
    return OK if is_life else verdict


def is_too_new(queue_state: QueueState, watched_since_ms: int, now_ms: int, rules: Rules) -> bool:
    """Whether nothing can be said of a silence yet."""
    since_ms = max(watched_since_ms, queue_state.share_since_ms, last_served_ms(queue_state))
    return now_ms < since_ms + rules.pull_silence_ms


def find_doublings(queue_state: QueueState, pullers: Sequence[Puller]) -> list[tuple[Puller, Puller]]:
    """Channels that overlap for longer than a hand-over takes, by turns: a hand-over there and back is no overlap.

    One that has not pulled for as long, while the other did, has handed over.
    """
    if queue_state.anomaly is None or queue_state.anomaly.turns < DOUBLED_TURNS:
        return []
    return [
        (one, other)
        for one, other in combinations(pullers, 2)
        if one.last_pull_ms - other.first_pull_ms > HAND_OVER_MS
        and other.last_pull_ms - one.first_pull_ms > HAND_OVER_MS
        and abs(one.last_pull_ms - other.last_pull_ms) <= HAND_OVER_MS
    ]


def _other_plans(snapshot: GroupSnapshot, judgement: Judgement) -> list[dict[str, PlannedShare]]:
    """The plans of all views, when they differ: an owner by any of them is not misplaced."""
    views, route, seen = snapshot.state.membership.views, judgement.route, judgement.topic_state.inference.seen
    by_ids: dict[tuple[str, ...], dict[str, Member]] = {
        tuple(sorted(member.client_id for member in views[name].values())): views[name]
        for name in views.keys() & route.broker_names()
    }
    if len(by_ids) < 2 or not judgement.topic_state.is_planned:
        return []
    group, default = snapshot.state.consumer_group, snapshot.rules.allocate_message_queue_strategy
    plans = (plan(group, route, list(view.values()), default, seen) for view in by_ids.values())
    return [shares for shares in plans if shares is not None]


def judge_commits(snapshot: GroupSnapshot, topic_state: TopicState, unjudged: str) -> dict[str, Judged]:
    """The queues of a topic that is not judged whose commits have stood still for too long; the others have no verdict.

    They are NOT_CONSUMED, with the reason why no client owns them. If the group has no member, queues that are
    NOT_CONSUMED stay so, and group_offline reports the others.
    """
    is_served = unjudged == BROKER or not snapshot.state.membership.is_empty()
    return {
        name: Judged(NOT_CONSUMED, unjudged)
        for name, queue_state in topic_state.queues.items()
        if (is_served or queue_state.verdict == NOT_CONSUMED)
        and _stands_still(queue_state, unjudged, snapshot.now_ms, snapshot.rules)
    }


def _stands_still(queue_state: QueueState, unjudged: str, now_ms: int, rules: Rules) -> bool:
    """By what was reported: time alone begins nothing. Time without a member does not count."""
    known = queue_state.consumption
    if known is None or (unjudged == ASSIGNED and known.consumed_ms is None):
        return False
    if unjudged == BROKER and now_ms >= known.reported_ms + REVIVE_SILENCE_MS:
        return False
    stands_ms = min(known.stands_ms(known.reported_ms), known.reported_ms - queue_state.share_since_ms)
    return stands_ms >= rules.consume_silence_ms + CONSUME_STOPPED_MS


def refresh_pullers(snapshot: GroupSnapshot, name: str, queue_state: QueueState) -> list[Puller]:
    """Return the queue's pullers, with ClientIds where their channel is known; forget the others.

    A member that a full cache holds back counts for as long as a commit may stand still.
    """
    state, now_ms, rules = snapshot.state, snapshot.now_ms, snapshot.rules
    view = state.membership.views.get(queue_order(name)[0], {})
    pullers = observed_pullers(queue_state, now_ms, rules.pull_silence_ms)
    if not pullers and queue_state.pullers and is_held_back(queue_state, now_ms, rules):
        newest = max(queue_state.pullers.values(), key=lambda puller: puller.last_pull_ms)
        is_member = newest.client_addr in view or any(one.client_id == newest.client_id for one in view.values())
        is_alive = is_member and newest.client_id not in snapshot.late
        pullers = [newest] if is_alive and newest.last_pull_ms + rules.consume_silence_ms > now_ms else []
    for puller in pullers:
        member = view.get(puller.client_addr or "")
        puller.client_id = puller.client_id or (member.client_id if member else None)
        if puller.client_id:
            place = bisect.bisect_left(state.seen_pulling, puller.client_id)
            if state.seen_pulling[place : place + 1] != [puller.client_id]:
                state.seen_pulling.insert(place, puller.client_id)
    if pullers:
        newest = max(pullers, key=lambda puller: puller.last_pull_ms)
        queue_state.last_client_id = newest.client_id or queue_state.last_client_id
    queue_state.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
    return pullers


def route_revive_log(state: GroupState, routes: Mapping[str, Route]) -> Mapping[str, Route]:
    """The routes of a group, with one of the revive log for the group that reads it: its queues are those reported.

    Clients have no use for that route, and it names brokers that serve no topic any more.
    """
    if state.consumer_group != REVIVE_GROUP:
        return routes
    by_topic = {}
    for topic, topic_state in state.topics.items():
        nums: dict[str, int] = {}
        for broker_name, queue_id in map(queue_order, topic_state.queues):
            nums[broker_name] = max(nums.get(broker_name, 0), queue_id + 1)
        by_topic[topic] = route_of_nums(topic, dict(sorted(nums.items())))
    return by_topic
