"""Whether a group is calm, and when it is due: its queues are pulled as they should be, its brokers give data.

An evaluation of a calm group to which nothing but repetitions came (repeat.py) would report nothing and change nothing
before one of its deadlines. Of the cluster it depends on which of its brokers give data, and on the incidents above it.

heartbeat_late_ms   after a channel's newest heartbeat: its client is late, is cut off there, or left a dead broker
channel_expired_ms  after it: the channel has left
pull_silence_ms     after the newest pull of a puller: the queue has one less, or none
consume_silence_ms  after the commit last moved, where a full cache keeps its client from pulling: it stands still
settle_ms           after the first sign of what is wrong among its members, until it is reported

Each deadline only moves on with time, so the nearest of before is a lower bound of the nearest of now. A group that is
not calm is evaluated at each tick, but for one without members of which nothing has changed for longer than any hold.
"""

from udfs.alerts.alert import Incident
from udfs.alerts.life import FIRING, PENDING, is_waiting
from udfs.alerts.rules import FORGET_GROUP_MS, PULL_MAX_IDLE_MS, Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.families import BIRTH_MS
from udfs.groups.findings.brokers import REMEMBERED_MS
from udfs.groups.findings.members import CLIENT_ID_AT_RISK, INCONSISTENT_SUBSCRIPTION
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.queue_state import NOT_JUDGED, OK, UNKNOWN, QueueState
from udfs.groups.snapshot import ON_TIME, GroupSnapshot
from udfs.groups.state import GroupState

STANDING = (SPLIT_VIEW, INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK)
"""Kinds that rest on who is a member where, and on no pull: what is told of them stands until that changes."""

FAR_MS = 1 << 62


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
    if any(len({member.client_id for member in view.values()}) < len(view) for view in views.values()):
        return False  # twins may be proven
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
    """Whether it stays as it is while nothing changes: all of it is reported, or it waits for its rule's hold."""
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


def _is_calm_queue(queue_state: QueueState, *, is_routed: bool) -> bool:
    """Its one puller is the right one, or nobody judges who pulls it."""
    if len(queue_state.pullers) > 1:
        return False
    if queue_state.verdict == OK:
        return bool(queue_state.pullers)
    return queue_state.verdict == NOT_JUDGED or (queue_state.verdict == UNKNOWN and not is_routed)


def calm_until(state: GroupState, rules: Rules) -> int:
    """The nearest deadline of a calm group, passed or not. Rules that are shorter make it nearer."""
    heard_ms = min(
        (member.last_heartbeat_ms for view in state.membership.views.values() for member in view.values()),
        default=FAR_MS,
    )
    pulled_ms = stands_ms = FAR_MS
    for topic_state in state.topics.values():
        for queue_state in topic_state.queues.values():
            for puller in queue_state.pullers.values():
                pulled_ms = min(pulled_ms, puller.last_pull_ms)
            known = queue_state.consumption
            if known is not None and known.is_cache_full:
                stands_ms = min(stands_ms, known.since_ms)
    signs_ms = FAR_MS
    if kinds := tuple(incident.kind for incident in state.incidents.values() if not incident.has_fired):
        signs_ms = min((ms for condition, ms in state.conditions.items() if condition.startswith(kinds)), default=0)
    return min(
        heard_ms + min(rules.heartbeat_late_ms, rules.channel_expired_ms),
        pulled_ms + rules.pull_silence_ms,
        stands_ms + rules.consume_silence_ms,
        signs_ms + rules.settle_ms,
    )


def next_evaluation_ms(state: GroupState, broker_coverage: BrokerCoverage, now_ms: int, rules: Rules) -> int | None:
    """Return when to evaluate a group that is not calm; None: not before an event on it, or on its brokers, arrives."""
    if not state.membership.is_empty():
        return now_ms + 1
    is_refused = any(
        queue_state.anomaly is not None and queue_state.anomaly.refused_ms is not None
        for topic_state in state.topics.values()
        for queue_state in topic_state.queues.values()
    )
    if is_refused or any(window.is_flapping for window in state.windows.values()):  # may turn by time alone
        return now_ms + 1
    holds_ms = (
        rules.channel_expired_ms
        + rules.heartbeat_late_ms
        + rules.pull_silence_ms
        + rules.settle_ms
        + rules.max_evaluation_gap_ms
        + rules.consume_silence_ms
    )
    longest_ms = REMEMBERED_MS + BIRTH_MS + holds_ms + 4 * PULL_MAX_IDLE_MS  # longer than any holds in a row
    if now_ms < _newest_ms(state, broker_coverage) + longest_ms or is_waiting(state.incidents, rules):
        return now_ms + 1
    given_up_ms = state.changed_ms + FORGET_GROUP_MS
    return given_up_ms if state.topics and given_up_ms > now_ms else None


def _newest_ms(state: GroupState, broker_coverage: BrokerCoverage) -> int:
    """The newest of all that the holds of a group without members count from."""
    moments = [state.changed_ms, state.data_from_ms, state.watched_since_ms]
    moments += [*state.conditions.values(), *state.first_pull_ms.values()]
    moments += [*broker_coverage.since_ms.values(), *broker_coverage.pulled_ms.values()]
    for incident in state.incidents.values():
        moments += [incident.written_ms, incident.started_at_ms]
    for topic_state in state.topics.values():
        moments += [topic_state.watched_since_ms, topic_state.route_changed_ms, topic_state.first_pull_ms or 0]
        for queue_state in topic_state.queues.values():
            moments += [queue_state.last_pull_ms or 0, queue_state.share_since_ms, queue_state.since_ms]
            if queue_state.consumption is not None:
                moments += [queue_state.consumption.reported_ms, queue_state.consumption.consumed_ms or 0]
    return max(moments)
