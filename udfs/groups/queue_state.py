"""Who should consume each queue of a topic, who does, and the verdict on the two.

Planned: recomputed from a broker's view of the group, as each client does it in RebalanceImpl.rebalanceByTopic.
Observed: who pulled within `pull_silence_ms`. The verdicts:

    OK               the planned owner pulls
    UNOWNED          it has no planned owner, and no client pulls
    NOT_CONSUMED     it has a planned owner, and no client pulls; or its commit stands still while messages wait
    DOUBLE_CONSUMED  two channels pull side by side for longer than a hand-over takes
    MISPLACED        a client other than the planned owner pulls
    NOT_JUDGED       clients do not share the queues out: broadcasting, POP, gRPC, assign()
    UNKNOWN          too little data: of the queue for too short a time, or of the group; never healthy
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from udfs.alerts.rules import LONG_POLL_MS, REBALANCE_MS, Rules
from udfs.groups.plan import NOBODYS, WRITE_ONLY_QUEUE, PlannedShare

PULL_THRESHOLD_FOR_QUEUE = 1_000
"""DefaultMQPushConsumer.pullThresholdForQueue: a client with so many messages of a queue unconsumed pulls no more."""

LEAST_BACKLOG = PULL_THRESHOLD_FOR_QUEUE
"""Messages from which on a backlog is reported. Fewer may all be in the cache of a client that consumes them."""

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
    """How far one queue is consumed, by any client: its committed offset against its end, as its master reports them.

    A commit that advances is life. One that stands still while messages wait is starvation, whatever the pulls say: a
    client pulls on while its listener hangs, and looks as if it pulled while it is suspended or its cache is full. A
    commit that is never reported, and a queue without waiting messages, say nothing. Slaves report commits late, and
    are left out.

    commit_offset  the newest; it has stood there since `since_ms`, with messages waiting all the while
    max_offset     the newest end of the queue; `first_max_offset` is its end at `since_ms`
    reported_ms    the newest event with both
    consumed_ms    the newest event at which the commit had advanced
    is_cache_full  as of the newest pull, its client had more unconsumed than it pulls beyond
    asked_offset   the furthest offset that was pulled since the commit last moved, first at `asked_ms`
    behind_ms      since when each event showed a backlog of LEAST_BACKLOG or more; None if the newest did not
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
    behind_ms: int | None = None

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
    is_behind = max_offset - commit_offset >= LEAST_BACKLOG
    if known is None or max_offset < known.commit_offset:  # or made anew: a topic deleted, a broker's store wiped
        is_full, behind_ms = not pull.offsets_only and is_cache_full(pull), now_ms if is_behind else None
        return Consumption(
            commit_offset, max_offset, now_ms, max_offset, now_ms, None, is_full, pull.pull_offset, now_ms, behind_ms
        )
    if not is_behind:
        known.behind_ms = None
    elif known.behind_ms is None:
        known.behind_ms = now_ms
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


OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED = "OK", "UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED"
NOT_JUDGED, UNKNOWN = "NOT_JUDGED", "UNKNOWN"

WRONG = (UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED)
"""The verdicts that are problems."""

WORST_FIRST = (*WRONG, UNKNOWN, NOT_JUDGED, OK)

HAND_OVER_MS = REBALANCE_MS + 10_000
"""The old owner's last long poll may end this long after the new owner's first pull."""

RECENT_PULL_MS = LONG_POLL_MS + REBALANCE_MS
"""A queue that a client holds is pulled at least this often, by the slowest of RocketMQ's own consumers, too."""

DOUBLED_TURNS = 4
"""Queues change hands and back, once a restart; two that both pull take turns all the time."""

TURN_MS = 10_000
"""Turns are counted once in so long: around a hand-over, both pull for a second."""


@dataclass(slots=True)
class Puller:
    """One channel (or client, where the channel is not told) that pulls a queue."""

    client_id: str | None
    client_addr: str | None
    first_pull_ms: int
    last_pull_ms: int


@dataclass(slots=True)
class PullAnomaly:
    """What is unusual about a queue's pulls: refused, served by a slave, committed backwards, or by several clients.

    `slave_since_ms` is None once a master serves again. The commit offset fell from `high_offset` to `low_offset`
    at `regressed_ms`; None once it has come back to where it was. `turns` counts how often another channel than the
    last pulled, once a TURN_MS, newest at `turned_ms`; 0 again when one pulls alone.
    """

    refused_ms: int | None = None
    slave_since_ms: int | None = None
    is_slave_suggested: bool = False
    regressed_ms: int | None = None
    high_offset: int = 0
    low_offset: int = 0
    turns: int = 0
    turned_ms: int = 0


@dataclass(slots=True)
class QueueState:
    """What is known of one queue of one group. `last_client_id` is who pulled it last, if that is known.

    `reason` is why the verdict is UNKNOWN or NOT_JUDGED (verdict_reason), as it was last reported.
    """

    pullers: dict[str, Puller] = field(default_factory=dict)
    last_pull_ms: int | None = None
    commit_offset: int | None = None
    max_offset: int | None = None
    share: PlannedShare = NOBODYS
    share_since_ms: int = 0
    verdict: str = UNKNOWN
    since_ms: int = 0
    reported: tuple[str | None, list[str], str] | None = None
    last_client_id: str | None = None
    anomaly: PullAnomaly | None = None
    consumption: Consumption | None = None
    reason: str | None = None

    def is_below(self, commit_offset: int | None) -> bool:
        return commit_offset is not None and commit_offset < (self.commit_offset or 0)

    def take_offsets(self, commit_offset: int | None, max_offset: int | None) -> None:
        """Keep the newest offsets, as far as they are known."""
        self.commit_offset = self.commit_offset if commit_offset is None else commit_offset
        self.max_offset = self.max_offset if max_offset is None else max_offset


@dataclass(frozen=True)
class OwnershipRow:
    """A queue's planned owner, observed owners or verdict changed, or the `reason` why it is UNKNOWN or NOT_JUDGED."""

    topic: str
    queue: str
    planned_owner: str | None
    observed_owners: list[str]
    verdict: str
    since_ms: int
    reason: str | None = None


def last_served_ms(queue_state: QueueState) -> int:
    """When the queue was last pulled or its commit last advanced; 0 when neither was seen."""
    consumed_ms = (queue_state.consumption.consumed_ms if queue_state.consumption else None) or 0
    return consumed_ms if is_pulled_in_vain(queue_state) else max(queue_state.last_pull_ms or 0, consumed_ms)


def is_pulled_in_vain(queue_state: QueueState) -> bool:
    """A broker refuses every pull of a queue that the route does not give to read.

    Consumers ask all the same: where no queue of the topic is left to allocate, the strategy raises and each keeps what
    it had.
    """
    return queue_state.share.gap == WRITE_ONLY_QUEUE


def is_pulled_anyway(queue_state: QueueState) -> bool:
    """Pulled for longer after the plan changed than a hand-over takes."""
    return any(
        puller.last_pull_ms > queue_state.share_since_ms + HAND_OVER_MS for puller in queue_state.pullers.values()
    )


def observed_pullers(queue_state: QueueState, now_ms: int, pull_silence_ms: int) -> list[Puller]:
    """Return the pullers of the window, sorted by address."""
    return [
        puller for _, puller in sorted(queue_state.pullers.items()) if puller.last_pull_ms + pull_silence_ms > now_ms
    ]


def observed_owners(pullers: Sequence[Puller]) -> list[str]:
    """Return ClientIds: with the address if several channels carry one, and the address alone if the id is unknown."""
    if len(pullers) == 1:
        return [pullers[0].client_id or pullers[0].client_addr or "unknown"]
    ids = [puller.client_id for puller in pullers]
    return sorted(
        {
            f"{puller.client_id} at {puller.client_addr}"
            if puller.client_addr and ids.count(puller.client_id) > 1 and puller.client_id
            else puller.client_id or puller.client_addr or "unknown"
            for puller in pullers
        }
    )


def is_held_back(queue_state: QueueState, now_ms: int, rules: Rules) -> bool:
    """Return whether its client's cache was full at the newest pull, and its commit has not stood still for long."""
    known = queue_state.consumption
    return known is not None and known.is_cache_full and known.stands_ms(now_ms) < rules.consume_silence_ms
