"""Whether a queue's messages are consumed, whoever pulls: its committed offset against its end, event by event.

A commit that advances is life. One that stands still while messages come is starvation, whatever the pulls say: a
client pulls on while its listener hangs, and looks as if it pulled while it is suspended or its cache is full. A commit
that is never told, and a queue that gets no messages, say nothing. Slaves tell commits late, and count for nothing.
"""

from dataclasses import dataclass
from typing import Protocol

PULL_THRESHOLD_FOR_QUEUE = 1_000
"""DefaultMQPushConsumer.pullThresholdForQueue: a client with so many messages of a queue unconsumed pulls no more."""

PULL_BATCH = 32
"""DefaultMQPushConsumer.pullBatchSize: what the answer may add to the cache."""

NO_MATCHED_MSG = "NO_MATCHED_MSG"
"""PullStatus: what came since is not for this group; the client moves on without consuming."""


class Offsets(Protocol):
    """What a pull tells of offsets (schemas/events.py)."""

    @property
    def broker_id(self) -> int: ...
    @property
    def pull_offset(self) -> int: ...
    @property
    def commit_offset(self) -> int | None: ...
    @property
    def max_offset(self) -> int | None: ...
    @property
    def pull_status(self) -> str | None: ...
    @property
    def offsets_only(self) -> bool | None: ...
    @property
    def event_time_ms(self) -> int: ...


@dataclass(slots=True)
class Consumption:
    """How far one queue is consumed, as its master told it.

    commit_offset  the newest; it has stood there since `since_ms`, with messages waiting all the while
    max_offset     the newest end of the queue; `first_max_offset` is its end at `since_ms`
    told_ms        the newest event that told both
    consumed_ms    the newest event at which the commit had advanced
    is_cache_full  as of the newest pull, its client had more unconsumed than it pulls beyond
    """

    commit_offset: int
    max_offset: int
    since_ms: int
    first_max_offset: int
    reported_ms: int
    consumed_ms: int | None = None
    is_cache_full: bool = False

    def stands_ms(self, now_ms: int, data_since_ms: int = 0) -> int:
        """For how long the commit is known to stand still while messages come.

        Up to the newest event; of a client whose cache was full then up to now, for it sends no pull before it has
        consumed. Time before `data_since_ms`, in which nobody listened, is none of it then.
        """
        if self.max_offset <= max(self.first_max_offset, self.commit_offset):
            return 0
        seen_ms = self.reported_ms - self.since_ms
        return max(seen_ms, now_ms - max(self.since_ms, data_since_ms)) if self.is_cache_full else seen_ms

    def forget_standstill(self) -> None:
        """It stands still from now on, if it does."""
        self.since_ms, self.first_max_offset = self.reported_ms, self.max_offset

    def was_consumed_after(self, time_ms: int) -> bool:
        return self.consumed_ms is not None and self.consumed_ms > time_ms


def is_cache_full(pull: Offsets) -> bool:
    """Whether the client has more unconsumed, with the answer to this pull, than it pulls beyond."""
    if pull.commit_offset is None or pull.max_offset is None:
        return False
    answer = PULL_BATCH if pull.max_offset > pull.pull_offset else 0
    return pull.pull_offset - pull.commit_offset + answer >= PULL_THRESHOLD_FOR_QUEUE


def note_offsets(known: Consumption | None, pull: Offsets) -> Consumption | None:
    """What is known of the queue's consumption after this event."""
    commit_offset, max_offset, now_ms = pull.commit_offset, pull.max_offset, pull.event_time_ms
    if pull.broker_id:
        return None  # a slave serves: the commits it knows are older than the group's
    if commit_offset is None or max_offset is None or (known is not None and now_ms < known.reported_ms):
        return known
    is_full = known is not None and known.is_cache_full
    if not pull.offsets_only:
        is_full = is_cache_full(pull)
    if known is None:
        return Consumption(commit_offset, max_offset, now_ms, max_offset, now_ms, None, is_full)
    known.consumed_ms = now_ms if commit_offset > known.commit_offset else known.consumed_ms
    is_idle = (
        max_offset <= commit_offset or known.max_offset <= known.commit_offset or pull.pull_status == NO_MATCHED_MSG
    )
    if commit_offset != known.commit_offset or is_idle:
        known.since_ms, known.first_max_offset = now_ms, max_offset
    known.commit_offset, known.max_offset, known.reported_ms, known.is_cache_full = (
        commit_offset,
        max_offset,
        now_ms,
        is_full,
    )
    return known
