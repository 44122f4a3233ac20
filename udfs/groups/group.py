"""One consumer group at one tick of the clock.

    expire ─► plan ─► judge ─► infer (only what is wrong; plan and judge once more) ─► report ─► find ─► step

`now_ms` is the cluster's newest clock event. Between two ticks nothing is concluded, so a log gives the same
incidents however it is cut into batches.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from udfs.alerts.alert import Finding, Transition, brokers_of
from udfs.alerts.life import Coverage, Evaluation, Reason, end, step
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.calm import calm_until, is_calm, next_evaluation_ms
from udfs.groups.diagnosis import GROUP_OFFLINE, ORDER_LOCK, PULL_STOPPED
from udfs.groups.findings import FINDERS
from udfs.groups.findings.brokers import ORDER_AT_RISK, SLAVE_READ
from udfs.groups.frozen_process import KINDS, as_one_cause
from udfs.groups.inference import infer
from udfs.groups.not_asked import NotAsked
from udfs.groups.planning import close_idle_topics, expire, plan_group
from udfs.groups.queue_state import OwnershipRow
from udfs.groups.snapshot import GroupSnapshot
from udfs.groups.state import GroupState
from udfs.groups.verdicts import judge, judge_again, report, route_revive_log
from udfs.rocketmq.membership import Change
from udfs.rocketmq.route import Route


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
    snapshot.note_on_time()
    coverage = snapshot.coverage()
    transitions = [row for kind, find in FINDERS for row in _step(snapshot, kind, find(snapshot), coverage)]
    if is_calm(snapshot, has_left=has_left) and (until_ms := calm_until(state, rules)) > now_ms:
        return Outcome(changes, ownership, transitions, until_ms, coverage.completeness, is_calm=True)
    due_ms = next_evaluation_ms(state, broker_coverage, now_ms, rules)
    return Outcome(changes, ownership, transitions, due_ms, coverage.completeness)


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
