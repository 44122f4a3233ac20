"""Why members pull other queues than planned: their strategy, the broker they ask, or the route they know is another.

Each hypothesis predicts a set of queues, and a member's pulls are held against it, the plainest first. Asked only of
groups in which something is wrong, and only when changes have settled, so that hand-overs are not mistaken for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from udfs.groups.plan import (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    MIXED_STRATEGY,
    RECOMPUTED,
    SPLIT_VIEW,
    STALE_ROUTE,
    UNKNOWN_STRATEGY,
    Inference,
    InferredStrategies,
    PlannedShare,
    is_recomputed,
    plan,
    reference_view,
    strategies_of,
)
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, RECENT_PULL_MS, UNOWNED
from udfs.groups.snapshot import GroupSnapshot
from udfs.groups.state import TopicState
from udfs.groups.verdicts import Judgement
from udfs.rocketmq.membership import Member
from udfs.rocketmq.route import Route, route_of_nums

Shares = Mapping[str, frozenset[str]]
"""ClientId → its queues, as `broker:queue_id`: planned, or pulled lately."""

MOST_GUESSES = 8
"""Of routes as they may have been before anybody watched; topics are scaled evenly."""

_NONE: frozenset[str] = frozenset()


def infer(snapshot: GroupSnapshot, judgement: Judgement) -> bool:
    """Phase 4. Where a queue is as a healthy group would not have it, and changes have settled: what the pulls say of
    the reason. Whether the inference differs from the last one; then the topic is to be planned and judged once more.
    """
    topic_state = judgement.topic_state
    by_members = (None, DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY)
    is_wrong = any(
        verdict in (NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED)
        or (verdict == UNOWNED and topic_state.queues[name].share.gap in by_members)
        for name, (verdict, _) in judgement.verdicts.items()
    )
    if not (topic_state.is_planned and snapshot.is_settled(snapshot.state.changed_ms) and is_wrong):
        return False
    before, topic_state.inference = topic_state.inference, _explain(snapshot, topic_state, judgement.route)
    return topic_state.inference != before


def _explain(snapshot: GroupSnapshot, topic_state: TopicState, route: Route) -> Inference:
    """What the pulls of now support. Of the last inference the strategies win where they still fit."""
    known, default = topic_state.inference, snapshot.rules.allocate_message_queue_strategy
    state, brokers = snapshot.state, route.broker_names()
    views = state.membership.views
    view, found = reference_view(views, route), Inference()
    pulled = _pulled(topic_state, snapshot.now_ms)

    def shares(of: Route, members: Sequence[Member], seen: InferredStrategies | None = None) -> Shares:
        return _shares_of(plan(state.consumer_group, of, members, default, seen) or {})

    reported = {member.client_id for member in view if member.strategy}
    by_strategy = {name: shares(route, [replace(member, strategy=name) for member in view]) for name in RECOMPUTED}
    usual = strategies_of(view, default, InferredStrategies())
    for client_id in {member.client_id: None for member in view if member.client_id not in reported}:
        preferred = (known.seen.strategies.get(client_id, usual[client_id]), usual[client_id], *RECOMPUTED)
        if client_id in pulled and (name := _fitting(pulled[client_id], client_id, preferred, by_strategy)):
            found.seen.strategies[client_id] = name
    others = [
        list(other.values())
        for name, other in sorted(views.items())
        if name in brokers and is_recomputed(strategies_of(list(other.values()), default, InferredStrategies()))
    ]
    planned, ids = shares(route, view, found.seen), {member.client_id for member in view}
    if topic_state.nums_before:
        by_old_route: Shares | None = shares(route_of_nums(route.topic, topic_state.nums_before), view, found.seen)
    else:
        by_old_route = _guess(route, view, planned, pulled, lambda fewer: shares(fewer, view, found.seen))
    by_views = [shares(route, other, found.seen) for other in others]
    by_members = SPLIT_VIEW if any(ids != {one.client_id for one in other} for other in others) else DUPLICATE_CLIENT_ID
    last_pullers = {
        name: queue_state.last_client_id
        for name, queue_state in topic_state.queues.items()
        if (queue_state.last_pull_ms or 0) > topic_state.route_changed_ms
    }

    def cause_of(client_id: str, mine: frozenset[str]) -> str | None:
        """The world in which it is right to pull `mine`, when that is not the planned one."""
        own = planned.get(client_id, _NONE)
        if mine == own:
            return None
        by_each = [of_view.get(client_id, _NONE) for of_view in by_views]
        if mine and any(mine <= share for share in by_each if share != own):
            return by_members
        old = (by_old_route or {}).get(client_id, _NONE)
        has_held = any(last_pullers.get(name) == client_id for name in own - mine)
        if by_old_route is not None and mine == old and not has_held:
            return STALE_ROUTE
        if mine <= own and mine:
            return None
        if mine and by_each and mine <= own.union(*by_each):
            return by_members
        return STALE_ROUTE if mine and mine <= own | old else None

    for client_id in sorted(ids):
        mine = pulled.get(client_id, _NONE)
        if cause := cause_of(client_id, mine):
            found.causes[client_id] = cause
        elif mine - planned.get(client_id, _NONE) and client_id not in reported | found.seen.strategies.keys():
            found.seen.strategies[client_id] = UNKNOWN_STRATEGY
            found.seen.taken[client_id] = sorted(mine)
    for client_id in snapshot.not_asked.members.keys() & known.seen.strategies.keys():
        found.seen.strategies.setdefault(client_id, known.seen.strategies[client_id])  # no pulls told
    return found


def _pulled(topic_state: TopicState, now_ms: int) -> Shares:
    pulled: dict[str, set[str]] = {}
    for name, queue_state in topic_state.queues.items():
        for puller in queue_state.pullers.values():
            if puller.client_id and puller.last_pull_ms + RECENT_PULL_MS > now_ms:
                pulled.setdefault(puller.client_id, set()).add(name)
    return {client_id: frozenset(names) for client_id, names in pulled.items()}


def _shares_of(planned: Mapping[str, PlannedShare]) -> Shares:
    shares: dict[str, set[str]] = {}
    for name, share in planned.items():
        if share.owner:
            shares.setdefault(share.owner, set()).add(name)
    return {client_id: frozenset(names) for client_id, names in shares.items()}


def _fitting(
    mine: frozenset[str],
    client_id: str,
    strategies: Sequence[str],
    by_strategy: Mapping[str, Shares],
) -> str | None:
    """The first strategy that gives exactly these queues; else the first of the two expected that gives them all."""
    shares = {name: by_strategy[name].get(client_id, _NONE) for name in strategies if name in by_strategy}
    exact = [name for name in strategies if name in shares and mine == shares[name]]
    partly = [name for name in strategies[:2] if name in shares and mine < shares[name]]
    return next(iter([*exact, *partly]), None)


def _guess(
    route: Route, view: Sequence[Member], planned: Shares, pulled: Shares, shares_by: Callable[[Route], Shares]
) -> Shares | None:
    """Everybody's queues by a route with fewer queues that gives some member exactly what it pulls instead of its own.

    A topic may have been scaled before anybody watched. How many queues it had follows from how many a member
    holds.
    """
    members = {member.client_id for member in view}
    odd = {one: pulled[one] for one in sorted(members & pulled.keys()) if pulled[one] - planned.get(one, _NONE)}
    if not odd or not route.queues:
        return None
    likely = [len(mine) * len(view) / len(route.queues) for mine in odd.values()]
    counts = range(1, max(data.read_queue_nums for data in route.queues))
    for count in sorted(counts, key=lambda count: min(abs(count - one) for one in likely))[:MOST_GUESSES]:
        fewer = tuple(replace(data, read_queue_nums=min(data.read_queue_nums, count)) for data in route.queues)
        shares = shares_by(replace(route, queues=fewer))
        if any(mine == shares.get(client_id) for client_id, mine in odd.items()):
            return shares
    return None
