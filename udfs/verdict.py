"""A group's verdicts, topic by topic, at each tick; and when something is wrong, what the pulls say of the reason."""

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from udfs.explanation import Explanation, Hypotheses, explain
from udfs.hearing import Hearing
from udfs.membership import Member, Membership
from udfs.model import queue_order
from udfs.ownership import (
    DOUBLED,
    MISPLACED,
    NOT_JUDGED,
    SILENT,
    STARVED,
    UNKNOWN,
    Puller,
    QueueWatch,
    judge,
    observed_owners,
    observed_pullers,
)
from udfs.plan import (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    MIXED_STRATEGY,
    Seen,
    Share,
    is_recomputed,
    plan,
    reference_view,
    strategies_of,
)
from udfs.replan import plan_by_pulls, replan_topic
from udfs.route import PERM_READ, PERM_WRITE, QueueData, Route
from udfs.rules import FORGET_GROUP_MS, REBALANCE_MS, Rules
from udfs.watch import GroupState, TopicWatch

RECENT_PULL_MS = 15_000 + REBALANCE_MS
"""A queue that a client holds is pulled at least this often, by the slowest of RocketMQ's own consumers, too."""


@dataclass(frozen=True)
class OwnershipRow:
    """A queue's planned owner, observed owners or verdict changed."""

    topic: str
    queue: str
    planned_owner: str | None
    observed_owners: list[str]
    verdict: str
    since_ms: int


def judge_topic(
    state: GroupState, topic: str, route: Route, hearing: Hearing, now_ms: int, rules: Rules
) -> Iterator[OwnershipRow]:
    """Judge each queue of one topic; yield those whose owners or verdict changed.

    When something is wrong and changes have settled, the pulls are asked why, and the queues judged once more.
    """
    watched = state.topics[topic]
    subscribers = [member for _, member in state.membership.members() if member.subscribes(topic)]
    is_judged = watched.is_shared and all(member.is_judged for member in subscribers)
    pullers = {name: _refresh_pullers(state, name, watch, now_ms, rules) for name, watch in watched.queues.items()}
    verdicts = _judge_queues(state, watched, route, pullers, hearing, now_ms, rules) if is_judged else {}
    if watched.is_planned and _is_wrong(watched, verdicts) and now_ms >= state.changed_ms + rules.settle_ms:
        explanation = _explain(state, watched, route, now_ms, rules)
        if explanation != watched.explanation:
            watched.explanation = explanation
            since_ms = {name: watch.share_since_ms for name, watch in watched.queues.items()}
            replan_topic(state, watched, route, now_ms, rules)
            for name, watch in watched.queues.items():  # the plan was always so; only we did not know
                watch.share_since_ms = since_ms[name]
            verdicts = _judge_queues(state, watched, route, pullers, hearing, now_ms, rules)
    for name, watch in watched.queues.items():
        verdict = verdicts.get(name, NOT_JUDGED)
        if verdict != watch.verdict:
            watch.verdict, watch.since_ms = verdict, now_ms
        reported = (watch.share.owner, observed_owners(pullers[name]), verdict)
        if reported != watch.reported:
            watch.reported = reported
            yield OwnershipRow(topic, name, *reported, watch.since_ms)


def _refresh_pullers(state: GroupState, name: str, watch: QueueWatch, now_ms: int, rules: Rules) -> list[Puller]:
    """Who pulls the queue now, with ClientIds where their channel is known; others are forgotten."""
    pullers = observed_pullers(watch, now_ms, rules.pull_silence_ms)
    for puller in pullers:
        puller.client_id = puller.client_id or _client_at(state.membership, name, puller.client_addr)
    if pullers:
        newest = max(pullers, key=lambda puller: puller.last_pull_ms)
        watch.last_client_id = newest.client_id or watch.last_client_id
    watch.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
    for puller in pullers:
        if puller.client_id and puller.client_id not in state.seen_pulling:
            bisect.insort(state.seen_pulling, puller.client_id)
    return pullers


def _judge_queues(
    state: GroupState,
    watched: TopicWatch,
    route: Route,
    pullers: Mapping[str, list[Puller]],
    hearing: Hearing,
    now_ms: int,
    rules: Rules,
) -> dict[str, str]:
    """A queue that nobody is seen to pull is UNKNOWN while its broker is not heard; its silence counts from then on."""
    other_plans = _other_plans(state, watched, route, rules)
    watched_since_ms = max(state.watched_since_ms, watched.watched_since_ms)
    if not watched.is_planned:
        plan_by_pulls(state, watched, pullers)
    verdicts = {}
    for name, watch in watched.queues.items():
        broker_name, _ = queue_order(name)
        heard_since_ms = hearing.heard_since_ms(broker_name)
        if heard_since_ms is None and not pullers[name]:
            verdicts[name] = watch.verdict if broker_name in hearing.missed else UNKNOWN
            continue
        verdicts[name] = judge(
            watch,
            _still_listed(state.membership, name, pullers[name]),
            {owner for shares in other_plans if name in shares and (owner := shares[name].owner)},
            watched_since_ms=max(watched_since_ms, heard_since_ms or 0, state.first_pull_ms.get(broker_name, 0)),
            has_pulls=_would_be_told(state, watch, broker_name, hearing, now_ms - rules.settle_ms),
            now_ms=now_ms,
            rules=rules,
            is_planned=watched.is_planned,
        )
    return verdicts


def _would_be_told(state: GroupState, watch: QueueWatch, broker_name: str, hearing: Hearing, by_ms: int) -> bool:
    """Whether a pull of the queue would be known: its broker tells all, or told the group's, and its owner's, before.

    Consumers that do not answer what they hold (DefaultMQPullConsumer, LitePull before 5.1.1) are never seen to pull.
    """
    if hearing.tells_pulls(broker_name, by_ms):
        return True
    owner = watch.share.owner
    return broker_name in state.first_pull_ms and (owner is None or owner in state.seen_pulling)


def _still_listed(membership: Membership, queue: str, pullers: list[Puller]) -> list[Puller]:
    """Those whose channel the queue's broker lists; all where that would be nobody, or the broker tells no list.

    A client that has left pulls no more, though its last pull is not long ago.
    """
    broker_name, _ = queue_order(queue)
    view = membership.views.get(broker_name, {})
    listed = [puller for puller in pullers if puller.client_addr is None or puller.client_addr in view]
    return listed or pullers


def _is_wrong(watched: TopicWatch, verdicts: Mapping[str, str]) -> bool:
    """Whether there is something to explain: a queue that a healthy group would not have so."""
    by_members = (None, DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY)
    return any(
        verdict in (SILENT, DOUBLED, MISPLACED) or (verdict == STARVED and watched.queues[name].share.gap in by_members)
        for name, verdict in verdicts.items()
    )


def _explain(state: GroupState, watched: TopicWatch, route: Route, now_ms: int, rules: Rules) -> Explanation:
    views = state.membership.views
    view = list((reference_view(views, route.broker_names()) or {}).values())
    pulled: dict[str, set[str]] = {}
    for name, watch in watched.queues.items():
        for puller in watch.pullers.values():
            if puller.client_id and puller.last_pull_ms + RECENT_PULL_MS > now_ms:
                pulled.setdefault(puller.client_id, set()).add(name)
    default = rules.allocate_message_queue_strategy
    hypotheses = Hypotheses(
        state.consumer_group,
        route,
        _route_of(route, watched.nums_before) if watched.nums_before else None,
        view,
        [
            list(other.values())
            for name, other in sorted(views.items())
            if name in route.broker_names() and is_recomputed(strategies_of(list(other.values()), default, Seen()))
        ],
        default,
        {
            name: watch.last_client_id or ""
            for name, watch in watched.queues.items()
            if (watch.last_pull_ms or 0) > watched.route_changed_ms
        },
    )
    return explain(
        hypotheses, {client_id: frozenset(names) for client_id, names in pulled.items()}, watched.explanation
    )


def _route_of(route: Route, nums: Mapping[str, int]) -> Route:
    queues = tuple(QueueData(name, count, count, PERM_READ | PERM_WRITE) for name, count in nums.items())
    return Route(route.topic, queues)


def idle_topics(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> list[str]:
    """Topics that nobody shares out and nobody pulls any more, and the shared ones of a group that is gone; sorted."""
    idle = []
    for topic, watched in sorted(state.topics.items()):
        if topic not in routes:
            for watch in watched.queues.values():
                pullers = observed_pullers(watch, now_ms, rules.pull_silence_ms)
                watch.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
        is_pulled = any(watch.pullers for watch in watched.queues.values())
        is_given_up = now_ms >= state.changed_ms + FORGET_GROUP_MS
        is_over = state.membership.is_empty() and (topic not in routes or is_given_up)
        if not is_pulled and (is_over or not watched.is_shared):
            idle.append(topic)
    return idle


def _client_at(membership: Membership, queue: str, client_addr: str | None) -> str | None:
    broker_name, _ = queue_order(queue)
    member = membership.views.get(broker_name, {}).get(client_addr or "")
    return member.client_id if member else None


def _other_plans(state: GroupState, watched: TopicWatch, route: Route, rules: Rules) -> list[dict[str, Share]]:
    """The plans of all views, when they differ: an owner by any of them is not misplaced."""
    views = {name: state.membership.views[name] for name in state.membership.views.keys() & route.broker_names()}
    by_ids: dict[tuple[str, ...], dict[str, Member]] = {
        tuple(sorted(member.client_id for member in view.values())): view for view in views.values()
    }
    if len(by_ids) < 2 or not watched.is_planned:
        return []
    default = rules.allocate_message_queue_strategy
    return [
        plan(state.consumer_group, route, list(view.values()), default, watched.explanation.seen)
        for view in by_ids.values()
        if is_recomputed(strategies_of(list(view.values()), default, watched.explanation.seen))
    ]
