"""Whether a pull that a push consumer claims was served: by its own offset, and by the one its broker was asked for.

A client sets the time of a pull before it sends one, also while it is suspended, and while its broker does not answer.
Its own offset moves with what it consumes, and when a pull brought nothing that matched
(DefaultMQPushConsumerImpl.correctTagsOffset). It does not while the broker gives it messages of tags that only another
member of its group subscribes: the client drops them and asks on.
"""

from typing import Literal, NamedTuple

from streaming.collector.rocketmq_answers import OffsetWrapper, ProcessQueue, RunningInfo

Outcome = Literal["served", "dropped", "in_vain"]
SERVED: Outcome = "served"
DROPPED: Outcome = "dropped"
IN_VAIN: Outcome = "in_vain"


class Pulled(NamedTuple):
    """A queue as the member that holds it answered last.

    stamp_ms      of its newest pull, by its own clock
    waiting_from  its own offset, where the broker had messages for it while its cache was empty; else None
    asked_from    the offset that the broker was asked for last (5.x), where it had messages from there on; else None
    """

    stamp_ms: int
    waiting_from: int | None = None
    asked_from: int | None = None


def note_pull(stamp_ms: int, queue: ProcessQueue, offsets: OffsetWrapper, last: Pulled | None) -> Pulled:
    """Of a push consumer that has no twin. What waited waits on while the broker does not tell its offsets."""
    own, has_waited = queue.commit_offset, last is not None and last.waiting_from == queue.commit_offset
    is_waiting = not queue.cached_msg_count and own >= 0 and (has_waited or own < offsets.broker_offset)
    is_asked = 0 <= offsets.pull_offset < offsets.broker_offset
    return Pulled(stamp_ms, own if is_waiting else None, offsets.pull_offset if is_asked else None)


def outcome_of(last: Pulled | None, now: Pulled, offsets: OffsetWrapper, *, may_drop: bool) -> Outcome:
    """What became of the pulls between two answers. `may_drop`: the client subscribes the topic by tags."""
    if last is None or last.waiting_from is None or last.waiting_from != now.waiting_from:
        return SERVED
    if not may_drop:
        return IN_VAIN
    if offsets.pull_offset < 0:
        return SERVED  # nobody can tell
    return IN_VAIN if last.asked_from == offsets.pull_offset else DROPPED


def may_drop(info: RunningInfo, topic: str) -> bool:
    """Whether the client looks at messages' tags itself (PullAPIWrapper.processPullResult)."""
    return any(
        each.topic == topic and each.expression_type == "TAG" and each.sub_string != "*" for each in info.subscriptions
    )
