"""Topics of consumers that do not share queues out among themselves: POP, gRPC, server rebalance, assign(), the broker.

Nobody can say who should consume which queue there. The group's committed offset is judged all the same, for the broker
keeps it:

POP, gRPC  the broker commits when it hands messages out (PopBufferMergeService.scanCommitOffset, PopConsumerService),
           ordered ones when they are acknowledged. A commit that stands still while messages wait means that nobody
           asks for more: clients do not while they hold unacknowledged messages (popThresholdForQueue).
assign()   clients commit, or keep offsets elsewhere. Only a commit that was seen to advance counts.
broker     PopReviveService commits what it has read of the revive log.

Broadcasting clients keep their offsets in files of their own: what the broker has of them is old.
"""

from collections.abc import Mapping

from udfs.alerts.rules import Rules
from udfs.groups.diagnosis import CONSUME_STOPPED_MS
from udfs.groups.queue_state import NOT_CONSUMED, QueueState
from udfs.groups.queue_verdicts import Judged
from udfs.groups.state import GroupState, TopicState
from udfs.groups.verdict_reason import ASSIGNED, BROKER
from udfs.rocketmq.heartbeat import GRPC, POP, SERVER_REBALANCE
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import REVIVE_GROUP
from udfs.rocketmq.route import PERM_READ, PERM_WRITE, QueueData, Route

KEEP_COMMITS = (POP, GRPC, SERVER_REBALANCE, ASSIGNED, BROKER)
"""Reasons of NOT_JUDGED under which a broker keeps the group's offsets."""


REVIVE_SILENCE_MS = 600_000
"""A revive log without a report for so long went with its broker: no route says that it is gone."""


def route_revive_log(state: GroupState, routes: Mapping[str, Route]) -> Mapping[str, Route]:
    """The routes of a group, with one of the revive log for the group that reads it: its queues are those reported.

    Clients have no use for that route, and it names brokers that serve no topic any more.
    """
    if state.consumer_group != REVIVE_GROUP:
        return routes
    return {topic: _route_of(topic, topic_state) for topic, topic_state in state.topics.items()}


def _route_of(topic: str, topic_state: TopicState) -> Route:
    nums: dict[str, int] = {}
    for broker_name, queue_id in map(queue_order, topic_state.queues):
        nums[broker_name] = max(nums.get(broker_name, 0), queue_id + 1)
    perm = PERM_READ | PERM_WRITE
    return Route(topic, tuple(QueueData(name, count, count, perm) for name, count in sorted(nums.items())))


def judge_commits(
    topic_state: TopicState, unjudged: str, now_ms: int, rules: Rules, *, has_left: bool
) -> dict[str, Judged]:
    """The queues of a topic that is not judged whose commits have stood still for too long; the others have no verdict.

    They are NOT_CONSUMED, with the reason why no client owns them. `has_left`: the group has no member; queues that are
    NOT_CONSUMED then stay so, and group_offline reports the others.
    """
    if unjudged not in KEEP_COMMITS:
        return {}
    is_served = unjudged == BROKER or not has_left
    return {
        name: Judged(NOT_CONSUMED, unjudged)
        for name, queue_state in topic_state.queues.items()
        if (is_served or queue_state.verdict == NOT_CONSUMED) and _stands_still(queue_state, unjudged, now_ms, rules)
    }


def _stands_still(queue_state: QueueState, unjudged: str, now_ms: int, rules: Rules) -> bool:
    """By what was reported: time alone begins nothing. Time without a member does not count."""
    known = queue_state.consumption
    if known is None or (unjudged == ASSIGNED and known.consumed_ms is None):
        return False
    if unjudged == BROKER and now_ms >= known.reported_ms + REVIVE_SILENCE_MS:
        return False
    stands_ms = min(known.stands_ms(known.reported_ms), known.reported_ms - queue_state.share_since_ms)
    return stands_ms >= rules.consume_silence_ms + CONSUME_STOPPED_MS
