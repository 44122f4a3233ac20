"""Whether a group is calm: its queues are pulled as they should be, nothing comes or goes, and its brokers are heard.

A look at a calm group to which nothing but repetitions came (repeat.py) would say nothing and change nothing before one
of its deadlines (deadlines.py). Of the cluster it depends on which of its brokers are heard, and on the incidents above
it.
"""

from collections.abc import Mapping

from udfs.alert import Incident
from udfs.explanation import SPLIT_VIEW
from udfs.findings.members import CLIENT_ID_AT_RISK, INCONSISTENT_SUBSCRIPTION
from udfs.life import FIRING, PENDING
from udfs.membership import Member
from udfs.ownership import NOT_JUDGED, OK, UNKNOWN, QueueWatch
from udfs.rules import Rules
from udfs.scene import ON_TIME, Scene
from udfs.watch import GroupState

STANDING = (SPLIT_VIEW, INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK)
"""Kinds that rest on who is a member where, and on no pull: what is told of them stands until that changes."""


def is_calm(scene: Scene, *, has_left: bool) -> bool:
    """As of a look that is done. `has_left`: no broker of its topics lists a member."""
    state, hearing, views = scene.state, scene.hearing, scene.state.membership.views
    if has_left or state.is_stale or _may_move(scene):
        return False
    masters: set[str] = set()
    routed: set[str] = set()
    for route in scene.routes.values():
        brokers = route.broker_names()
        routed |= brokers
        masters |= brokers - set(route.without_master)
    if not (routed | views.keys()).isdisjoint(hearing.unheard | hearing.silent):
        return False
    if any(f"{ON_TIME}{broker_name}" not in state.conditions for broker_name in views.keys() & masters):
        return False
    if not all(map(_are_all_different, views.values())):
        return False
    return all(
        _is_calm_queue(watch, is_routed=topic in scene.routes)
        for topic, watched in state.topics.items()
        for watch in watched.queues.values()
    )


def _may_move(scene: Scene) -> bool:
    """Whether an incident may go on by itself, or something holds that is about to become one.

    A window in which nothing comes only fades, which is made up for at the next look.
    """
    state = scene.state
    if state.incidents and scene.not_asked.members:
        return True
    if any(window.is_flapping for window in state.windows.values()):
        return True
    if not all(condition.startswith((ON_TIME, *STANDING)) for condition in state.conditions):
        return True
    are_standing = all(_is_standing(incident, scene) for incident in state.incidents.values())
    return not (are_standing and are_held(state, scene.rules))


def _is_standing(incident: Incident, scene: Scene) -> bool:
    """It says the same as long as nothing changes: all of it is told, or it waits for its rule's own hold."""
    if incident.kind not in STANDING:
        return False
    if incident.state != FIRING or incident.next_queues is not None or incident.alone_ms is not None:
        return incident.state == PENDING
    held = (ms for condition, ms in scene.state.conditions.items() if condition.startswith(incident.kind))
    return all(map(scene.is_settled, held))


def are_held(state: GroupState, rules: Rules) -> bool:
    """Whether incidents that have not fired will have been seen for long and often enough at the next look."""
    return all(
        incident.has_fired or (incident.held_ms >= kind.pending_ms and incident.looks + 1 >= kind.pending_looks)
        for incident in state.incidents.values()
        for kind in (rules.of_kind(incident.kind),)
    )


def _are_all_different(view: Mapping[str, Member]) -> bool:
    """No two channels carry one ClientId, so there are no twins to be proven."""
    return len({member.client_id for member in view.values()}) == len(view)


def _is_calm_queue(watch: QueueWatch, *, is_routed: bool) -> bool:
    """Its one puller is the right one, or nobody judges who pulls it."""
    if len(watch.pullers) > 1:
        return False
    if watch.verdict == OK:
        return bool(watch.pullers)
    return watch.verdict == NOT_JUDGED or (watch.verdict == UNKNOWN and not is_routed)
