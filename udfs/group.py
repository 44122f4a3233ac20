"""One consumer group at one tick of the clock: expire, plan, judge, find, and step the incidents.

`now_ms` is the cluster's newest clock event. Between two ticks nothing is concluded, so a log gives the same
incidents however it is cut into batches.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from udfs.alert import Finding, Transition, advance
from udfs.findings import FINDERS
from udfs.findings.brokers import REMEMBERED_MS
from udfs.hearing import Hearing
from udfs.membership import Change
from udfs.replan import replan
from udfs.route import Route
from udfs.rules import FORGET_GROUP_MS, PULL_MAX_IDLE_MS, Rules
from udfs.scene import Scene
from udfs.verdict import OwnershipRow, forget_idle_topics, judge_topic
from udfs.watch import GroupState

UNHEARD_LOOK_MS = 30_000
"""How soon to look again at members that a broker's silence keeps from expiring."""


@dataclass(frozen=True)
class Outcome:
    """What one tick has to say of one group. `due_ms`: look again then, even if nothing arrives; None for never."""

    changes: list[Change]
    ownership: list[OwnershipRow]
    transitions: list[Transition]
    due_ms: int | None


def tick(state: GroupState, routes: Mapping[str, Route], now_ms: int, hearing: Hearing, rules: Rules) -> Outcome:
    """Look at the group as of `now_ms`."""
    changes = list(state.membership.expire(now_ms, rules.channel_expired_ms, hearing.unheard))
    if changes or state.is_stale:
        replan(state, routes, now_ms, rules)
    ownership = [
        row
        for topic in sorted(state.topics)
        if topic in routes
        for row in judge_topic(state, topic, routes[topic], hearing, now_ms, rules)
    ]
    forget_idle_topics(state, routes, now_ms, rules)
    scene = Scene.of(state, routes, hearing, now_ms, rules)
    transitions: list[Transition] = []
    is_pending = False
    for kind, find in FINDERS:
        findings = find(scene)
        is_pending = is_pending or any(not finding.is_ready for finding in findings.values())
        transitions += _step(state, kind, findings, now_ms)
    due_ms = now_ms + 1 if is_pending else _due_ms(state, now_ms, rules)
    return Outcome(changes, ownership, transitions, due_ms)


def _step(state: GroupState, kind: str, findings: Mapping[str, Finding], now_ms: int) -> Iterator[Transition]:
    open_keys = {key for key in state.incidents if key == kind or key.startswith(f"{kind} ")}
    for key in sorted(open_keys | findings.keys()):
        incident, transition = advance(state.incidents.pop(key, None), findings.get(key), now_ms)
        if incident is not None:
            state.incidents[key] = incident
        if transition is not None:
            yield transition


def _due_ms(state: GroupState, now_ms: int, rules: Rules) -> int | None:
    """The nearest moment at which a threshold passes with nothing new arriving."""
    moments: set[int] = set()
    for _, member in state.membership.members():
        moments.update(
            (
                member.last_heartbeat_ms + rules.heartbeat_late_ms,
                member.last_heartbeat_ms + rules.channel_expired_ms,
            )
        )
    starts = {
        start
        for watched in state.topics.values()
        for watch in watched.queues.values()
        for start in (watch.last_pull_ms or 0, watch.share_since_ms, watch.since_ms, watched.watched_since_ms)
    }
    starts |= {
        puller.last_pull_ms
        for watched in state.topics.values()
        for watch in watched.queues.values()
        for puller in watch.pullers.values()
    }
    starts.add(state.changed_ms)
    holds = (rules.pull_silence_ms, rules.settle_ms, PULL_MAX_IDLE_MS, PULL_MAX_IDLE_MS + rules.settle_ms)
    moments.update(start + hold for start in starts for hold in holds)
    moments.update(watched.route_changed_ms + REMEMBERED_MS for watched in state.topics.values())
    if state.membership.is_empty() and state.topics:
        moments.add(state.changed_ms + FORGET_GROUP_MS)
    future = [moment for moment in moments if moment > now_ms]
    if not future:
        return now_ms + UNHEARD_LOOK_MS if not state.membership.is_empty() else None
    return min(future)
