"""The verdict on each queue of one topic at one tick, and why it is UNKNOWN where it is."""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from udfs.hearing import Hearing
from udfs.membership import Member, Membership
from udfs.model import queue_order
from udfs.not_asked import NotAsked
from udfs.ownership import STARVED, UNKNOWN, Puller, QueueWatch, is_too_new, judge, observed_pullers
from udfs.plan import Share, is_recomputed, plan, strategies_of
from udfs.replan import plan_by_pulls
from udfs.route import Route
from udfs.rules import Rules
from udfs.verdict_reason import HELD_BACK, NO_PULLS_TOLD, STRATEGY_UNKNOWN, TOO_NEW
from udfs.watch import GroupState, TopicWatch


@dataclass(frozen=True)
class Moment:
    """What one look at a group rests on. `late` are the clients whose heartbeats are late, `unjudged` the members that
    something else than client-side rebalance concerns, `telling` the clients that answer which queues they hold.
    """

    now_ms: int
    hearing: Hearing
    not_asked: NotAsked
    late: frozenset[str]
    rules: Rules
    unjudged: tuple[Member, ...] = ()
    telling: frozenset[str] = frozenset()


class Judged(NamedTuple):
    """A verdict, and why, where it is UNKNOWN or NOT_JUDGED."""

    verdict: str
    reason: str | None = None


def refresh_pullers(state: GroupState, name: str, watch: QueueWatch, moment: Moment) -> list[Puller]:
    """Who pulls the queue now, with ClientIds where their channel is known; others are forgotten.

    Who is held back by a full cache, and still a member, counts for as long as a commit may stand still.
    """
    now_ms, rules = moment.now_ms, moment.rules
    pullers = observed_pullers(watch, now_ms, rules.pull_silence_ms)
    if not pullers and watch.pullers and _is_held_back(watch, now_ms, rules):
        newest = max(watch.pullers.values(), key=lambda puller: puller.last_pull_ms)
        is_member = _has_channel(state.membership, name, newest) and newest.client_id not in moment.late
        pullers = [newest] if is_member and newest.last_pull_ms + rules.consume_silence_ms > now_ms else []
    for puller in pullers:
        puller.client_id = puller.client_id or _client_at(state.membership, name, puller.client_addr)
    if pullers:
        newest = max(pullers, key=lambda puller: puller.last_pull_ms)
        watch.last_client_id = newest.client_id or watch.last_client_id
    watch.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
    for puller in pullers:
        if puller.client_id:
            place = bisect.bisect_left(state.seen_pulling, puller.client_id)
            if state.seen_pulling[place : place + 1] != [puller.client_id]:
                state.seen_pulling.insert(place, puller.client_id)
    return pullers


def judge_queues(
    state: GroupState, watched: TopicWatch, route: Route, pullers: Mapping[str, list[Puller]], moment: Moment
) -> dict[str, Judged]:
    """A queue that nobody is seen to pull is UNKNOWN while its broker is not heard; its silence counts from then on."""
    other_plans = _other_plans(state, watched, route, moment.rules)
    since_ms = max(state.watched_since_ms, watched.watched_since_ms, watched.first_pull_ms or 0)
    if not watched.is_planned:
        plan_by_pulls(state, watched, pullers, moment.rules)
    return {
        name: _judge_queue(
            state,
            watched,
            name,
            pullers[name],
            {owner for shares in other_plans if name in shares and (owner := shares[name].owner)},
            since_ms,
            moment,
        )
        for name in watched.queues
    }


def _judge_queue(
    state: GroupState,
    watched: TopicWatch,
    name: str,
    pullers: list[Puller],
    other_owners: set[str],
    since_ms: int,
    moment: Moment,
) -> Judged:
    watch, (broker_name, _) = watched.queues[name], queue_order(name)
    heard_since_ms = moment.hearing.heard_since_ms(broker_name)
    if heard_since_ms is None and not pullers:
        if broker_name in moment.hearing.missed and broker_name not in moment.not_asked.brokers:
            return Judged(watch.verdict, watch.reason)  # a lost round says nothing new
        return Judged(UNKNOWN, moment.not_asked.why_unheard(broker_name))
    since_ms = max(since_ms, heard_since_ms or 0, state.first_pull_ms.get(broker_name, 0))
    untold = None if pullers else _why_untold(state, watched, watch, broker_name, moment)
    verdict = judge(
        watch,
        _still_listed(state.membership, name, pullers),
        other_owners,
        watched_since_ms=since_ms,
        has_pulls=untold is None,
        now_ms=moment.now_ms,
        rules=moment.rules,
        is_planned=watched.is_planned,
    )
    if verdict == STARVED and not watched.is_planned and untold not in (None, NO_PULLS_TOLD):
        return Judged(UNKNOWN, untold)  # by their pulls nobody takes it, and not all of those are known
    if verdict != UNKNOWN:
        return Judged(verdict)
    if is_too_new(watch, since_ms, moment.now_ms, moment.rules):
        return Judged(UNKNOWN, TOO_NEW)
    return Judged(UNKNOWN, STRATEGY_UNKNOWN if untold == NO_PULLS_TOLD and not watched.is_planned else untold)


def _why_untold(
    state: GroupState, watched: TopicWatch, watch: QueueWatch, broker_name: str, moment: Moment
) -> str | None:
    """Why a pull of the queue would not be known, or is not to be expected; None when its absence says something.

    Pulls are known where their broker tells all, or told the group's, and its owner's, before; of a topic that
    nobody ever pulled also where its owner answers a collector, which would tell them. Consumers that do not
    answer what they hold (DefaultMQPullConsumer, LitePull before 5.1.1) are never seen to pull. A frozen owner is
    known by its heartbeats, whatever else is not told of it.
    """
    owner, is_late = watch.share.owner, watch.share.owner in moment.late
    if not is_late and _is_held_back(watch, moment.now_ms, moment.rules):
        return HELD_BACK
    if moment.hearing.tells_pulls(broker_name, moment.now_ms - moment.rules.settle_ms):
        return None
    missing = moment.not_asked.members
    if owner is not None and owner in missing and not is_late:
        return missing[owner]
    may_pull = missing.keys() - moment.late
    if may_pull and not watched.is_planned:
        return min(missing[client_id] for client_id in may_pull)
    if watched.first_pull_ms is None and owner in moment.telling and moment.hearing.tells_answers:
        return None
    was_told = watched.first_pull_ms is not None and broker_name in state.first_pull_ms
    return None if was_told and (owner is None or is_late or owner in state.seen_pulling) else NO_PULLS_TOLD


def _is_held_back(watch: QueueWatch, now_ms: int, rules: Rules) -> bool:
    """Its client's cache was full at the newest pull, and its commit is not known to stand still for long."""
    known = watch.consumption
    return known is not None and known.is_cache_full and known.stands_ms(now_ms) < rules.consume_silence_ms


def _has_channel(membership: Membership, queue: str, puller: Puller) -> bool:
    view = membership.views.get(queue_order(queue)[0], {})
    return puller.client_addr in view or any(member.client_id == puller.client_id for member in view.values())


def _still_listed(membership: Membership, queue: str, pullers: list[Puller]) -> list[Puller]:
    """Those whose channel the queue's broker lists; all where that would be nobody, or the broker tells no list.

    A client that has left pulls no more, though its last pull is not long ago.
    """
    broker_name, _ = queue_order(queue)
    view = membership.views.get(broker_name, {})
    listed = [puller for puller in pullers if puller.client_addr is None or puller.client_addr in view]
    return listed or pullers


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
