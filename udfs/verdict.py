"""A group's plan and its verdicts, topic by topic: the plan when members or routes changed, a verdict each tick."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from udfs.hearing import Hearing
from udfs.membership import Membership
from udfs.ownership import (
    NOT_JUDGED,
    UNKNOWN,
    QueueWatch,
    Share,
    judge,
    observed_owners,
    observed_pullers,
    plan,
    queue_name,
    queue_order,
    reference_view,
)
from udfs.route import Route
from udfs.rules import Rules
from udfs.watch import GroupState, TopicWatch


@dataclass(frozen=True)
class OwnershipRow:
    """A queue's planned owner, observed owners or verdict changed."""

    topic: str
    queue: str
    planned_owner: str | None
    observed_owners: list[str]
    verdict: str
    since_ms: int


def replan(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> None:
    """Recompute who should own each queue, from the members and routes as they are."""
    members = [member for _, member in state.membership.members()]
    told = {topic for member in members if member.is_judged for topic in member.topics}
    untold = state.topics.keys() if any(member.is_judged and not member.has_told_topics for member in members) else ()
    for topic in sorted({*told, *untold}):
        state.topics.setdefault(topic, TopicWatch(now_ms)).is_shared = True
    for topic, watched in list(state.topics.items()):
        is_subscribed = any(member.subscribes(topic) for member in members)
        if watched.is_shared and members and not is_subscribed:
            del state.topics[topic]  # the group gave the topic up
        elif (route := routes.get(topic)) is not None:
            _replan_topic(state, watched, route, now_ms, rules)
    state.is_stale = False


def _replan_topic(state: GroupState, watched: TopicWatch, route: Route, now_ms: int, rules: Rules) -> None:
    names = [queue_name(queue) for queue in route.readable_queues()]
    watched.queues = {name: watched.queues.get(name) or QueueWatch(since_ms=now_ms) for name in names}
    view = reference_view(state.membership.views, route.broker_names()) or {}
    try:
        shares = plan(state.consumer_group, route, list(view.values()), rules.allocate_message_queue_strategy)
    except ValueError:  # a strategy that is not recomputed here: no plan, so no verdict
        shares, watched.is_shared = {}, False
    for name, watch in watched.queues.items():
        share = shares.get(name, Share(None))
        if share != watch.share or watch.share_since_ms == 0:
            watch.share, watch.share_since_ms = share, now_ms


def judge_topic(
    state: GroupState, topic: str, route: Route, hearing: Hearing, now_ms: int, rules: Rules
) -> Iterator[OwnershipRow]:
    """Judge each queue of one topic; yield those whose owners or verdict changed.

    A queue that nobody is seen to pull is UNKNOWN while its broker is not heard, and its silence counts from when
    the broker is heard again.
    """
    watched = state.topics[topic]
    subscribers = [member for _, member in state.membership.members() if member.subscribes(topic)]
    is_judged = watched.is_shared and all(member.is_judged for member in subscribers)
    other_plans = _other_plans(state, route, rules) if is_judged else []
    watched_since_ms = max(state.watched_since_ms, watched.watched_since_ms)
    for name, watch in watched.queues.items():
        pullers = observed_pullers(watch, now_ms, rules.pull_silence_ms)
        for puller in pullers:
            puller.client_id = puller.client_id or _client_at(state.membership, name, puller.client_addr)
        watch.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
        heard_since_ms = hearing.heard_since_ms(queue_order(name)[0])
        verdict = NOT_JUDGED
        if is_judged and heard_since_ms is None and not pullers:
            verdict = UNKNOWN
        elif is_judged:
            verdict = judge(
                watch,
                pullers,
                {owner for shares in other_plans if name in shares and (owner := shares[name].owner)},
                watched_since_ms=max(watched_since_ms, heard_since_ms or 0),
                has_pulls=state.has_pulls,
                now_ms=now_ms,
                rules=rules,
            )
        if verdict != watch.verdict:
            watch.verdict, watch.since_ms = verdict, now_ms
        reported = (watch.share.owner, observed_owners(pullers), verdict)
        if reported != watch.reported:
            watch.reported = reported
            yield OwnershipRow(topic, name, *reported, watch.since_ms)


def forget_idle_topics(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> None:
    """Drop topics that nobody shares out and nobody pulls any more, and the shared ones of a group that is gone."""
    for topic, watched in list(state.topics.items()):
        if topic not in routes:
            for watch in watched.queues.values():
                pullers = observed_pullers(watch, now_ms, rules.pull_silence_ms)
                watch.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
        is_pulled = any(watch.pullers for watch in watched.queues.values())
        is_over = topic not in routes and state.membership.is_empty()
        if not is_pulled and (is_over or not watched.is_shared):
            del state.topics[topic]


def _client_at(membership: Membership, queue: str, client_addr: str | None) -> str | None:
    broker_name, _ = queue_order(queue)
    member = membership.views.get(broker_name, {}).get(client_addr or "")
    return member.client_id if member else None


def _other_plans(state: GroupState, route: Route, rules: Rules) -> list[dict[str, Share]]:
    """The plans of all views, when they differ: an owner by any of them is not misplaced."""
    views = {name: state.membership.views[name] for name in state.membership.views.keys() & route.broker_names()}
    by_ids = {tuple(sorted(member.client_id for member in view.values())): view for view in views.values()}
    if len(by_ids) < 2:
        return []
    default = rules.allocate_message_queue_strategy
    return [plan(state.consumer_group, route, list(view.values()), default) for view in by_ids.values()]
