"""A group's verdicts, topic by topic, at each tick; and when something is wrong, what the pulls say of the reason."""

from collections.abc import Iterator, Mapping

from udfs.explanation import Explanation, Hypotheses, explain
from udfs.ownership import (
    DOUBLED,
    MISPLACED,
    NOT_JUDGED,
    SILENT,
    STARVED,
    OwnershipRow,
    observed_owners,
    observed_pullers,
)
from udfs.plan import (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    MIXED_STRATEGY,
    Seen,
    is_recomputed,
    reference_view,
    strategies_of,
)
from udfs.queue_verdicts import Judged, Moment, judge_queues, refresh_pullers
from udfs.replan import drop_unrouted, replan_topic
from udfs.route import PERM_READ, PERM_WRITE, QueueData, Route
from udfs.rules import FORGET_GROUP_MS, REBALANCE_MS, Rules
from udfs.verdict_reason import ASSIGNED, REPLACED, STATIC_TOPIC
from udfs.watch import GroupState, TopicWatch

RECENT_PULL_MS = 15_000 + REBALANCE_MS
"""A queue that a client holds is pulled at least this often, by the slowest of RocketMQ's own consumers, too."""


def judge_topic(state: GroupState, topic: str, route: Route, moment: Moment) -> Iterator[OwnershipRow]:
    """Judge each queue of one topic; yield those whose owners, verdict or reason changed.

    When something is wrong and changes have settled, the pulls are asked why, and the queues judged once more.
    """
    watched, now_ms, rules = state.topics[topic], moment.now_ms, moment.rules
    pullers = {name: refresh_pullers(state, name, watch, moment) for name, watch in watched.queues.items()}
    yield from drop_unrouted(watched, route, pullers, now_ms)
    unjudged = _why_not_judged(state, topic, route, moment)
    verdicts = judge_queues(state, watched, route, pullers, moment) if unjudged is None else {}
    if watched.is_planned and _is_wrong(watched, verdicts) and now_ms >= state.changed_ms + rules.settle_ms:
        explanation = _explain(state, watched, route, moment)
        if explanation != watched.explanation:
            watched.explanation = explanation
            since_ms = {name: watch.share_since_ms for name, watch in watched.queues.items()}
            replan_topic(state, watched, route, now_ms, rules)
            for name, watch in watched.queues.items():  # the plan was always so; only we did not know
                watch.share_since_ms = since_ms[name]
            verdicts = judge_queues(state, watched, route, pullers, moment)
    for name, watch in watched.queues.items():
        verdict, reason = verdicts.get(name) or Judged(NOT_JUDGED, unjudged)
        if verdict != watch.verdict:
            watch.verdict, watch.since_ms = verdict, now_ms
        reported = (watch.share.owner, observed_owners(pullers[name]), verdict)
        if reported != watch.reported or reason != watch.reason:
            watch.reported, watch.reason = reported, reason
            yield OwnershipRow(topic, name, *reported, watch.since_ms, reason)


def _why_not_judged(state: GroupState, topic: str, route: Route, moment: Moment) -> str | None:
    """Why none of the topic's queues is judged; None where they are."""
    if route.has_queue_mapping:
        return STATIC_TOPIC
    if not state.topics[topic].is_shared:
        return ASSIGNED
    if state.is_replaced:
        return REPLACED
    return min((member.unjudged or ASSIGNED for member in moment.unjudged if member.subscribes(topic)), default=None)


def _is_wrong(watched: TopicWatch, verdicts: Mapping[str, Judged]) -> bool:
    """Whether there is something to explain: a queue that a healthy group would not have so."""
    by_members = (None, DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY)
    return any(
        verdict in (SILENT, DOUBLED, MISPLACED) or (verdict == STARVED and watched.queues[name].share.gap in by_members)
        for name, (verdict, _) in verdicts.items()
    )


def _explain(state: GroupState, watched: TopicWatch, route: Route, moment: Moment) -> Explanation:
    now_ms, rules, known = moment.now_ms, moment.rules, watched.explanation
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
    found = explain(hypotheses, {client_id: frozenset(names) for client_id, names in pulled.items()}, known)
    for client_id in moment.not_asked.members.keys() & known.seen.strategies.keys():
        found.seen.strategies.setdefault(client_id, known.seen.strategies[client_id])  # no pulls told
    return found


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
