"""A group's members and topics over time: members that left, the plan made anew, topics and queues that are no more.

A living client sends a heartbeat to every broker of its topics. A dead broker keeps its last list, so a client that
leaves meanwhile would stay a member there: an owner that never pulls, in a group that never ends.
"""

from collections.abc import Mapping

from udfs.alerts.rules import FORGET_GROUP_MS, Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.plan import NOBODYS, WRITE_ONLY_QUEUE, PlannedShare, plan, queue_name, reference_view
from udfs.groups.queue_state import NOT_JUDGED, OwnershipRow, QueueState, observed_pullers
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import ASSIGNED, BROKER, GONE
from udfs.rocketmq.membership import EXPIRED, Change, Member, Membership
from udfs.rocketmq.route import PERM_READ, Route


def expire(
    state: GroupState, routes: Mapping[str, Route], broker_coverage: BrokerCoverage, now_ms: int, rules: Rules
) -> list[Change]:
    """Phase 1. Return the members whose channels expired, or that left while a broker gives no data."""
    membership, data_from_ms = state.membership, state.data_from_ms
    changes = list(membership.expire(now_ms, rules.channel_expired_ms, broker_coverage.without_data, data_from_ms))
    late_ms = now_ms - rules.heartbeat_late_ms
    dead = broker_coverage.without_data | broker_coverage.silent
    if dead and data_from_ms <= late_ms:
        for broker_name in sorted(membership.views.keys() & dead):
            for member in sorted(membership.views[broker_name].values(), key=lambda member: member.client_addr):
                is_late = member.last_heartbeat_ms <= late_ms
                if is_late and _is_absent(member, membership, routes, broker_coverage, dead):
                    membership.drop(broker_name, member.client_addr)
                    changes.append(Change(broker_name, member, EXPIRED, now_ms))
    return changes


def _is_absent(
    member: Member,
    membership: Membership,
    routes: Mapping[str, Route],
    broker_coverage: BrokerCoverage,
    dead: frozenset[str],
) -> bool:
    """Whether living brokers serve the member's topics and none lists it; if none lives, no client has left.

    Agents report heartbeats, not answers.
    """
    listing = {
        broker_name
        for topic, route in routes.items()
        if member.subscribes(topic)
        for broker_name in route.broker_names() - dead - set(route.without_master)
        if not broker_coverage.answered or broker_name in broker_coverage.answered
    }
    views = (membership.views.get(broker_name, {}) for broker_name in listing)
    return bool(listing) and not any(one.client_id == member.client_id for view in views for one in view.values())


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
    unjudged: dict[str, str] = {}
    for member in members:
        if not member.is_judged:
            reason = member.unjudged or ASSIGNED
            unjudged |= {topic: min(reason, unjudged.get(topic, reason)) for topic in member.topics}
    for topic, reason in unjudged.items():
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
            nums = {data.broker_name: data.read_queue_nums for data in route.queues if data.perm & PERM_READ}
            if nums != topic_state.read_queue_nums:
                if topic_state.read_queue_nums:
                    topic_state.nums_before, topic_state.route_changed_ms = topic_state.read_queue_nums, now_ms
                topic_state.read_queue_nums = nums
            topic_state.inference.causes, topic_state.inference.seen.taken = {}, {}
            dropped = plan_topic(state, topic_state, route, now_ms, rules)
            closed += last_rows(topic, dropped, now_ms)
    members_ids = {member.client_id for member in members}
    state.seen_pulling = [client_id for client_id in state.seen_pulling if client_id in members_ids]
    state.most_members = max(state.most_members, len(members_ids))
    state.is_stale, state.changed_ms = False, now_ms
    return closed


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
    if not topic_state.is_shared:  # queues without owners: all members have each of them, since the first consumer came
        members = [member for _, member in state.membership.members()]
        served = [member for member in members if member.subscribes(route.topic)] or members
        since_ms = min((member.first_heartbeat_ms for member in served), default=None)
        for queue_state in topic_state.queues.values():
            queue_state.share = NOBODYS
            queue_state.share_since_ms = (queue_state.share_since_ms or now_ms) if since_ms is None else since_ms
        return dropped
    default, seen = rules.allocate_message_queue_strategy, topic_state.inference.seen
    view = reference_view(state.membership.views, route)
    planned = plan(state.consumer_group, route, view, default, seen)
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


def close_idle_topics(
    state: GroupState, routes: Mapping[str, Route], ownership: list[OwnershipRow], now_ms: int, rules: Rules
) -> list[OwnershipRow]:
    """Forget idle topics: those that no client subscribes or pulls any more, and all of a group that is gone. Return
    the rows of this tick; of an idle topic only the last ones, in which its queues have no owner.

    What a group without members pulled by assign() is kept as long as what others subscribed.
    """
    idle = []
    for topic, topic_state in sorted(state.topics.items()):
        if topic not in routes:
            for queue_state in topic_state.queues.values():
                pullers = observed_pullers(queue_state, now_ms, rules.pull_silence_ms)
                queue_state.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
        is_pulled = any(queue_state.pullers for queue_state in topic_state.queues.values())
        is_given_up = now_ms >= state.changed_ms + FORGET_GROUP_MS
        has_left = state.membership.is_empty()
        is_over = has_left and (topic not in routes or (is_given_up and topic_state.unjudged != BROKER))
        is_wanted = topic_state.is_subscribed or (has_left and topic_state.unjudged is not None)
        if not is_pulled and (is_over or not is_wanted):
            idle.append(topic)
    closed = [row for topic in idle for row in close_queues(state, now_ms, topic)]
    for topic in idle:
        state.forget_topic(topic)
    return [row for row in ownership if row.topic not in idle] + closed


def close_queues(state: GroupState, now_ms: int, topic: str | None = None) -> list[OwnershipRow]:
    """Return the last rows of the group's queues, or of one topic's: no client owns what is no more."""
    return [
        row
        for name, topic_state in sorted(state.topics.items())
        if topic in (None, name)
        for row in last_rows(name, topic_state.queues, now_ms)
    ]


def last_rows(topic: str, queues: Mapping[str, QueueState], now_ms: int) -> list[OwnershipRow]:
    return [
        OwnershipRow(topic, queue, None, [], NOT_JUDGED, now_ms, GONE)
        for queue, queue_state in queues.items()
        if queue_state.reported is not None and tuple(queue_state.reported) != (None, [], NOT_JUDGED)
    ]
