"""Whether a group is calm, and when it is due: its queues are pulled as they should be, its brokers give data.

An evaluation of a calm group to which nothing but repetitions came would report nothing and change nothing
before one of its deadlines. Of the cluster it depends on which of its brokers give data, and on the incidents above it.

heartbeat_late_ms   after a channel's newest heartbeat: its client is late, is cut off there, or left a dead broker
channel_expired_ms  after it: the channel has left
pull_silence_ms     after the newest pull of a puller: the queue has one less, or none
consume_silence_ms  after the commit last moved, where a full cache keeps its client from pulling: it stands still
settle_ms           after the first sign of what is wrong among its members, until it is reported
HOLD_MS             after a queue fell behind, until its backlog is reported (backlog.py)

Each deadline only moves on with time, so the nearest of before is a lower bound of the nearest of now. A group that is
not calm is evaluated at each tick, but for one without members of which nothing has changed for longer than any hold.

Heartbeats and pulls that only repeat what is known of a calm group move its facts exactly as Membership.register and
GroupState.observe do: the newest heartbeat of a channel, the newest pull of a queue and of its one puller, and how far
the queue is consumed. False is always right: the event is then news, and nothing was moved.
"""

from udfs.alerts.alert import Incident
from udfs.alerts.life import FIRING, PENDING, is_waiting
from udfs.alerts.rules import FORGET_GROUP_MS, PULL_MAX_IDLE_MS, Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.families import BIRTH_MS
from udfs.groups.backlog import FAR_MS, HOLD_MS, has_news, next_row_ms
from udfs.groups.findings.brokers import REMEMBERED_MS
from udfs.groups.findings.members import CLIENT_ID_AT_RISK, INCONSISTENT_SUBSCRIPTION
from udfs.groups.plan import SPLIT_VIEW
from udfs.groups.queue_state import (
    NO_MATCHED_MSG,
    NOT_JUDGED,
    OK,
    UNKNOWN,
    Consumption,
    Pull,
    PullAnomaly,
    QueueState,
    note_offsets,
)
from udfs.groups.snapshot import ON_TIME, GroupSnapshot
from udfs.groups.state import NO_PERMISSION, GroupState
from udfs.rocketmq.heartbeat import SERVER_REBALANCE, ConsumerData, Heartbeat, filters_of
from udfs.rocketmq.membership import Member

STANDING = (SPLIT_VIEW, INCONSISTENT_SUBSCRIPTION, CLIENT_ID_AT_RISK)
"""Kinds that rest on who is a member where, and on no pull: what is told of them stands until that changes."""


def is_calm(snapshot: GroupSnapshot, *, has_left: bool) -> bool:
    """As of an evaluation that is done. `has_left`: no broker of its topics lists a member."""
    state, broker_coverage, views = snapshot.state, snapshot.broker_coverage, snapshot.state.membership.views
    if has_left or state.is_stale or _may_move(snapshot):
        return False
    routed = {name for route in snapshot.routes.values() for name in route.broker_names()}
    if not (routed | views.keys()).isdisjoint(broker_coverage.without_data | broker_coverage.silent):
        return False
    if any(f"{ON_TIME}{broker_name}" not in state.conditions for broker_name in snapshot.heard_ms):
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
    is_behind = bool(state.backlogs)
    for queue_state in state.queue_states():
        for puller in queue_state.pullers.values():
            pulled_ms = min(pulled_ms, puller.last_pull_ms)
        known = queue_state.consumption
        if known is not None and known.is_cache_full:
            stands_ms = min(stands_ms, known.since_ms)
        is_behind = is_behind or (known is not None and known.behind_ms is not None)
    signs_ms = FAR_MS
    if kinds := tuple(incident.kind for incident in state.incidents.values() if not incident.has_fired):
        signs_ms = min((ms for condition, ms in state.conditions.items() if condition.startswith(kinds)), default=0)
    return min(
        heard_ms + min(rules.heartbeat_late_ms, rules.channel_expired_ms),
        pulled_ms + rules.pull_silence_ms,
        stands_ms + rules.consume_silence_ms,
        signs_ms + rules.settle_ms,
        next_row_ms(state, rules) if is_behind else FAR_MS,
        (heard_ms if pulled_ms == FAR_MS else pulled_ms) + HOLD_MS,  # a queue may have fallen behind just after it
    )


def next_evaluation_ms(state: GroupState, broker_coverage: BrokerCoverage, now_ms: int, rules: Rules) -> int | None:
    """Return when to evaluate a group that is not calm; None: not before an event on it, or on its brokers, arrives."""
    if not state.membership.is_empty():
        return now_ms + 1
    is_refused = any(one.anomaly is not None and one.anomaly.refused_ms is not None for one in state.queue_states())
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
    for queue_state in state.queue_states():
        moments += [queue_state.last_pull_ms or 0, queue_state.share_since_ms, queue_state.since_ms]
        if queue_state.consumption is not None:
            moments += [queue_state.consumption.reported_ms, queue_state.consumption.consumed_ms or 0]
    return max(moments)


def repeat_heartbeat(group: GroupState, heartbeat: Heartbeat, consumer: ConsumerData) -> bool:
    """A known channel says once more what it said. Not: one that left, or other topics, filters, strategy."""
    broker_name, addr, now_ms = heartbeat.broker_name, heartbeat.client_addr, heartbeat.event_time_ms
    view = group.membership.views.get(broker_name)
    known = view.get(addr) if view is not None else None
    if known is None or known.client_id != heartbeat.client_id or now_ms < known.first_heartbeat_ms:
        return False
    if group.membership.left and f"{broker_name} {addr}" in group.membership.left:
        return False
    if now_ms < known.last_heartbeat_ms:
        return True  # it came late, and adds nothing
    if known.is_listed_only != bool(heartbeat.is_listed_only) or not _says_the_same(known, heartbeat, consumer):
        return False
    if now_ms > known.last_heartbeat_ms:
        known.gap_ms = now_ms - known.last_heartbeat_ms
        known.last_heartbeat_ms = now_ms
    return True


def _says_the_same(known: Member, heartbeat: Heartbeat, consumer: ConsumerData) -> bool:
    if consumer.strategy and consumer.strategy != known.strategy:
        return False
    if consumer.consume_orderly is not None and consumer.consume_orderly != known.consume_orderly:
        return False
    if consumer.client_rebalance is True and known.unjudged == SERVER_REBALANCE:
        return False
    if consumer.client_rebalance is False and known.is_judged:
        return False
    if heartbeat.without_sub or not known.has_reported_topics:
        return bool(heartbeat.without_sub)
    topics = [one.topic for one in consumer.subscriptions]
    return (topics == known.topics or sorted(set(topics)) == known.topics) and filters_of(consumer) == known.filters


def repeat_pull(group: GroupState, pull: Pull, rules: Rules) -> bool:
    """A queue's one puller pulls on, or a round reports how far it is consumed.

    Not: a pull that was refused, that a slave serves, or of another client; a commit that fell, or has stood still for
    nearly as long as it may; a backlog that is to be reported.
    """
    topic, name = group.topics.get(pull.topic), f"{pull.broker_name}:{pull.queue_id}"
    queue_state = topic.queues.get(name) if topic is not None else None
    if topic is None or queue_state is None or pull.broker_id:
        return False
    known, last_ms, now_ms = queue_state.consumption, queue_state.last_pull_ms, pull.event_time_ms
    has_offsets = pull.commit_offset is not None and pull.max_offset is not None
    if has_offsets and (
        known is None
        or not _is_steady(known, pull, max(now_ms, last_ms or 0), rules)
        or has_news(group, name, queue_state, pull)
    ):
        return False
    if pull.offsets_only:
        return _repeat_offsets(queue_state, pull)
    if last_ms is None or len(queue_state.pullers) != 1 or not _is_ordinary(group, queue_state, pull):
        return False
    (puller,) = queue_state.pullers.values()
    if now_ms < last_ms:  # it came late
        return now_ms >= puller.first_pull_ms and (
            not has_offsets or (known is not None and now_ms < known.reported_ms)
        )
    queue_state.consumption = note_offsets(known, pull)
    queue_state.take_offsets(pull.commit_offset, pull.max_offset)
    queue_state.last_pull_ms = now_ms
    puller.last_pull_ms = max(puller.last_pull_ms, now_ms)
    return True


def _repeat_offsets(queue_state: QueueState, pull: Pull) -> bool:
    known = queue_state.consumption
    if queue_state.is_below(pull.commit_offset) or (
        queue_state.anomaly and queue_state.anomaly.regressed_ms is not None
    ):
        return False
    is_newest = known is None or pull.event_time_ms >= known.reported_ms
    queue_state.consumption = note_offsets(known, pull)
    if is_newest and pull.event_time_ms >= (queue_state.last_pull_ms or 0):
        queue_state.take_offsets(pull.commit_offset, pull.max_offset)
    return True


def _is_ordinary(group: GroupState, queue_state: QueueState, pull: Pull) -> bool:
    ((key, puller),) = queue_state.pullers.items()
    if pull.pull_status == NO_PERMISSION or (
        queue_state.anomaly is not None and not _is_over(queue_state.anomaly, pull)
    ):
        return False
    if pull.client_id and not pull.client_id == puller.client_id == queue_state.last_client_id:
        return False
    if pull.client_addr and puller.client_id == key:
        return False  # its channel is not known yet
    is_by_it = pull.client_addr == key or (
        (pull.client_addr or pull.client_id) and group.puller_key(queue_state, pull) == key
    )
    return bool(is_by_it) and not queue_state.is_below(pull.commit_offset) and pull.broker_name in group.first_pull_ms


def _is_over(odd: PullAnomaly, pull: Pull) -> bool:
    """Whether nothing of what was unusual is left that such a pull would change."""
    is_usual = odd.slave_since_ms is None and odd.regressed_ms is None
    return is_usual and not odd.turns and odd.is_slave_suggested == bool(pull.suggest_broker_id)


def _is_steady(known: Consumption, pull: Pull, now_ms: int, rules: Rules) -> bool:
    """Whether the commit goes on, or has not stood still for long; its deadline comes after that of the queue's pulls.

    Events that are older than the newest known add nothing.
    """
    if pull.event_time_ms < known.reported_ms:
        return True
    commit_offset, max_offset = pull.commit_offset or 0, pull.max_offset or 0
    if commit_offset < known.commit_offset:
        return False
    is_moving = commit_offset > known.commit_offset or pull.pull_status == NO_MATCHED_MSG
    is_idle = max_offset <= commit_offset or known.max_offset <= known.commit_offset
    since_ms = pull.event_time_ms if is_moving or is_idle else known.since_ms
    return since_ms + rules.consume_silence_ms > now_ms + rules.pull_silence_ms
