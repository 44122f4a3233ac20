"""One consumer group at one tick of the clock.

    expire ─► plan ─► judge ─► infer (only what is wrong; plan and judge once more) ─► report ─► find ─► step

`now_ms` is the cluster's newest clock event. Between two ticks nothing is concluded, so a log gives the same
incidents however it is cut into batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from udfs.alerts.alert import Finding, Incident, Transition, brokers_of
from udfs.alerts.life import Coverage, Evaluation, Reason, end, step
from udfs.alerts.phrase import join_sentences, phrase, plural, some_of
from udfs.alerts.prose import join_words, queues_of_topic
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage, FrozenQueues
from udfs.groups.backlog import BacklogRow, report_backlogs
from udfs.groups.calm import calm_until, is_calm, next_evaluation_ms
from udfs.groups.diagnosis import CONSUME_STOPPED, FROZEN_CLIENT, GROUP_OFFLINE, ORDER_LOCK, PULL_STOPPED
from udfs.groups.findings import FINDERS
from udfs.groups.findings.brokers import ORDER_AT_RISK, SLAVE_READ
from udfs.groups.findings.queues import STALLED_QUEUE, STARVED_QUEUE
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
    is_recomputed,
    plan,
    reference_view,
    strategies_of,
)
from udfs.groups.planning import close_idle_topics, expire, plan_group
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, RECENT_PULL_MS, UNOWNED, OwnershipRow
from udfs.groups.snapshot import GroupSnapshot, NotAsked
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdicts import Judgement, judge, judge_again, report, route_revive_log
from udfs.rocketmq.membership import Change, Member, process_of
from udfs.rocketmq.route import Route, route_of_nums


@dataclass(frozen=True)
class Outcome:
    """What one tick has to say of one group. `due_ms`: look again then, even if nothing arrives; None for never.

    `completeness` is the share of its brokers and clients that gave data, 0 to 1. `is_calm`: repetitions need no
    evaluation, and `due_ms` is its nearest deadline (calm.py).
    """

    changes: list[Change]
    ownership: list[OwnershipRow]
    transitions: list[Transition]
    due_ms: int | None
    completeness: float = 1.0
    is_calm: bool = False
    backlogs: list[BacklogRow] = field(default_factory=list)


NEED_A_MASTER = (SLAVE_READ, ORDER_AT_RISK)
"""Kinds that a missing master brings about."""

OF_NO_MASTER = (ORDER_LOCK, PULL_STOPPED)
"""Causes likewise: nobody grants locks, and a slave without slaveReadEnable serves no pull."""

NO_EFFECTS = ("duplicate_client_id", "client_id_at_risk", "inconsistent_subscription")
"""Kinds that no broker's trouble brings about."""


def tick(
    state: GroupState, routes: Mapping[str, Route], now_ms: int, broker_coverage: BrokerCoverage, rules: Rules
) -> Outcome:
    """Evaluate the group as of `now_ms`: a phase after the other, each visited once, none calling another."""
    routes = route_revive_log(state, routes)
    if broker_coverage.gap_ms:
        state.skip(broker_coverage.gap_ms, now_ms)
    broker_coverage, not_asked = _cover(state, routes, broker_coverage, now_ms - rules.pull_silence_ms)
    changes = expire(state, routes, broker_coverage, now_ms, rules)
    closed = plan_group(state, routes, now_ms, rules) if changes or state.is_stale else []
    routed = {name for route in routes.values() for name in route.broker_names()}
    # A broker that left the routes may list members who could not say good-bye.
    has_left = state.membership.views.keys().isdisjoint(routed) if routed else state.membership.is_empty()
    is_alone, left_ms = state.most_members <= 1, state.conditions.get(GROUP_OFFLINE, state.changed_ms)
    has_birth = has_left and is_alone and broker_coverage.families.has_birth(state.consumer_group, left_ms)
    state.is_replaced = has_left and (state.is_replaced or has_birth)
    snapshot = GroupSnapshot(state, routes, now_ms, broker_coverage, not_asked, rules)
    judgements = [judge(snapshot, topic) for topic in sorted(state.topics) if topic in routes]
    explained = [one for one in judgements if one.unjudged is None and infer(snapshot, one)]
    for judgement in explained:
        judge_again(snapshot, judgement)
    ownership = [row for judgement in judgements for row in report(judgement, now_ms)]
    ownership = closed + close_idle_topics(state, routes, ownership, now_ms, rules)
    backlogs = report_backlogs(state, now_ms, rules)
    snapshot.note_on_time()
    coverage = snapshot.coverage()
    transitions = [row for kind, find in FINDERS for row in _step(snapshot, kind, find(snapshot), coverage)]
    if is_calm(snapshot, has_left=has_left) and (until_ms := calm_until(state, rules)) > now_ms:
        return Outcome(changes, ownership, transitions, until_ms, coverage.completeness, True, backlogs)
    due_ms = next_evaluation_ms(state, broker_coverage, now_ms, rules)
    return Outcome(changes, ownership, transitions, due_ms, coverage.completeness, False, backlogs)


def _cover(
    state: GroupState, routes: Mapping[str, Route], broker_coverage: BrokerCoverage, lately_ms: int
) -> tuple[BrokerCoverage, NotAsked]:
    """What of the group gave data, and of whom nobody asked; a broker not asked of the group is one without data."""
    brokers = {name for route in routes.values() for name in route.broker_names()} | state.membership.views.keys()
    client_ids = (member.client_id for _, member in state.membership.members())
    not_asked = NotAsked.of(state.consumer_group, brokers, client_ids, broker_coverage, lately_ms)
    if not_asked.brokers:
        broker_coverage = replace(broker_coverage, without_data=broker_coverage.without_data | not_asked.brokers.keys())
    return broker_coverage, not_asked


def _step(snapshot: GroupSnapshot, kind: str, found: Iterable[Finding], coverage: Coverage) -> Iterator[Transition]:
    """Phase 7. The incidents of one kind, moved on by what was found."""
    broker_coverage = snapshot.broker_coverage
    findings = {finding.key: _explained(finding, broker_coverage) for finding in found}
    if findings and kind in KINDS:
        findings = as_one_cause(findings, snapshot.state, broker_coverage.frozen, broker_coverage.unserved)
    return step(snapshot.state.incidents, snapshot.state.windows, kind, findings, coverage.evaluation, snapshot.rules)


def end_all(state: GroupState, reason: Reason, now_ms: int, topic: str | None = None) -> list[Transition]:
    """The group, or one topic of it, was deleted on purpose: what was open about it ends now, for that reason."""
    ended = [key for key, one in sorted(state.incidents.items()) if topic is None or one.labels.get("topic") == topic]
    if topic is not None:
        state.forget_topic(topic)
    return [end(state.incidents.pop(key), reason, Evaluation(now_ms)) for key in ended]


def _explained(finding: Finding, broker_coverage: BrokerCoverage) -> Finding:
    """The finding, inhibited by its broker's own incident where that explains it and nothing else does."""
    if finding.inhibited_by or finding.kind in NO_EFFECTS:
        return finding
    brokers = brokers_of(finding) or set(finding.under)
    needs_master = finding.kind in NEED_A_MASTER or finding.cause in OF_NO_MASTER
    return replace(finding, inhibited_by=broker_coverage.explains(brokers, needs_master=needs_master))


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
    before, topic_state.inference = topic_state.inference, _weigh_hypotheses(snapshot, topic_state, judgement.route)
    return topic_state.inference != before


def _weigh_hypotheses(snapshot: GroupSnapshot, topic_state: TopicState, route: Route) -> Inference:
    """Why members pull other queues than planned: their strategy, the broker they ask, or their route is another.

    Each hypothesis predicts a set of queues, and a member's pulls are held against it, the plainest first. Of the last
    inference the strategies win where they still fit.
    """
    known, default = topic_state.inference, snapshot.rules.allocate_message_queue_strategy
    state, brokers = snapshot.state, route.broker_names()
    views = state.membership.views
    view, found = reference_view(views, route), Inference()
    pulled = _pulled(topic_state, snapshot.now_ms)

    def shares(of: Route, members: Sequence[Member], seen: InferredStrategies | None = None) -> Shares:
        owned: dict[str, set[str]] = {}
        for name, share in (plan(state.consumer_group, of, members, default, seen) or {}).items():
            if share.owner:
                owned.setdefault(share.owner, set()).add(name)
        return {client_id: frozenset(names) for client_id, names in owned.items()}

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
        found.seen.strategies.setdefault(client_id, known.seen.strategies[client_id])  # no pulls reported
    return found


def _pulled(topic_state: TopicState, now_ms: int) -> Shares:
    pulled: dict[str, set[str]] = {}
    for name, queue_state in topic_state.queues.items():
        for puller in queue_state.pullers.values():
            if puller.client_id and puller.last_pull_ms + RECENT_PULL_MS > now_ms:
                pulled.setdefault(puller.client_id, set()).add(name)
    return {client_id: frozenset(names) for client_id, names in pulled.items()}


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


PROCESSES, UNSERVED = "processes", "unserved_brokers"
"""The entries of the evidence that name the frozen processes, or the brokers that serve no pull."""

KINDS = (STARVED_QUEUE, STALLED_QUEUE)
"""An incident waits under one of its own kind or of an earlier one."""

Frozen = Mapping[str, Sequence[FrozenQueues]]
"""Consumer group to its open incidents with a shared cause."""


def frozen_of(state: GroupState) -> list[FrozenQueues]:
    """Return the group's open incidents with a shared cause, as of an evaluation that is done."""
    return [
        FrozenQueues(
            state.consumer_group,
            incident.topic or "",
            incident.incident_id,
            list(culprits),
            list(incident.queues),
            incident.has_fired and incident.inhibited_by is None,
            incident.kind,
        )
        for key, incident in sorted(state.incidents.items())
        if incident.kind in KINDS
        and (culprits := incident.evidence.get(PROCESSES) or incident.evidence.get(UNSERVED))
        and not (incident.kind == STALLED_QUEUE and incident.inhibited_by)
    ]


@dataclass(frozen=True)
class _Shared:
    """A finding whose cause other incidents may share: `culprits` by the name of their entry in the evidence."""

    key: str
    finding: Finding
    entry: str
    culprits: list[str]
    own: Incident | None

    @property
    def is_page(self) -> bool:
        """An incident that was notified by itself is not put under another one afterwards."""
        return self.own is not None and self.own.has_fired and self.own.inhibited_by is None


def as_one_cause(
    findings: Mapping[str, Finding], state: GroupState, frozen: Frozen, unserved: frozenset[str] = frozenset()
) -> dict[str, Finding]:
    """Return a group's findings of one kind, with frozen processes and brokers without pulls named. An incident whose
    culprits another one of the cluster has paged waits under that one; an incident that pages lists what the others
    hold. `unserved` are the brokers that serve no pull. Queues that a frozen process leaves to one that does not pull
    them either stay one incident.
    """
    shared = {one.key: one for one in _find_shared(findings, state, unserved)}
    named = dict(findings)
    for key, one in shared.items():
        own = (state.consumer_group, one.finding.topic)
        page = None if one.is_page else _page_of(one, _others(frozen, own)) or _sibling_of(one, shared)
        named[key] = replace(
            _listing(one, _others(frozen, own)) if page is None else one.finding,
            evidence={**one.finding.evidence, one.entry: one.culprits},
            inhibited_by=page,
        )
    return named


def _others(frozen: Frozen, own: tuple[str, str | None]) -> Iterator[FrozenQueues]:
    """Yield the incidents of other groups or topics, oldest group first: a page comes before what waits under it."""
    return (other for incidents in frozen.values() for other in incidents if (other.consumer_group, other.topic) != own)


def _find_shared(findings: Mapping[str, Finding], state: GroupState, unserved: frozenset[str]) -> Iterator[_Shared]:
    for key, finding in sorted(findings.items()):
        own = state.incidents.get(key)
        if finding.inhibited_by is not None:
            continue
        known = own.evidence if own is not None else {}
        brokers = brokers_of(finding)
        if finding.cause in (PULL_STOPPED, CONSUME_STOPPED) and brokers <= unserved | set(known.get(UNSERVED, ())):
            yield _Shared(key, finding, UNSERVED, sorted(brokers), own)
        elif finding.kind == STARVED_QUEUE and (
            finding.cause == FROZEN_CLIENT
            or (finding.cause == PULL_STOPPED and own is not None and own.has_fired and PROCESSES in known)
        ):
            addrs = {member.client_id: member.client_addr for _, member in state.membership.members()}
            blamed = {one["client_id"] for one in finding.evidence["queues"].values() if one["cause"] == finding.cause}
            processes = {process_of(one, addrs[one]) for one in blamed if one in addrs}
            yield _Shared(key, finding, PROCESSES, sorted(processes or set(known.get(PROCESSES, ()))), own)


def _covers_all(one: _Shared) -> bool:
    """Whether nothing but the culprits starves the finding's queues."""
    if one.entry == UNSERVED:
        return True
    return bool(one.culprits) and all(
        each["cause"] == one.finding.cause for each in one.finding.evidence["queues"].values()
    )


def _page_of(one: _Shared, others: Iterable[FrozenQueues]) -> str | None:
    """The first open page that covers each of the culprits."""
    if not _covers_all(one):
        return None
    kinds, culprits = KINDS[: KINDS.index(one.finding.kind) + 1], set(one.culprits)
    covering = (
        other for other in others if other.is_page and other.kind in kinds and culprits.issubset(other.culprits)
    )
    return next((other.incident_id for other in covering), None)


def _sibling_of(one: _Shared, shared: Mapping[str, _Shared]) -> str | None:
    """The incident of another topic of the group that pages for the same culprits, now or before."""
    for key, first in shared.items():
        if key >= one.key or first.own is None or not _covers_all(one) or not set(one.culprits) <= set(first.culprits):
            continue
        is_due = first.finding.is_ready and first.own.held_ms >= (one.own.held_ms if one.own else 0)
        if first.is_page or (is_due and not first.own.has_fired):
            return first.own.incident_id
    return None


def _listing(one: _Shared, others: Iterable[FrozenQueues]) -> Finding:
    """The finding with its culprits, and the other queues that they starve, in the summary."""
    culprits, kind = set(one.culprits), one.finding.kind
    same = [other for other in others if other.kind == kind and not culprits.isdisjoint(other.culprits)]
    same.sort(key=lambda other: (other.consumer_group, other.topic))
    if not one.culprits or not (same or one.entry == UNSERVED):
        return one.finding
    queues = [
        phrase("{queues} in group {consumer_group}").given(
            queues=queues_of_topic(other.queues, other.topic), consumer_group=other.consumer_group
        )
        for other in same
    ]
    text, number, listed = one.finding.text, len(one.culprits), some_of(queues, 20)
    also = phrase("; affected, too: {queues}", queues=listed) if listed else ""
    if one.entry == UNSERVED:
        more = plural(
            number,
            "Broker {names} serves no pull of any group, although heartbeats and committed offsets arrive{also}.",
            "Brokers {names} serve no pull of any group, although heartbeats and committed offsets arrive{also}.",
        )
        brokers = plural(number, "broker {names}", "brokers {names}", names=one.culprits)
        first = phrase("First check the pull threads of {brokers}.", brokers=brokers)
        text = text._replace(advice=join_sentences(first, text.advice))
    elif one.finding.cause == FROZEN_CLIENT:
        more = plural(number, "Process {names} is frozen{also}.", "Process {names} are frozen{also}.")
    else:
        more = plural(number, "Process {names} is without pulls{also}.", "Process {names} are without pulls{also}.")
    text = text._replace(summary=join_sentences(text.summary, more.given(names=one.culprits, also=also)))
    return replace(one.finding, text=text, figures=join_words([str(queue) for queue in listed]) if listed else "")
