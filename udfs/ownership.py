"""Who should consume each queue of a topic, who does, and the verdict on the two.

Planned: recomputed from a broker's view of the group, as each client does it in RebalanceImpl.rebalanceByTopic.
Observed: who pulled within `pull_silence_ms`. The verdicts:

    OK          the planned owner pulls
    STARVED     nobody is meant to, and nobody does
    SILENT      somebody is meant to, and nobody does: nobody pulls, or its commit stands still while messages come
    DOUBLED     two channels pull side by side for longer than a hand-over takes
    MISPLACED   another than the planned owner pulls
    NOT_JUDGED  the queues are not shared out by clients: broadcasting, POP, gRPC, assign()
    UNKNOWN     nothing was seen, for too short a time or of the whole group; never healthy
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from udfs.consumption import Consumption
from udfs.plan import NOBODYS, Share
from udfs.rules import REBALANCE_MS, Rules

OK, STARVED, SILENT, DOUBLED, MISPLACED = "OK", "STARVED", "SILENT", "DOUBLED", "MISPLACED"
NOT_JUDGED, UNKNOWN = "NOT_JUDGED", "UNKNOWN"

HAND_OVER_MS = REBALANCE_MS + 10_000
"""The old owner's last long poll may end this long after the new owner's first pull."""

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
class Oddity:
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
class QueueWatch:
    """What is known of one queue of one group. `last_client_id` is who pulled it last, if that is known.

    `reason` is why the verdict is UNKNOWN or NOT_JUDGED (verdict_reason), as it was last reported.
    """

    pullers: dict[str, Puller] = field(default_factory=dict)
    last_pull_ms: int | None = None
    commit_offset: int | None = None
    max_offset: int | None = None
    share: Share = NOBODYS
    share_since_ms: int = 0
    verdict: str = UNKNOWN
    since_ms: int = 0
    reported: tuple[str | None, list[str], str] | None = None
    last_client_id: str | None = None
    oddity: Oddity | None = None
    consumption: Consumption | None = None
    reason: str | None = None


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


def observed_pullers(watch: QueueWatch, now_ms: int, pull_silence_ms: int) -> list[Puller]:
    """Who pulled within the window, sorted by address."""
    return [puller for _, puller in sorted(watch.pullers.items()) if puller.last_pull_ms + pull_silence_ms > now_ms]


def observed_owners(pullers: Sequence[Puller]) -> list[str]:
    """ClientIds; the address is added where several channels carry one, and stands alone where no id is known."""
    if len(pullers) == 1:
        return [pullers[0].client_id or pullers[0].client_addr or "unknown"]
    ids = [puller.client_id for puller in pullers]
    return sorted(
        {
            (f"{puller.client_id} at {puller.client_addr}" if ids.count(puller.client_id) > 1 else puller.client_id)
            if puller.client_id
            else (puller.client_addr or "unknown")
            for puller in pullers
        }
    )


def judge(
    watch: QueueWatch,
    pullers: Sequence[Puller],
    other_owners: set[str],
    *,
    watched_since_ms: int,
    has_pulls: bool,
    now_ms: int,
    rules: Rules,
    is_planned: bool = True,
) -> str:
    """The verdict on one queue. A commit that advances is as good as a pull; one that stands still is worse than none.

    `other_owners` are the owners other brokers' views would give it; `watched_since_ms` is when the group and its
    topic were first seen; `has_pulls` whether any pull of the group was ever seen; `is_planned` is False when the
    strategy cannot be recomputed, so that whoever pulls is right.
    """
    verdict = _judge_pulls(watch, pullers, other_owners, watched_since_ms, now_ms, rules, has_pulls, is_planned)
    known = watch.consumption
    if known is None or watch.share.owner is None or verdict == DOUBLED:
        return verdict
    if known.stands_ms(now_ms, watched_since_ms) >= rules.consume_silence_ms:
        return SILENT
    is_life = verdict != MISPLACED and known.was_consumed_after(now_ms - rules.pull_silence_ms)
    return OK if is_life else verdict


def _judge_pulls(
    watch: QueueWatch,
    pullers: Sequence[Puller],
    other_owners: set[str],
    watched_since_ms: int,
    now_ms: int,
    rules: Rules,
    has_pulls: bool,
    is_planned: bool,
) -> str:
    if pullers:
        if find_doublings(watch, pullers):
            return DOUBLED
        owners = {watch.share.owner, *other_owners} - {None}
        ids = {puller.client_id for puller in pullers}
        return OK if ids == {None} or ids & owners or not is_planned else MISPLACED
    if is_too_new(watch, watched_since_ms, now_ms, rules):
        return UNKNOWN
    if watch.share.owner is None:
        return STARVED if has_pulls or watch.share.gap else UNKNOWN
    return SILENT if has_pulls else UNKNOWN


def is_too_new(watch: QueueWatch, watched_since_ms: int, now_ms: int, rules: Rules) -> bool:
    """Whether nothing can be said of a silence yet."""
    consumed_ms = (watch.consumption.consumed_ms if watch.consumption else None) or 0
    since_ms = max(watched_since_ms, watch.share_since_ms, watch.last_pull_ms or 0, consumed_ms)
    return now_ms < since_ms + rules.pull_silence_ms


def find_doublings(watch: QueueWatch, pullers: Sequence[Puller]) -> list[tuple[Puller, Puller]]:
    """Channels that overlap for longer than a hand-over takes, by turns: a hand-over there and back is no overlap."""
    if watch.oddity is None or watch.oddity.turns < DOUBLED_TURNS:
        return []
    return [
        (one, other)
        for one, other in combinations(pullers, 2)
        if one.last_pull_ms - other.first_pull_ms > HAND_OVER_MS
        and other.last_pull_ms - one.first_pull_ms > HAND_OVER_MS
    ]
