"""The verdict on each queue of one topic at one tick, and why it is UNKNOWN where it is. Verdicts: queue_state.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.not_asked import NotAsked
from udfs.groups.plan import PlannedShare, plan_recomputed
from udfs.groups.pullers import is_held_back
from udfs.groups.queue_state import (
    DOUBLE_CONSUMED,
    DOUBLED_TURNS,
    HAND_OVER_MS,
    MISPLACED,
    NOT_CONSUMED,
    OK,
    UNKNOWN,
    UNOWNED,
    Puller,
    QueueState,
    is_pulled_in_vain,
    last_served_ms,
)
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import (
    FLOW_CONTROL,
    NOT_ASKED,
    NOT_HEARD,
    PULLS_NOT_REPORTED,
    STRATEGY_UNKNOWN,
    TOO_NEW,
)
from udfs.rocketmq.heartbeat import ANY
from udfs.rocketmq.membership import Member, Membership, late_clients
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.route import Route


@dataclass(frozen=True)
class Moment:
    """What one evaluation of a group rests on.

    late       clients whose heartbeats are late
    unjudged   members that something else than client-side rebalance concerns
    reporting  clients that answer which queues they hold
    orderly    clients that consume in order
    mixed      topics that members subscribe by different expressions
    """

    now_ms: int
    broker_coverage: BrokerCoverage
    not_asked: NotAsked
    late: frozenset[str]
    rules: Rules
    unjudged: tuple[Member, ...] = ()
    reporting: frozenset[str] = frozenset()
    orderly: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, state: GroupState, now_ms: int, broker_coverage: BrokerCoverage, not_asked: NotAsked, rules: Rules
    ) -> "Moment":
        """The moment of the members as they are once expired ones have left."""
        late = late_clients(state.membership, now_ms - rules.heartbeat_late_ms, state.data_from_ms)
        members = [member for _, member in state.membership.members()]
        unjudged = tuple(member for member in members if not member.is_judged)
        reporting = frozenset(member.client_id for member in members if member.reports_queues)
        orderly = frozenset(member.client_id for member in members if member.consume_orderly)
        mixed = _mixed_topics(members)
        return cls(now_ms, broker_coverage, not_asked, late, rules, unjudged, reporting, orderly, mixed)


def _mixed_topics(members: Sequence[Member]) -> frozenset[str]:
    """Brokers filter by the newest member's expression, and clients drop what does not match their own."""
    topics = {topic for member in members for topic in member.filters}
    return frozenset(
        topic
        for topic in topics
        if len({member.filters.get(topic, ANY) for member in members if member.subscribes(topic)}) > 1
    )


class Judged(NamedTuple):
    """A verdict, and why, where it is UNKNOWN or NOT_JUDGED."""

    verdict: str
    reason: str | None = None


def judge_queues(
    state: GroupState, topic_state: TopicState, route: Route, pullers: Mapping[str, list[Puller]], moment: Moment
) -> dict[str, Judged]:
    """A queue that nobody is seen to pull is UNKNOWN while its broker gives no data; its silence counts from then."""
    other_plans = _other_plans(state, topic_state, route, moment.rules)
    since_ms = max(state.watched_since_ms, topic_state.watched_since_ms, topic_state.first_pull_ms or 0)
    return {
        name: _judge_queue(
            state,
            topic_state,
            name,
            pullers[name],
            {owner for shares in other_plans if name in shares and (owner := shares[name].owner)},
            since_ms,
            moment,
        )
        for name in topic_state.queues
    }


def _judge_queue(
    state: GroupState,
    topic_state: TopicState,
    name: str,
    pullers: list[Puller],
    other_owners: set[str],
    since_ms: int,
    moment: Moment,
) -> Judged:
    queue_state, (broker_name, _) = topic_state.queues[name], queue_order(name)
    data_since_ms = moment.broker_coverage.data_since_ms(broker_name)
    if data_since_ms is None and not pullers:
        if broker_name in moment.broker_coverage.missed and broker_name not in moment.not_asked.brokers:
            return Judged(queue_state.verdict, queue_state.reason)  # a lost round says nothing new
        return Judged(UNKNOWN, moment.not_asked.why_no_data(broker_name))
    since_ms = max(since_ms, data_since_ms or 0, state.first_pull_ms.get(broker_name, 0))
    unreported = None if pullers else _why_unreported(state, topic_state, queue_state, broker_name, moment)
    verdict = verdict_of(
        queue_state,
        _still_listed(state.membership, name, pullers),
        other_owners,
        watched_since_ms=since_ms,
        has_pulls=unreported is None,
        now_ms=moment.now_ms,
        rules=moment.rules,
        is_planned=topic_state.is_planned,
    )
    if verdict == UNOWNED and not topic_state.is_planned and unreported not in (None, PULLS_NOT_REPORTED):
        return Judged(UNKNOWN, unreported)  # by their pulls nobody takes it, and not all of those are known
    if verdict != UNKNOWN:
        return Judged(verdict)
    if is_too_new(queue_state, since_ms, moment.now_ms, moment.rules):
        unreported = TOO_NEW
    elif unreported in NOT_HEARD and moment.not_asked.is_lately(queue_state.share.owner):
        return Judged(queue_state.verdict, queue_state.reason)  # it was not asked in this round, by turn
    elif unreported == PULLS_NOT_REPORTED and not topic_state.is_planned:
        unreported = STRATEGY_UNKNOWN
    return Judged(UNKNOWN, unreported)


def _why_unreported(
    state: GroupState, topic_state: TopicState, queue_state: QueueState, broker_name: str, moment: Moment
) -> str | None:
    """Why a pull of the queue would not be known, or is not to be expected; None when its absence says something.

    Pulls are known where their broker tells all, or told the group's, and its owner's, before; of a topic that
    nobody ever pulled also where its owner answers a collector, which would tell them; of an orderly owner always, for
    whoever answers that it consumes in order is a push consumer and answers what it holds. Consumers that do not
    (DefaultMQPullConsumer, LitePull before 5.1.1) are never seen to pull. A frozen owner is known by its heartbeats,
    whatever else is not told of it.
    """
    owner, is_late = queue_state.share.owner, queue_state.share.owner in moment.late
    if not is_late and is_held_back(queue_state, moment.now_ms, moment.rules):
        return FLOW_CONTROL
    if moment.broker_coverage.reports_pulls(broker_name, moment.now_ms - moment.rules.settle_ms):
        return None
    missing = moment.not_asked.members
    reason = NOT_ASKED if broker_name in moment.not_asked.mute else missing.get(owner or "")
    if reason and not is_late:
        return reason
    may_pull = missing.keys() - moment.late
    if may_pull and not topic_state.is_planned:
        return min(missing[client_id] for client_id in may_pull)
    answers = owner in moment.reporting and moment.broker_coverage.reports_answers
    if answers and (topic_state.first_pull_ms is None or owner in moment.orderly):
        return None
    has_stopped = moment.broker_coverage.may_have_stopped_reporting(broker_name, queue_state.last_pull_ms)
    is_unknown = has_stopped and not is_late and owner not in moment.reporting
    was_reported = topic_state.first_pull_ms is not None and broker_name in state.first_pull_ms and not is_unknown
    return None if was_reported and (owner is None or is_late or owner in state.seen_pulling) else PULLS_NOT_REPORTED


def verdict_of(
    queue_state: QueueState,
    pullers: Sequence[Puller],
    other_owners: set[str],
    *,
    watched_since_ms: int,
    has_pulls: bool,
    now_ms: int,
    rules: Rules,
    is_planned: bool = True,
) -> str:
    """The verdict on one queue. A commit that advances is as good as a pull; one that stands still is worse than none.

    `other_owners` are the owners other brokers' views would give it; `watched_since_ms` is when the group and its
    topic were first seen; `has_pulls` whether any pull of the group was ever seen; `is_planned` is False when the
    strategy cannot be recomputed, so that whoever pulls is right.
    """
    verdict = _verdict_by_pulls(
        queue_state, pullers, other_owners, watched_since_ms, now_ms, rules, has_pulls, is_planned
    )
    known = queue_state.consumption
    if known is None or queue_state.share.owner is None or verdict == DOUBLE_CONSUMED:
        return verdict
    if known.stands_ms(now_ms, watched_since_ms) >= rules.consume_silence_ms:
        return NOT_CONSUMED
    is_life = verdict != MISPLACED and known.was_consumed_after(now_ms - rules.pull_silence_ms)
    return OK if is_life else verdict


def _verdict_by_pulls(
    queue_state: QueueState,
    pullers: Sequence[Puller],
    other_owners: set[str],
    watched_since_ms: int,
    now_ms: int,
    rules: Rules,
    has_pulls: bool,
    is_planned: bool,
) -> str:
    if pullers and not is_pulled_in_vain(queue_state):
        if find_doublings(queue_state, pullers):
            return DOUBLE_CONSUMED
        owners = {queue_state.share.owner, *other_owners} - {None}
        ids = {puller.client_id for puller in pullers}
        return OK if ids == {None} or ids & owners or not is_planned else MISPLACED
    if is_too_new(queue_state, watched_since_ms, now_ms, rules):
        return UNKNOWN
    if queue_state.share.owner is None:
        return UNOWNED if has_pulls or queue_state.share.gap else UNKNOWN
    return NOT_CONSUMED if has_pulls else UNKNOWN


def is_too_new(queue_state: QueueState, watched_since_ms: int, now_ms: int, rules: Rules) -> bool:
    """Whether nothing can be said of a silence yet."""
    since_ms = max(watched_since_ms, queue_state.share_since_ms, last_served_ms(queue_state))
    return now_ms < since_ms + rules.pull_silence_ms


def find_doublings(queue_state: QueueState, pullers: Sequence[Puller]) -> list[tuple[Puller, Puller]]:
    """Channels that overlap for longer than a hand-over takes, by turns: a hand-over there and back is no overlap."""
    if queue_state.anomaly is None or queue_state.anomaly.turns < DOUBLED_TURNS:
        return []
    return [
        (one, other)
        for one, other in combinations(pullers, 2)
        if one.last_pull_ms - other.first_pull_ms > HAND_OVER_MS
        and other.last_pull_ms - one.first_pull_ms > HAND_OVER_MS
    ]


def _still_listed(membership: Membership, queue: str, pullers: list[Puller]) -> list[Puller]:
    """Those whose channel the queue's broker lists; all where that would be nobody, or the broker tells no list.

    A client that has left pulls no more, though its last pull is not long ago.
    """
    broker_name, _ = queue_order(queue)
    view = membership.views.get(broker_name, {})
    listed = [puller for puller in pullers if puller.client_addr is None or puller.client_addr in view]
    return listed or pullers


def _other_plans(
    state: GroupState, topic_state: TopicState, route: Route, rules: Rules
) -> list[dict[str, PlannedShare]]:
    """The plans of all views, when they differ: an owner by any of them is not misplaced."""
    views = {name: state.membership.views[name] for name in state.membership.views.keys() & route.broker_names()}
    by_ids: dict[tuple[str, ...], dict[str, Member]] = {
        tuple(sorted(member.client_id for member in view.values())): view for view in views.values()
    }
    if len(by_ids) < 2 or not topic_state.is_planned:
        return []
    default = rules.allocate_message_queue_strategy
    plans = (
        plan_recomputed(state.consumer_group, route, list(view.values()), default, topic_state.inference.seen)
        for view in by_ids.values()
    )
    return [shares for shares in plans if shares is not None]
