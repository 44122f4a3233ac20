"""One consumer group at one tick of the clock: expire, plan, judge, find, and step the incidents.

`now_ms` is the cluster's newest clock event. Between two ticks nothing is concluded, so a log gives the same
incidents however it is cut into batches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from udfs.absent import expire_absent
from udfs.alert import Finding, Transition, brokers_of
from udfs.calm import is_calm
from udfs.deadlines import calm_until, next_look_ms
from udfs.diagnosis import GROUP_OFFLINE, ORDER_LOCK
from udfs.findings import FINDERS
from udfs.findings.brokers import ORDER_AT_RISK, SLAVE_READ
from udfs.hearing import Hearing
from udfs.life import Look, Reason, end, step
from udfs.membership import Change, late_clients
from udfs.not_asked import NotAsked
from udfs.ownership import UNKNOWN, OwnershipRow
from udfs.queue_verdicts import Moment
from udfs.replan import close_queues, replan
from udfs.route import Route
from udfs.rules import Rules
from udfs.scene import Scene
from udfs.sight import Sight
from udfs.verdict import idle_topics, judge_topic
from udfs.verdict_reason import NOT_HEARD
from udfs.watch import GroupState

__all__ = ["Outcome", "close_queues", "end_all", "tick"]


@dataclass(frozen=True)
class Outcome:
    """What one tick has to say of one group. `due_ms`: look again then, even if nothing arrives; None for never.

    `completeness` is the share of its brokers and clients that was heard, 0 to 1. `is_calm`: repetitions need no look,
    and `due_ms` is its nearest deadline (calm.py, deadlines.py).
    """

    changes: list[Change]
    ownership: list[OwnershipRow]
    transitions: list[Transition]
    due_ms: int | None
    completeness: float = 1.0
    is_calm: bool = False


NEED_A_MASTER = (SLAVE_READ, ORDER_AT_RISK)
"""Kinds that a missing master brings about; beside them only queues whose locks nobody grants."""

NO_EFFECTS = ("duplicate_client_id", "client_id_at_risk", "inconsistent_subscription")
"""Kinds that no broker's trouble brings about."""


def tick(state: GroupState, routes: Mapping[str, Route], now_ms: int, hearing: Hearing, rules: Rules) -> Outcome:
    """Look at the group as of `now_ms`."""
    if hearing.gap_ms:
        state.skip(hearing.gap_ms, now_ms)
    brokers = {name for route in routes.values() for name in route.broker_names()} | state.membership.views.keys()
    not_asked = NotAsked.of(state.consumer_group, brokers, hearing)
    if not_asked.brokers:
        hearing = replace(hearing, unheard=hearing.unheard | not_asked.brokers.keys())
    changes = list(state.membership.expire(now_ms, rules.channel_expired_ms, hearing.unheard, state.heard_from_ms))
    if hearing.unheard and state.heard_from_ms <= (late_ms := now_ms - rules.heartbeat_late_ms):
        changes += expire_absent(state.membership, routes, hearing, now_ms, late_ms)
    closed = replan(state, routes, now_ms, rules) if changes or state.is_stale else []
    has_left = _has_left(state, routes)
    state.is_replaced = has_left and (state.is_replaced or _is_replaced(state, hearing))
    late = late_clients(state.membership, now_ms - rules.heartbeat_late_ms, state.heard_from_ms)
    members = [member for _, member in state.membership.members()]
    unjudged = tuple(member for member in members if not member.is_judged)
    telling = frozenset(member.client_id for member in members if member.tells_queues)
    moment = Moment(now_ms, hearing, not_asked, late, rules, unjudged, telling)
    ownership = [
        row
        for topic in sorted(state.topics)
        if topic in routes
        for row in judge_topic(state, topic, routes[topic], moment)
    ]
    ownership = closed + _forget(state, idle_topics(state, routes, now_ms, rules), ownership, now_ms)
    scene = Scene.of(state, routes, moment)
    sight = _see(scene)
    transitions: list[Transition] = []
    for kind, find in FINDERS:
        findings = find(scene)
        if findings and hearing.explains_anything():
            findings = {key: _explained(finding, hearing) for key, finding in findings.items()}
        transitions += step(state.incidents, state.windows, kind, findings, sight.look, rules)
    until_ms = calm_until(state, rules) if is_calm(scene, has_left=has_left) else now_ms
    if until_ms > now_ms:
        return Outcome(changes, ownership, transitions, until_ms, sight.completeness, is_calm=True)
    due_ms = next_look_ms(state, hearing, now_ms, rules)
    return Outcome(changes, ownership, transitions, due_ms, sight.completeness)


def _forget(state: GroupState, idle: list[str], ownership: list[OwnershipRow], now_ms: int) -> list[OwnershipRow]:
    """Drop these topics. The rows of this tick, where of theirs there is a last one alone: nobody owns their queues."""
    closed = [row for topic in idle for row in close_queues(state, now_ms, topic)]
    for topic in idle:
        state.forget_topic(topic)
    return [row for row in ownership if row.topic not in idle] + closed


def end_all(state: GroupState, reason: Reason, now_ms: int, topic: str | None = None) -> list[Transition]:
    """The group, or one topic of it, was deleted on purpose: what was open about it ends now, for that reason."""
    ended = [key for key, one in sorted(state.incidents.items()) if topic is None or one.labels.get("topic") == topic]
    if topic is not None:
        state.forget_topic(topic)
    return [end(state.incidents.pop(key), reason, Look(now_ms)) for key in ended]


def _see(scene: Scene) -> Sight:
    brokers = {name for route in scene.routes.values() for name in route.broker_names()}
    return Sight.of(
        scene.now_ms,
        brokers,
        scene.hearing.unheard | scene.hearing.silent,
        {**scene.last_heartbeat_ms, **dict.fromkeys(scene.last_heartbeat_ms.keys() & scene.not_asked.members, 0)},
        _unheard_queues(scene.state),
        late_ms=scene.now_ms - scene.rules.heartbeat_late_ms,
        completeness_min=scene.rules.completeness_min,
    )


def _unheard_queues(state: GroupState) -> frozenset[tuple[str, str]]:
    """(topic, queue) of which nothing is known because nobody was heard."""
    return frozenset(
        (topic, name)
        for topic, watched in state.topics.items()
        for name, watch in watched.queues.items()
        if watch.verdict == UNKNOWN and watch.reason in NOT_HEARD
    )


def _has_left(state: GroupState, routes: Mapping[str, Route]) -> bool:
    """No broker of its topics lists a member. One that left the routes may list who could not say good-bye."""
    routed = {name for route in routes.values() for name in route.broker_names()}
    return state.membership.views.keys().isdisjoint(routed) if routed else state.membership.is_empty()


def _is_replaced(state: GroupState, hearing: Hearing) -> bool:
    return state.most_members <= 1 and hearing.families.has_birth(
        state.consumer_group, state.conditions.get(GROUP_OFFLINE, state.changed_ms)
    )


def _explained(finding: Finding, hearing: Hearing) -> Finding:
    """The finding, suppressed by its broker's own incident where that explains it and nothing else does."""
    if finding.suppressed_by or finding.kind in NO_EFFECTS:
        return finding
    brokers = brokers_of(finding) or set(finding.under)
    needs_master = finding.kind in NEED_A_MASTER or finding.cause == ORDER_LOCK
    return replace(finding, suppressed_by=hearing.explains(brokers, needs_master=needs_master))
