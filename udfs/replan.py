"""A group's plan, made anew when its members or a route changed."""

from collections.abc import Mapping

from udfs.ownership import NOT_JUDGED, OwnershipRow, Puller, QueueWatch
from udfs.plan import (
    DUPLICATE_CLIENT_ID,
    MIXED_STRATEGY,
    STRATEGY_GAP,
    WRITE_ONLY_QUEUE,
    Share,
    are_mixed,
    is_recomputed,
    plan,
    queue_name,
    reference_view,
    strategies_of,
)
from udfs.route import PERM_READ, Route
from udfs.rules import Rules
from udfs.verdict_reason import GONE
from udfs.watch import GroupState, TopicWatch


def replan(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> list[OwnershipRow]:
    """Recompute who should own each queue, from the members and routes as they are. The last rows of queues that are
    no more.
    """
    closed: list[OwnershipRow] = []
    members = [member for _, member in state.membership.members()]
    told = {topic for member in members if member.is_judged for topic in member.topics}
    untold = state.topics.keys() if any(member.is_judged and not member.has_told_topics for member in members) else ()
    for topic in sorted({*told, *untold}):
        state.topics.setdefault(topic, TopicWatch(now_ms)).is_shared = True
    for topic, watched in list(state.topics.items()):
        is_subscribed = any(member.subscribes(topic) for member in members)
        if watched.is_shared and members and not is_subscribed:
            closed += close_queues(state, now_ms, topic)
            state.forget_topic(topic)  # the group gave it up
        elif (route := routes.get(topic)) is not None:
            _note_route(watched, route, now_ms)
            watched.explanation.causes, watched.explanation.seen.taken = {}, {}
            dropped = replan_topic(state, watched, route, now_ms, rules)
            closed += _last_rows(topic, dropped, now_ms)
    members_ids = {member.client_id for member in members}
    state.seen_pulling = [client_id for client_id in state.seen_pulling if client_id in members_ids]
    state.most_members = max(state.most_members, len(members_ids))
    state.is_stale, state.changed_ms = False, now_ms
    return closed


def close_queues(state: GroupState, now_ms: int, topic: str | None = None) -> list[OwnershipRow]:
    """The last rows of the group's queues, or of one topic's: nobody owns what is no more."""
    return [
        row
        for name, watched in sorted(state.topics.items())
        if topic in (None, name)
        for row in _last_rows(name, watched.queues, now_ms)
    ]


def _last_rows(topic: str, queues: Mapping[str, QueueWatch], now_ms: int) -> list[OwnershipRow]:
    return [
        OwnershipRow(topic, queue, None, [], NOT_JUDGED, now_ms, GONE)
        for queue, watch in queues.items()
        if watch.reported is not None and tuple(watch.reported) != (None, [], NOT_JUDGED)
    ]


def _note_route(watched: TopicWatch, route: Route, now_ms: int) -> None:
    nums = {data.broker_name: data.read_queue_nums for data in route.queues if data.perm & PERM_READ}
    if nums != watched.read_queue_nums:
        if watched.read_queue_nums:
            watched.nums_before, watched.route_changed_ms = watched.read_queue_nums, now_ms
        watched.read_queue_nums = nums


def replan_topic(
    state: GroupState, watched: TopicWatch, route: Route, now_ms: int, rules: Rules
) -> dict[str, QueueWatch]:
    """Plan one topic anew. The queues that its route has no more."""
    readable = [queue_name(queue) for queue in route.readable_queues()]
    write_only = [queue_name(queue) for queue in route.write_only_queues()] if watched.is_shared else []
    names = [*readable, *write_only]
    places = set(names)
    dropped = {name: watch for name, watch in watched.queues.items() if name not in places}
    watched.queues = {name: watched.queues.get(name) or QueueWatch(since_ms=now_ms) for name in names}
    view = list((reference_view(state.membership.views, route.broker_names()) or {}).values())
    default, seen = rules.allocate_message_queue_strategy, watched.explanation.seen
    watched.is_planned = is_recomputed(strategies_of(view, default, seen))
    is_known = watched.is_planned and not route.has_queue_mapping
    shares = plan(state.consumer_group, route, view, default, seen) if is_known else {}
    shares |= dict.fromkeys(write_only, Share(None, WRITE_ONLY_QUEUE))
    for name, watch in watched.queues.items():
        if not watched.is_planned and name not in shares and watch.share.gap != WRITE_ONLY_QUEUE:
            continue  # who pulls it decides (verdict), and a change of members alone tells nothing of that
        share = shares.get(name, Share(None))
        if share != watch.share or watch.share_since_ms == 0:
            watch.share, watch.share_since_ms = share, now_ms
    return dropped


def drop_unrouted(
    watched: TopicWatch, route: Route, pullers: dict[str, list[Puller]], now_ms: int
) -> list[OwnershipRow]:
    """The last rows of queues that the route has no more, as soon as nobody pulls them.

    Clients learn a route up to 30 s after us, and pull the queues that it has no more until then.
    """
    if route.has_queue_mapping:
        return []
    places = {queue_name(queue) for queue in (*route.readable_queues(), *route.write_only_queues())}
    left = [name for name in watched.queues if name not in places and not pullers[name]]
    dropped = {name: watched.queues.pop(name) for name in left}
    for name in left:
        del pullers[name]
    return _last_rows(route.topic, dropped, now_ms)


def plan_by_pulls(state: GroupState, watched: TopicWatch, pullers: Mapping[str, list[Puller]], rules: Rules) -> None:
    """Where a strategy cannot be recomputed, who pulled a queue last keeps it until the members change.

    A queue that nobody has pulled since then, while others are pulled, is left out by the strategy or its options.
    """
    members = {member.client_id: member for _, member in state.membership.members()}
    twins = sorted({twins.client_id for twins in state.membership.twins(rules.channel_expired_ms)})
    is_mixed = are_mixed(members.values())
    for name, watch in watched.queues.items():
        pulling = {puller.client_id for puller in pullers[name]}
        newest = watch.share.owner if watch.share.owner in pulling else watch.last_client_id
        owner = newest if newest in members else None
        has_kept = bool(pullers[name]) or (watch.last_pull_ms or 0) > state.changed_ms
        if watch.share.gap == WRITE_ONLY_QUEUE:
            continue
        if owner and has_kept:
            share = Share(owner)
        elif not any(pullers.values()) or not members:
            share = Share(None)
        elif twins and watch.last_pull_ms is not None:
            share = Share(None, DUPLICATE_CLIENT_ID, twins[0])
        else:
            share = Share(None, MIXED_STRATEGY if is_mixed else STRATEGY_GAP)
        if share != watch.share:
            watch.share = share
            watch.share_since_ms = max(state.changed_ms, watch.last_pull_ms or 0)
