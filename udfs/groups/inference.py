"""Why members pull other queues than planned: their strategy, the broker they ask, or the route they know is another.

Each hypothesis predicts a set of queues, and a member's pulls are held against it, the plainest first. Asked only of
groups in which something is wrong, and only when changes have settled, so that hand-overs are not mistaken for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from udfs.alerts.rules import REBALANCE_MS
from udfs.groups.plan import (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    MIXED_STRATEGY,
    RECOMPUTED,
    UNKNOWN_STRATEGY,
    Inference,
    InferredStrategies,
    is_recomputed,
    plan,
    reference_view,
    strategies_of,
)
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, UNOWNED
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdicts import Judged, Moment
from udfs.rocketmq.membership import Member
from udfs.rocketmq.route import Route, route_of_nums

STALE_ROUTE, SPLIT_VIEW = "stale_route", "split_view"

Shares = Mapping[str, frozenset[str]]
"""ClientId → its queues, as `broker:queue_id`: planned, or pulled lately."""

MOST_GUESSES = 8
"""Of routes as they may have been before anybody watched; topics are scaled evenly."""

RECENT_PULL_MS = 15_000 + REBALANCE_MS
"""A queue that a client holds is pulled at least this often, by the slowest of RocketMQ's own consumers, too."""

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hypotheses:
    """What a group's members may work from: the views of all brokers, the route, and the route before it changed.

    `last_pullers` is queue → the ClientId that pulled it last, of the queues pulled since then.
    """

    consumer_group: str
    route: Route
    route_before: Route | None
    view: Sequence[Member]
    other_views: Sequence[Sequence[Member]]
    default_strategy: str
    last_pullers: Mapping[str, str] = field(default_factory=dict)

    def shares(self, route: Route, members: Sequence[Member], seen: InferredStrategies) -> Shares:
        """ClientId → its queues."""
        shares: dict[str, set[str]] = {}
        for name, share in plan(self.consumer_group, route, members, self.default_strategy, seen).items():
            if share.owner:
                shares.setdefault(share.owner, set()).add(name)
        return {client_id: frozenset(names) for client_id, names in shares.items()}


def infer(
    state: GroupState, topic_state: TopicState, route: Route, verdicts: Mapping[str, Judged], moment: Moment
) -> bool:
    """Phase 4. Where a queue is as a healthy group would not have it, and changes have settled: what the pulls say of
    the reason. Whether the inference differs from the last one; then the topic is to be planned and judged once more.
    """
    is_settled = moment.now_ms >= state.changed_ms + moment.rules.settle_ms
    by_members = (None, DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY)
    is_wrong = any(
        verdict in (NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED)
        or (verdict == UNOWNED and topic_state.queues[name].share.gap in by_members)
        for name, (verdict, _) in verdicts.items()
    )
    if not (topic_state.is_planned and is_settled and is_wrong):
        return False
    inference = _explain(state, topic_state, route, moment)
    is_new = inference != topic_state.inference
    topic_state.inference = inference
    return is_new


def _explain(state: GroupState, topic_state: TopicState, route: Route, moment: Moment) -> Inference:
    now_ms, rules, known = moment.now_ms, moment.rules, topic_state.inference
    views, brokers = state.membership.views, route.broker_names()
    pulled: dict[str, set[str]] = {}
    for name, queue_state in topic_state.queues.items():
        for puller in queue_state.pullers.values():
            if puller.client_id and puller.last_pull_ms + RECENT_PULL_MS > now_ms:
                pulled.setdefault(puller.client_id, set()).add(name)
    default = rules.allocate_message_queue_strategy
    hypotheses = Hypotheses(
        state.consumer_group,
        route,
        route_of_nums(route.topic, topic_state.nums_before) if topic_state.nums_before else None,
        reference_view(views, route),
        [
            list(other.values())
            for name, other in sorted(views.items())
            if name in brokers and is_recomputed(strategies_of(list(other.values()), default, InferredStrategies()))
        ],
        default,
        {
            name: queue_state.last_client_id or ""
            for name, queue_state in topic_state.queues.items()
            if (queue_state.last_pull_ms or 0) > topic_state.route_changed_ms
        },
    )
    found = explain(hypotheses, {client_id: frozenset(names) for client_id, names in pulled.items()}, known)
    for client_id in moment.not_asked.members.keys() & known.seen.strategies.keys():
        found.seen.strategies.setdefault(client_id, known.seen.strategies[client_id])  # no pulls told
    return found


def explain(hypotheses: Hypotheses, pulled: Shares, known: Inference) -> Inference:
    """What the pulls of now support. `known` is the last inference: its strategies win where they still fit."""
    found = Inference()
    reported = {member.client_id for member in hypotheses.view if member.strategy}
    by_strategy = {
        name: hypotheses.shares(
            hypotheses.route, [replace(member, strategy=name) for member in hypotheses.view], InferredStrategies()
        )
        for name in RECOMPUTED
    }
    usual = strategies_of(hypotheses.view, hypotheses.default_strategy, InferredStrategies())
    for member in hypotheses.view:
        client_id = member.client_id
        if client_id in reported or client_id in found.seen.strategies or not pulled.get(client_id):
            continue
        preferred = (known.seen.strategies.get(client_id, usual[client_id]), usual[client_id], *RECOMPUTED)
        fitting = _fitting(pulled[client_id], client_id, preferred, by_strategy)
        if fitting:
            found.seen.strategies[client_id] = fitting
    worlds = _Hypothesis.of(hypotheses, found.seen, pulled)
    for client_id in sorted({member.client_id for member in hypotheses.view}):
        mine = pulled.get(client_id, frozenset())
        cause = worlds.cause(client_id, mine)
        if cause:
            found.causes[client_id] = cause
        elif mine - worlds.planned.get(client_id, _NONE) and client_id not in reported | found.seen.strategies.keys():
            found.seen.strategies[client_id] = UNKNOWN_STRATEGY
            found.seen.taken[client_id] = sorted(mine)
    return found


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


def _guess(hypotheses: Hypotheses, seen: InferredStrategies, planned: Shares, pulled: Shares) -> Shares | None:
    """Everybody's queues by a route with fewer queues that gives some member exactly what it pulls instead of its own.

    A topic may have been scaled before anybody watched. How many queues it had follows from how many a member
    holds.
    """
    route, view = hypotheses.route, hypotheses.view
    members = {member.client_id for member in view}
    odd = {one: pulled[one] for one in sorted(members & pulled.keys()) if pulled[one] - planned.get(one, _NONE)}
    if not odd or not route.queues:
        return None
    likely = [len(mine) * len(view) / len(route.queues) for mine in odd.values()]
    counts = range(1, max(data.read_queue_nums for data in route.queues))
    for count in sorted(counts, key=lambda count: min(abs(count - one) for one in likely))[:MOST_GUESSES]:
        fewer = tuple(replace(data, read_queue_nums=min(data.read_queue_nums, count)) for data in route.queues)
        shares = hypotheses.shares(replace(route, queues=fewer), view, seen)
        if any(mine == shares.get(client_id) for client_id, mine in odd.items()):
            return shares
    return None


@dataclass(frozen=True)
class _Hypothesis:
    """Everybody's queues as planned, by each other broker's view, and by the route before it changed, or may have."""

    planned: Shares
    by_views: Sequence[Shares]
    by_old_route: Shares | None
    last_pullers: Mapping[str, str]
    are_split: bool

    @classmethod
    def of(cls, hypotheses: Hypotheses, seen: InferredStrategies, pulled: Shares) -> "_Hypothesis":
        before, ids = hypotheses.route_before, {member.client_id for member in hypotheses.view}
        planned = hypotheses.shares(hypotheses.route, hypotheses.view, seen)
        return cls(
            planned,
            [hypotheses.shares(hypotheses.route, view, seen) for view in hypotheses.other_views],
            hypotheses.shares(before, hypotheses.view, seen) if before else _guess(hypotheses, seen, planned, pulled),
            hypotheses.last_pullers,
            any(ids != {member.client_id for member in view} for view in hypotheses.other_views),
        )

    def cause(self, client_id: str, mine: frozenset[str]) -> str | None:
        """The world in which it is right to pull `mine`, when that is not the planned one."""
        planned = self.planned.get(client_id, _NONE)
        if mine == planned:
            return None
        by_views = [shares.get(client_id, _NONE) for shares in self.by_views]
        if mine and any(mine <= share for share in by_views if share != planned):
            return SPLIT_VIEW if self.are_split else DUPLICATE_CLIENT_ID
        old = (self.by_old_route or {}).get(client_id, _NONE)
        has_held = any(self.last_pullers.get(name) == client_id for name in planned - mine)
        if self.by_old_route is not None and mine == old and not has_held:
            return STALE_ROUTE
        if mine <= planned and mine:
            return None
        if mine and by_views and mine <= planned.union(*by_views):
            return SPLIT_VIEW if self.are_split else DUPLICATE_CLIENT_ID
        return STALE_ROUTE if mine and mine <= planned | old else None
