"""When to look at a group again, though nothing is told of it that is not known.

A calm group (calm.py) has these deadlines, and every other threshold of the rules is asked of what is wrong alone:

heartbeat_late_ms   after a channel's newest heartbeat: its client is late, is cut off there, or left a dead broker
channel_expired_ms  after it: the channel has left
pull_silence_ms     after the newest pull of a puller: the queue has one less, or nobody
consume_silence_ms  after the commit last moved, where a full cache keeps its client from pulling: it stands still
settle_ms           after the first of what is wrong among its members, until it is told

Each only moves on with time, so the nearest of before is a lower bound of the nearest of now. A group that is not calm
is looked at at each tick, but for one without members of which nothing has changed for longer than any hold.
"""

from udfs.alerts.life import is_waiting
from udfs.alerts.rules import FORGET_GROUP_MS, PULL_MAX_IDLE_MS, Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.families import BIRTH_MS
from udfs.groups.findings.brokers import REMEMBERED_MS
from udfs.groups.queue_state import QueueState
from udfs.groups.state import GroupState

FAR_MS = 1 << 62


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
    late_ms = min(rules.heartbeat_late_ms, rules.channel_expired_ms)
    return min(
        heard_ms + late_ms,
        pulled_ms + rules.pull_silence_ms,
        stands_ms + rules.consume_silence_ms,
        _signs_ms(state) + rules.settle_ms,
    )


def _signs_ms(state: GroupState) -> int:
    """Since when the first of what has not been told yet holds."""
    kinds = tuple(incident.kind for incident in state.incidents.values() if not incident.has_fired)
    if not kinds:
        return FAR_MS
    return min((ms for condition, ms in state.conditions.items() if condition.startswith(kinds)), default=0)


def next_evaluation_ms(state: GroupState, broker_coverage: BrokerCoverage, now_ms: int, rules: Rules) -> int | None:
    """When to look again at a group that is not calm; None for when something is told of it, or of its brokers."""
    if not state.membership.is_empty() or _may_turn(state):
        return now_ms + 1
    if now_ms < _newest_ms(state, broker_coverage) + _longest_ms(rules) or is_waiting(state.incidents, rules):
        return now_ms + 1
    given_up_ms = state.changed_ms + FORGET_GROUP_MS
    return given_up_ms if state.topics and given_up_ms > now_ms else None


def _longest_ms(rules: Rules) -> int:
    """Longer than any hold, or any that follow each other."""
    holds = (
        rules.channel_expired_ms,
        rules.heartbeat_late_ms,
        rules.pull_silence_ms,
        rules.settle_ms,
        rules.max_evaluation_gap_ms,
    )
    return REMEMBERED_MS + BIRTH_MS + sum(holds) + rules.consume_silence_ms + 4 * PULL_MAX_IDLE_MS


def _may_turn(state: GroupState) -> bool:
    """Whether something fades by time alone, or comes back when rounds are further apart."""
    is_refused = any(
        queue_state.anomaly is not None and queue_state.anomaly.refused_ms is not None
        for topic_state in state.topics.values()
        for queue_state in topic_state.queues.values()
    )
    return is_refused or any(window.is_flapping for window in state.windows.values())


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
            moments += _moments_of(queue_state)
    return max(moments)


def _moments_of(queue_state: QueueState) -> list[int]:
    moments = [queue_state.last_pull_ms or 0, queue_state.share_since_ms, queue_state.since_ms]
    if queue_state.consumption is not None:
        moments += [queue_state.consumption.reported_ms, queue_state.consumption.consumed_ms or 0]
    return moments
