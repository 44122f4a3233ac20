"""Heartbeats and pulls that only repeat what is known of a calm group (calm.py): they move its facts, and nothing else.

Each does to the facts exactly what Membership.register and GroupState.observe do. False is always right: the event is
then news, nothing was moved, and the group is told of it in full. What a repetition may move is the newest heartbeat of
a channel, the newest pull of a queue and of its one puller, and how far the queue is consumed; each only puts the
group's deadlines off (calm.calm_until).
"""

from udfs.alerts.rules import Rules
from udfs.groups.consumption import NO_MATCHED_MSG, Consumption, Pull, note_offsets
from udfs.groups.pull_anomaly import NO_PERMISSION
from udfs.groups.queue_state import PullAnomaly, Puller, QueueState
from udfs.groups.state import GroupState
from udfs.rocketmq.heartbeat import SERVER_REBALANCE, ConsumerData, Heartbeat, filters_of
from udfs.rocketmq.membership import Member


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
        return True  # it came late, and tells nothing
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
    """A queue's one puller pulls on, or a round tells how far it is consumed.

    Not: a pull that was refused, that a slave serves, or of another client; a commit that fell, or has stood still for
    nearly as long as it may.
    """
    topic = group.topics.get(pull.topic)
    queue_state = topic.queues.get(f"{pull.broker_name}:{pull.queue_id}") if topic is not None else None
    if topic is None or queue_state is None or pull.broker_id:
        return False
    known, last_ms, now_ms = queue_state.consumption, queue_state.last_pull_ms, pull.event_time_ms
    has_offsets = pull.commit_offset is not None and pull.max_offset is not None
    if has_offsets and (known is None or not _is_steady(known, pull, max(now_ms, last_ms or 0), rules)):
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
    """Whether the queue's only puller pulled it, in the ordinary way."""
    ((key, puller),) = queue_state.pullers.items()
    if pull.pull_status == NO_PERMISSION or (
        queue_state.anomaly is not None and not _is_over(queue_state.anomaly, pull)
    ):
        return False
    if pull.client_id and not pull.client_id == puller.client_id == queue_state.last_client_id:
        return False
    is_by_it = _key_of(group, pull, key, puller) == key and (not pull.client_addr or puller.client_id != key)
    return is_by_it and not queue_state.is_below(pull.commit_offset) and pull.broker_name in group.first_pull_ms


def _key_of(group: GroupState, pull: Pull, known: str, puller: Puller) -> str | None:
    """Return the key under which the pull counts (GroupState.observe). Its client is `puller`, with the key `known`."""
    if pull.client_addr:
        return pull.client_addr
    if pull.client_id and puller.client_addr:
        return known
    view = group.membership.views.get(pull.broker_name, {})
    channels = [addr for addr, member in view.items() if member.client_id == pull.client_id] or [known]
    return channels[0] if pull.client_id and len(channels) == 1 else pull.client_id


def _is_over(odd: PullAnomaly, pull: Pull) -> bool:
    """Whether nothing of what was unusual is left that such a pull would change."""
    is_usual = odd.slave_since_ms is None and odd.regressed_ms is None
    return is_usual and not odd.turns and odd.is_slave_suggested == bool(pull.suggest_broker_id)


def _is_steady(known: Consumption, pull: Pull, now_ms: int, rules: Rules) -> bool:
    """Whether the commit goes on, or has not stood still for long; its deadline comes after that of the queue's pulls.

    Events that are older than the newest known tell nothing.
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
