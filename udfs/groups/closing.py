"""Topics and queues that are no more: each gets a last row, in which nobody owns it."""

from collections.abc import Mapping

from udfs.alerts.rules import FORGET_GROUP_MS, Rules
from udfs.groups.pullers import observed_pullers
from udfs.groups.queue_state import NOT_JUDGED, OwnershipRow, QueueState
from udfs.groups.state import GroupState
from udfs.groups.verdict_reason import BROKER, GONE
from udfs.rocketmq.route import Route


def close_idle_topics(
    state: GroupState, routes: Mapping[str, Route], ownership: list[OwnershipRow], now_ms: int, rules: Rules
) -> list[OwnershipRow]:
    """Forget idle topics. Gives the rows of this tick; of an idle topic the last ones alone, in which nobody owns its
    queues.
    """
    idle = _idle_topics(state, routes, now_ms, rules)
    closed = [row for topic in idle for row in close_queues(state, now_ms, topic)]
    for topic in idle:
        state.forget_topic(topic)
    return [row for row in ownership if row.topic not in idle] + closed


def close_queues(state: GroupState, now_ms: int, topic: str | None = None) -> list[OwnershipRow]:
    """The last rows of the group's queues, or of one topic's: nobody owns what is no more."""
    return [
        row
        for name, topic_state in sorted(state.topics.items())
        if topic in (None, name)
        for row in last_rows(name, topic_state.queues, now_ms)
    ]


def last_rows(topic: str, queues: Mapping[str, QueueState], now_ms: int) -> list[OwnershipRow]:
    return [
        OwnershipRow(topic, queue, None, [], NOT_JUDGED, now_ms, GONE)
        for queue, queue_state in queues.items()
        if queue_state.reported is not None and tuple(queue_state.reported) != (None, [], NOT_JUDGED)
    ]


def _idle_topics(state: GroupState, routes: Mapping[str, Route], now_ms: int, rules: Rules) -> list[str]:
    """Topics that nobody subscribes and nobody pulls any more, and all of a group that is gone; sorted.

    What a group without members pulled by assign() is kept as long as what others subscribed.
    """
    idle = []
    for topic, topic_state in sorted(state.topics.items()):
        if topic not in routes:
            for queue_state in topic_state.queues.values():
                pullers = observed_pullers(queue_state, now_ms, rules.pull_silence_ms)
                queue_state.pullers = {puller.client_addr or puller.client_id or "": puller for puller in pullers}
        is_pulled = any(queue_state.pullers for queue_state in topic_state.queues.values())
        is_given_up = now_ms >= state.changed_ms + FORGET_GROUP_MS
        has_left = state.membership.is_empty()
        is_over = has_left and (topic not in routes or (is_given_up and topic_state.unjudged != BROKER))
        is_wanted = topic_state.is_subscribed or (has_left and topic_state.unjudged is not None)
        if not is_pulled and (is_over or not is_wanted):
            idle.append(topic)
    return idle
