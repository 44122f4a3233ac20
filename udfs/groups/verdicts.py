"""A group's verdicts at each tick, topic by topic, and the rows of what changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from udfs.groups.planning import follow_pulls, plan_topic
from udfs.groups.pullers import observed_owners, refresh_pullers
from udfs.groups.queue_state import NOT_JUDGED, OwnershipRow, Puller
from udfs.groups.queue_verdicts import Judged, Moment, judge_queues
from udfs.groups.state import GroupState, TopicState
from udfs.groups.unjudged import judge_commits
from udfs.groups.verdict_reason import ASSIGNED, REPLACED, STATIC_TOPIC
from udfs.rocketmq.route import Route


@dataclass
class Judgement:
    """One topic of a group at one tick.

    pullers   queue → who has pulled the queue lately
    unjudged  why the topic's queues are not judged by who pulls them; None where they are
    verdicts  queue → its verdict and reason; the others are not judged
    closed    the last rows of queues that the route does not have any more
    """

    topic: str
    route: Route
    topic_state: TopicState
    pullers: dict[str, list[Puller]]
    unjudged: str | None
    verdicts: Mapping[str, Judged]
    closed: list[OwnershipRow]


def judge(state: GroupState, topic: str, route: Route, moment: Moment) -> Judgement:
    """Phase 3. The verdict of each queue of a topic, by the plan and the pulls."""
    topic_state, now_ms, rules = state.topics[topic], moment.now_ms, moment.rules
    unjudged = _why_not_judged(state, topic, route, moment)
    _excuse_dropping(topic_state, is_mixed=topic in moment.mixed)
    pullers = {
        name: refresh_pullers(state, name, queue_state, moment.late, now_ms, rules)
        for name, queue_state in topic_state.queues.items()
    }
    closed = follow_pulls(state, topic_state, route, pullers, now_ms, rules, is_judged=unjudged is None)
    verdicts = (
        judge_queues(state, topic_state, route, pullers, moment)
        if unjudged is None
        else judge_commits(topic_state, unjudged, now_ms, rules, has_left=state.membership.is_empty())
    )
    return Judgement(topic, route, topic_state, pullers, unjudged, verdicts, closed)


def _excuse_dropping(topic_state: TopicState, *, is_mixed: bool) -> None:
    """Excuse commits that stand still because a client drops messages that only another member's expression matches.

    `is_mixed`: members subscribe the topic by different expressions. Once they agree every standstill begins anew.
    """
    if not (is_mixed or topic_state.is_mixed):
        return
    topic_state.is_mixed = is_mixed
    for queue_state in topic_state.queues.values():
        if queue_state.consumption is None:
            continue
        if is_mixed:
            queue_state.consumption.excuse_dropping()
        else:
            queue_state.consumption.forget_standstill()


def judge_again(state: GroupState, judgement: Judgement, moment: Moment) -> None:
    """Phases 2 and 3 once more, by what was inferred. The plan was so before, unknown to us: shares keep their age."""
    topic_state = judgement.topic_state
    since_ms = {name: queue_state.share_since_ms for name, queue_state in topic_state.queues.items()}
    plan_topic(state, topic_state, judgement.route, moment.now_ms, moment.rules)
    for name, queue_state in topic_state.queues.items():
        queue_state.share_since_ms = since_ms[name]
    judgement.verdicts = judge_queues(state, topic_state, judgement.route, judgement.pullers, moment)


def report(judgement: Judgement, now_ms: int) -> Iterator[OwnershipRow]:
    """Phase 5. The rows of queues whose owners, verdict or reason changed; the state keeps what was reported."""
    yield from judgement.closed
    for name, queue_state in judgement.topic_state.queues.items():
        verdict, reason = judgement.verdicts.get(name) or Judged(NOT_JUDGED, judgement.unjudged)
        if verdict != queue_state.verdict:
            queue_state.verdict, queue_state.since_ms = verdict, now_ms
        reported = (queue_state.share.owner, observed_owners(judgement.pullers[name]), verdict)
        if reported != queue_state.reported or reason != queue_state.reason:
            queue_state.reported, queue_state.reason = reported, reason
            yield OwnershipRow(judgement.topic, name, *reported, queue_state.since_ms, reason)


def _why_not_judged(state: GroupState, topic: str, route: Route, moment: Moment) -> str | None:
    """Why none of the topic's queues is judged; None where they are."""
    if route.has_queue_mapping:
        return STATIC_TOPIC
    if not state.topics[topic].is_shared:
        return state.topics[topic].unjudged or ASSIGNED
    if state.is_replaced:
        return REPLACED
    return min((member.unjudged or ASSIGNED for member in moment.unjudged if member.subscribes(topic)), default=None)
