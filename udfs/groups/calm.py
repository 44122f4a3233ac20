"""Whether a group is calm: its queues are pulled as they should be, nothing comes or goes, and its brokers give data.

A look at a calm group to which nothing but repetitions came (repeat.py) would say nothing and change nothing before one
of its deadlines (deadlines.py). Of the cluster it depends on which of its brokers give data, and on the incidents above
it.
"""

from collections.abc import Mapping

from udfs.alerts.alert import Incident
from udfs.alerts.life import FIRING, PENDING
from udfs.alerts.rules import Rules
from udfs.groups.findings.members import CLIENT_ID_AT_RISK, INCONSISTENT_SUBSCRIPTION
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.queue_state import NOT_JUDGED, OK, UNKNOWN, QueueState
from udfs.groups.snapshot import ON_TIME, GroupSnapshot
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Member

STANDING = (SPLIT_VIEW, INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK)
"""Kinds that rest on who is a member where, and on no pull: what is told of them stands until that changes."""


def is_calm(snapshot: GroupSnapshot, *, has_left: bool) -> bool:
    """As of an evaluation that is done. `has_left`: no broker of its topics lists a member."""
    state, broker_coverage, views = snapshot.state, snapshot.broker_coverage, snapshot.state.membership.views
    if has_left or state.is_stale or _may_move(snapshot):
        return False
    masters: set[str] = set()
    routed: set[str] = set()
    for route in snapshot.routes.values():
        brokers = route.broker_names()
        routed |= brokers
        masters |= brokers - set(route.without_master)
    if not (routed | views.keys()).isdisjoint(broker_coverage.without_data | broker_coverage.silent):
        return False
    if any(f"{ON_TIME}{broker_name}" not in state.conditions for broker_name in views.keys() & masters):
        return False
    if not all(map(_are_all_different, views.values())):
        return False
    return all(
        _is_calm_queue(queue_state, is_routed=topic in snapshot.routes)
        for topic, topic_state in state.topics.items()
        for queue_state in topic_state.queues.values()
    )


def _may_move(snapshot: GroupSnapshot) -> bool:
    """Whether an incident may go on by itself, or something holds that is about to become one.

    A window in which nothing comes only fades, which is made up for at the next evaluation.
    """
    state = snapshot.state
    if state.incidents and snapshot.not_asked.members:
        return True
    if any(window.is_flapping for window in state.windows.values()):
        return True
    if not all(condition.startswith((ON_TIME, *STANDING)) for condition in state.conditions):
        return True
    are_standing = all(_is_standing(incident, snapshot) for incident in state.incidents.values())
    return not (are_standing and are_held(state, snapshot.rules))


def _is_standing(incident: Incident, snapshot: GroupSnapshot) -> bool:
    """It says the same as long as nothing changes: all of it is reported, or it waits for its rule's own hold."""
    if incident.kind not in STANDING:
        return False
    if incident.state != FIRING or incident.next_queues is not None or incident.alone_ms is not None:
        return incident.state == PENDING
    held = (ms for condition, ms in snapshot.state.conditions.items() if condition.startswith(incident.kind))
    return all(map(snapshot.is_settled, held))


def are_held(state: GroupState, rules: Rules) -> bool:
    """Whether incidents that have not fired will have been seen for long and often enough at the next evaluation."""
    return all(
        incident.has_fired
        or (incident.held_ms >= kind.pending_ms and incident.evaluations + 1 >= kind.pending_evaluations)
        for incident in state.incidents.values()
        for kind in (rules.of_kind(incident.kind),)
    )


def _are_all_different(view: Mapping[str, Member]) -> bool:
    """No two channels carry one ClientId, so there are no twins to be proven."""
    return len({member.client_id for member in view.values()}) == len(view)


def _is_calm_queue(queue_state: QueueState, *, is_routed: bool) -> bool:
    """Its one puller is the right one, or nobody judges who pulls it."""
    if len(queue_state.pullers) > 1:
        return False
    if queue_state.verdict == OK:
        return bool(queue_state.pullers)
    return queue_state.verdict == NOT_JUDGED or (queue_state.verdict == UNKNOWN and not is_routed)
