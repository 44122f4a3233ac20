"""Whether a group is calm: nothing is wrong with it, nothing comes or goes, and all that concerns it is heard.

A look at a calm group to which nothing but repetitions came (repeat.py) would say nothing and change nothing before one
of its deadlines (deadlines.py). Of the cluster it depends on which of its brokers are heard, and on nothing else.
"""

from collections.abc import Mapping

from udfs.membership import Member
from udfs.ownership import NOT_JUDGED, OK, UNKNOWN, QueueWatch
from udfs.scene import ON_TIME, Scene
from udfs.watch import GroupState


def is_calm(scene: Scene, *, has_left: bool) -> bool:
    """As of a look that is done. `has_left`: no broker of its topics lists a member."""
    state, hearing, views = scene.state, scene.hearing, scene.state.membership.views
    if has_left or state.is_stale or _is_something_wrong(state):
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


def _is_something_wrong(state: GroupState) -> bool:
    """Or may be, or flaps. A window in which nothing fires only fades, which is made up for at the next look."""
    if state.incidents or any(window.is_on or window.is_flapping for window in state.windows.values()):
        return True
    return not all(condition.startswith(ON_TIME) for condition in state.conditions)


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
