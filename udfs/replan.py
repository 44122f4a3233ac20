"""A group's plan, made anew when its members or a route changed."""

from collections.abc import Mapping

from udfs.ownership import QueueWatch
from udfs.plan import WRITE_ONLY_QUEUE, Share, is_recomputed, plan, queue_name, reference_view, strategies_of
from udfs.route import PERM_READ, Route
from udfs.rules import Rules
from udfs.watch import GroupState, TopicWatch


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
            _note_route(watched, route, now_ms)
            watched.explanation.causes, watched.explanation.seen.taken = {}, {}
            replan_topic(state, watched, route, now_ms, rules)
    state.is_stale, state.changed_ms = False, now_ms


def _note_route(watched: TopicWatch, route: Route, now_ms: int) -> None:
    nums = {data.broker_name: data.read_queue_nums for data in route.queues if data.perm & PERM_READ}
    if nums != watched.read_queue_nums:
        if watched.read_queue_nums:
            watched.nums_before, watched.route_changed_ms = watched.read_queue_nums, now_ms
        watched.read_queue_nums = nums


def replan_topic(state: GroupState, watched: TopicWatch, route: Route, now_ms: int, rules: Rules) -> None:
    readable = [queue_name(queue) for queue in route.readable_queues()]
    write_only = [queue_name(queue) for queue in route.write_only_queues()] if watched.is_shared else []
    names = [*readable, *write_only]
    watched.queues = {name: watched.queues.get(name) or QueueWatch(since_ms=now_ms) for name in names}
    view = list((reference_view(state.membership.views, route.broker_names()) or {}).values())
    default, seen = rules.allocate_message_queue_strategy, watched.explanation.seen
    watched.is_planned = is_recomputed(strategies_of(view, default, seen))
    shares = plan(state.consumer_group, route, view, default, seen) if watched.is_planned else {}
    shares |= dict.fromkeys(write_only, Share(None, WRITE_ONLY_QUEUE))
    for name, watch in watched.queues.items():
        share = shares.get(name, Share(None))
        if share != watch.share or watch.share_since_ms == 0:
            watch.share, watch.share_since_ms = share, now_ms
