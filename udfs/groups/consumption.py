"""Whether a queue's messages are consumed, whoever pulls: its committed offset against its end, event by event.

A commit that advances is life. One that stands still while messages wait is starvation, whatever the pulls say: a
client pulls on while its listener hangs, and looks as if it pulled while it is suspended or its cache is full. A commit
that is never reported, and a queue without waiting messages, say nothing. Slaves report commits late, and are left out.
"""

from dataclasses import dataclass
from typing import Protocol

PULL_THRESHOLD_FOR_QUEUE = 1_000
"""DefaultMQPushConsumer.pullThresholdForQueue: a client with so many messages of a queue unconsumed pulls no more."""

PULL_BATCH = 32
"""DefaultMQPushConsumer.pullBatchSize: what the answer may add to the cache."""

CONSUME_STOPPED_MS = 40_000
"""How much longer than `consume_silence_ms` one slow message may take."""

NO_MATCHED_MSG = "NO_MATCHED_MSG"
"""PullStatus: what came since is not for this group; the client moves on without consuming."""


class Pull(Protocol):
    """A pull request as the broker saw it (schemas/events.py)."""

    topic: str
    broker_name: str
    queue_id: int
    broker_id: int
    client_addr: str | None
    client_id: str | None
    suggest_broker_id: int | None
    pull_offset: int
    commit_offset: int | None
    max_offset: int | None
    pull_status: str | None
    offsets_only: bool | None
    event_time_ms: int


@dataclass(slots=True)
class Consumption:
    """How far one queue is consumed, as its master told it.

    commit_offset  the newest; it has stood there since `since_ms`, with messages waiting all the while
    max_offset     the newest end of the queue; `first_max_offset` is its end at `since_ms`
    told_ms        the newest event that told both
    consumed_ms    the newest event at which the commit had advanced
    is_cache_full  as of the newest pull, its client had more unconsumed than it pulls beyond
    asked_offset   the furthest offset that was pulled since the commit last moved, first at `asked_ms`
    """

    commit_offset: int
    max_offset: int
    since_ms: int
    first_max_offset: int
    reported_ms: int
    consumed_ms: int | None = None
    is_cache_full: bool = False
    asked_offset: int = 0
    asked_ms: int = 0

    def stands_ms(self, now_ms: int, data_since_ms: int = 0) -> int:
        """For how long the commit is known to stand still while messages wait.

        Up to the newest event; up to now where that event showed the commit again, and a full cache: the client sends
        no pull before it has consumed. Time before `data_since_ms`, in which nobody listened, is none of it then.
        """
        seen_ms = self.reported_ms - self.since_ms
        if self.max_offset <= self.commit_offset or not seen_ms:
            return 0
        return max(seen_ms, now_ms - max(self.since_ms, data_since_ms)) if self.is_cache_full else seen_ms

    def forget_standstill(self) -> None:
        """It stands still from now on, if it does."""
        self.since_ms, self.first_max_offset = self.reported_ms, self.max_offset

    def excuse_dropping(self) -> None:
        """Count the standstill from the newest pull of a further offset: its client may drop what it is given.

        A client that drops messages pulls further offsets without a commit, and commits once no more come
        (DefaultMQPushConsumerImpl.correctTagsOffset). A client that holds messages pulls no further than its cache.
        Where the pulls are not past the commit, nothing shows that messages are held.
        """
        if self.asked_offset <= self.commit_offset:
            self.forget_standstill()
        self.since_ms = max(self.since_ms, self.asked_ms)

    def was_consumed_after(self, time_ms: int) -> bool:
        return self.consumed_ms is not None and self.consumed_ms > time_ms


def is_cache_full(pull: Pull) -> bool:
    """Whether the client has more unconsumed, with the answer to this pull, than it pulls beyond."""
    if pull.commit_offset is None or pull.max_offset is None:
        return False
    answer = PULL_BATCH if pull.max_offset > pull.pull_offset else 0
    return pull.pull_offset - pull.commit_offset + answer >= PULL_THRESHOLD_FOR_QUEUE


def note_offsets(known: Consumption | None, pull: Pull) -> Consumption | None:
    commit_offset, max_offset, now_ms = pull.commit_offset, pull.max_offset, pull.event_time_ms
    if pull.broker_id:
        return None  # a slave serves: the commits it knows are older than the group's
    if commit_offset is None or max_offset is None or (known is not None and now_ms < known.reported_ms):
        return known
    if known is None or max_offset < known.commit_offset:  # or made anew: a topic deleted, a broker's store wiped
        is_full = not pull.offsets_only and is_cache_full(pull)
        return Consumption(
            commit_offset, max_offset, now_ms, max_offset, now_ms, None, is_full, pull.pull_offset, now_ms
        )
    is_full = known.is_cache_full if pull.offsets_only else is_cache_full(pull)
    known.consumed_ms = now_ms if commit_offset > known.commit_offset else known.consumed_ms
    is_idle = (
        max_offset <= commit_offset or known.max_offset <= known.commit_offset or pull.pull_status == NO_MATCHED_MSG
    )
    if commit_offset != known.commit_offset or is_idle:
        known.since_ms, known.first_max_offset = now_ms, max_offset
        known.asked_offset, known.asked_ms = pull.pull_offset, now_ms
    elif pull.pull_offset > known.asked_offset:
        known.asked_offset, known.asked_ms = pull.pull_offset, now_ms
    known.commit_offset, known.max_offset = commit_offset, max_offset
    known.reported_ms, known.is_cache_full = now_ms, is_full
    return known
