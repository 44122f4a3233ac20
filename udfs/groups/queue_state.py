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

from udfs.alerts.rules import LONG_POLL_MS, REBALANCE_MS, Rules
from udfs.groups.consumption import Consumption
from udfs.groups.plan import NOBODYS, WRITE_ONLY_QUEUE, PlannedShare

OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED = "OK", "UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED"
NOT_JUDGED, UNKNOWN = "NOT_JUDGED", "UNKNOWN"

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
