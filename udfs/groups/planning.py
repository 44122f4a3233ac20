"""A group's plan, made anew when its members or a route changed."""

from collections.abc import Iterable, Mapping

from udfs.alerts.rules import Rules
from udfs.groups.closing import close_queues, last_rows
from udfs.groups.plan import (
    DUPLICATE_CLIENT_ID,
    MIXED_STRATEGY,
    NOBODYS,
    STRATEGY_GAP,
    WRITE_ONLY_QUEUE,
    PlannedShare,
    are_mixed,
    plan_topic_by,
    queue_name,
)
from udfs.groups.queue_state import OwnershipRow, Puller, QueueState
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import ASSIGNED
from udfs.rocketmq.membership import Member
from udfs.rocketmq.route import PERM_READ, Route


def plan_group(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> list[OwnershipRow]:
    """Recompute who should own each queue, from the members and routes as they are. The last rows of queues that are
    no more.
    """
    closed: list[OwnershipRow] = []
    members = [member for _, member in state.membership.members()]
    reported = {topic for member in members if member.is_judged for topic in member.topics}
    unreported = (
        state.topics.keys() if any(member.is_judged and not member.has_reported_topics for member in members) else ()
    )
    shared = {*reported, *unreported}
    for topic in sorted(shared):
        state.topics.setdefault(topic, TopicState(now_ms)).is_shared = True
    for topic, reason in _unjudged_topics(members).items():
        topic_state = state.topics.setdefault(topic, TopicState(now_ms))
        topic_state.unjudged, topic_state.is_shared = reason, topic in shared
    for topic, topic_state in list(state.topics.items()):
        is_subscribed = any(member.subscribes(topic) for member in members)
        if members and not topic_state.is_subscribed:
            topic_state.unjudged = ASSIGNED
        if topic_state.is_subscribed and members and not is_subscribed:
            closed += close_queues(state, now_ms, topic)
            state.forget_topic(topic)  # the group gave it up
        elif (route := routes.get(topic)) is not None:
            _note_route(topic_state, route, now_ms)
            topic_state.inference.causes, topic_state.inference.seen.taken = {}, {}
            dropped = plan_topic(state, topic_state, route, now_ms, rules)
            closed += last_rows(topic, dropped, now_ms)
    members_ids = {member.client_id for member in members}
    state.seen_pulling = [client_id for client_id in state.seen_pulling if client_id in members_ids]
    state.most_members = max(state.most_members, len(members_ids))
    state.is_stale, state.changed_ms = False, now_ms
    return closed


def _unjudged_topics(members: Iterable[Member]) -> dict[str, str]:
    """Topic → why its queues are not shared out, of the topics that members subscribe who do not share queues out."""
    found: dict[str, str] = {}
    for member in members:
        if not member.is_judged:
            reason = member.unjudged or ASSIGNED
            found |= {topic: min(reason, found.get(topic, reason)) for topic in member.topics}
    return found


def _note_route(topic_state: TopicState, route: Route, now_ms: int) -> None:
    nums = {data.broker_name: data.read_queue_nums for data in route.queues if data.perm & PERM_READ}
    if nums != topic_state.read_queue_nums:
        if topic_state.read_queue_nums:
            topic_state.nums_before, topic_state.route_changed_ms = topic_state.read_queue_nums, now_ms
        topic_state.read_queue_nums = nums


def plan_topic(
    state: GroupState, topic_state: TopicState, route: Route, now_ms: int, rules: Rules
) -> dict[str, QueueState]:
    """Plan one topic anew. The queues that its route has no more."""
    readable = [queue_name(queue) for queue in route.readable_queues()]
    write_only = [queue_name(queue) for queue in route.write_only_queues()] if topic_state.is_shared else []
    names = [*readable, *write_only]
    places = set(names)
    dropped = {name: queue_state for name, queue_state in topic_state.queues.items() if name not in places}
    topic_state.queues = {name: topic_state.queues.get(name) or QueueState(since_ms=now_ms) for name in names}
    if not topic_state.is_shared:
        _share_with_all(state, topic_state, route.topic, now_ms)
        return dropped
    default, seen = rules.allocate_message_queue_strategy, topic_state.inference.seen
    planned = plan_topic_by(state.consumer_group, route, state.membership.views, default, seen)
    topic_state.is_planned = planned is not None
    shares = {} if planned is None or route.has_queue_mapping else planned
    shares |= dict.fromkeys(write_only, PlannedShare(None, WRITE_ONLY_QUEUE))
    for name, queue_state in topic_state.queues.items():
        if not topic_state.is_planned and name not in shares and queue_state.share.gap != WRITE_ONLY_QUEUE:
            continue  # who pulls it decides (verdict), and a change of members alone tells nothing of that
        share = shares.get(name, PlannedShare(None))
        if share != queue_state.share or queue_state.share_since_ms == 0:
            queue_state.share, queue_state.share_since_ms = share, now_ms
    return dropped


def _share_with_all(state: GroupState, topic_state: TopicState, topic: str, now_ms: int) -> None:
    """No queue has an owner: each is every member's since the first of those that consume the topic came."""
    members = [member for _, member in state.membership.members()]
    served = [member for member in members if member.subscribes(topic)] or members
    since_ms = min((member.first_heartbeat_ms for member in served), default=None)
    for queue_state in topic_state.queues.values():
        queue_state.share = NOBODYS
        queue_state.share_since_ms = (queue_state.share_since_ms or now_ms) if since_ms is None else since_ms


def follow_pulls(
    state: GroupState,
    topic_state: TopicState,
    route: Route,
    pullers: dict[str, list[Puller]],
    now_ms: int,
    rules: Rules,
    *,
    is_judged: bool,
) -> list[OwnershipRow]:
    """Bring the plan up to who pulls: queues that are no more end, and where no plan can be recomputed pulls make it.

    Gives the last rows of queues that the route has no more.
    """
    closed = _drop_unrouted(topic_state, route, pullers, now_ms)
    if is_judged and not topic_state.is_planned:
        _plan_by_pulls(state, topic_state, pullers, rules)
    return closed


def _drop_unrouted(
    topic_state: TopicState, route: Route, pullers: dict[str, list[Puller]], now_ms: int
) -> list[OwnershipRow]:
    """The last rows of queues that the route has no more, as soon as nobody pulls them.

    Clients learn a route up to 30 s after us, and pull the queues that it has no more until then.
    """
    if route.has_queue_mapping:
        return []
    places = {queue_name(queue) for queue in (*route.readable_queues(), *route.write_only_queues())}
    left = [name for name in topic_state.queues if name not in places and not pullers[name]]
    dropped = {name: topic_state.queues.pop(name) for name in left}
    for name in left:
        del pullers[name]
    return last_rows(route.topic, dropped, now_ms)


def _plan_by_pulls(
    state: GroupState, topic_state: TopicState, pullers: Mapping[str, list[Puller]], rules: Rules
) -> None:
    """Where a strategy cannot be recomputed, who pulled a queue last keeps it until the members change.

    A queue that nobody has pulled since then, while others are pulled, is left out by the strategy or its options.
    """
    members = {member.client_id: member for _, member in state.membership.members()}
    twins = sorted({twins.client_id for twins in state.membership.twins(rules.channel_expired_ms)})
    is_mixed = are_mixed(members.values())
    for name, queue_state in topic_state.queues.items():
        pulling = {puller.client_id for puller in pullers[name]}
        newest = queue_state.share.owner if queue_state.share.owner in pulling else queue_state.last_client_id
        owner = newest if newest in members else None
        has_kept = bool(pullers[name]) or (queue_state.last_pull_ms or 0) > state.changed_ms
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
            queue_state.share_since_ms = max(state.changed_ms, queue_state.last_pull_ms or 0)
