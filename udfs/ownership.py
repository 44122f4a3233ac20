"""Who should consume each queue of a topic, who does, and the verdict on the two.

Planned: recomputed from a broker's view of the group, as each client does it in RebalanceImpl.rebalanceByTopic.
Observed: who pulled within `pull_silence_ms`. The verdicts:

    OK          the planned owner pulls
    STARVED     nobody is meant to, and nobody does
    SILENT      somebody is meant to, and nobody does
    DOUBLED     two channels pull side by side for longer than a hand-over takes
    MISPLACED   another than the planned owner pulls
    NOT_JUDGED  the queues are not shared out by clients: broadcasting, POP, gRPC, assign()
    UNKNOWN     nothing was seen, for too short a time or of the whole group; never healthy
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from udfs.allocation import allocate_all
from udfs.membership import Member
from udfs.model import MessageQueue
from udfs.route import Route
from udfs.rules import REBALANCE_MS, Rules

OK, STARVED, SILENT, DOUBLED, MISPLACED = "OK", "STARVED", "SILENT", "DOUBLED", "MISPLACED"
NOT_JUDGED, UNKNOWN = "NOT_JUDGED", "UNKNOWN"

DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED = "duplicate_client_id", "member_not_subscribed"

HAND_OVER_MS = REBALANCE_MS + 10_000
"""The old owner's last long poll may end this long after the new owner's first pull."""


@dataclass(frozen=True)
class Share:
    """One queue's place in the plan: its owner, or why it has none and whose slot it fell into."""

    owner: str | None
    gap: str | None = None
    slot_of: str | None = None


@dataclass
class Puller:
    """One channel (or client, where the channel is not told) that pulls a queue."""

    client_id: str | None
    client_addr: str | None
    first_pull_ms: int
    last_pull_ms: int


@dataclass
class QueueWatch:
    """What is known of one queue of one group."""

    pullers: dict[str, Puller] = field(default_factory=dict)
    last_pull_ms: int | None = None
    commit_offset: int | None = None
    max_offset: int | None = None
    share: Share = Share(None)
    share_since_ms: int = 0
    verdict: str = UNKNOWN
    since_ms: int = 0
    reported: tuple[str | None, list[str], str] | None = None


def queue_name(queue: MessageQueue) -> str:
    """`broker:queue_id`, as every table and alert writes a queue."""
    return f"{queue.broker_name}:{queue.queue_id}"


def queue_order(name: str) -> tuple[str, int]:
    """Sorts `broker:queue_id` by broker, then number."""
    broker_name, _, queue_id = name.rpartition(":")
    return broker_name, int(queue_id)


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Java's String order: UTF-16 units, which differ from Python's above U+FFFF."""
    return sorted(client_ids, key=lambda client_id: client_id.encode("utf-16-be", "surrogatepass"))


def reference_view(views: Mapping[str, Mapping[str, Member]], brokers: set[str]) -> dict[str, Member] | None:
    """The view to plan by: of the route's brokers the one that knows most members, by name among equals.

    MQClientInstance.findConsumerIdList asks one random broker of the topic's route.
    """
    known = sorted(views.keys() & brokers, key=lambda name: (-len(views[name]), name))
    return dict(views[known[0]]) if known else None


def strategy_of(members: Iterable[Member], default: str) -> str:
    """The strategy most members report; by name among equals; the default when none does."""
    told = [member.strategy for member in members if member.strategy]
    return min(set(told), key=lambda name: (-told.count(name), name)) if told else default


def plan(consumer_group: str, route: Route, members: Sequence[Member], default_strategy: str) -> dict[str, Share]:
    """The share of each readable queue, by `broker:queue_id`.

    Allocation runs over slots, one a channel: a ClientId listed twice gives both holders the first slot's queues,
    and the later slots' queues are nobody's. A member that does not subscribe the topic takes a slot all the same.
    Raises ValueError for a strategy this release cannot recompute.
    """
    queues = route.readable_queues()
    cid_all = sort_client_ids(member.client_id for member in members)
    if not queues or not cid_all:
        return {queue_name(queue): Share(None) for queue in queues}
    slots = [f"{index:06d}" for index in range(len(cid_all))]
    first_slot = {client_id: slot for slot, client_id in zip(reversed(slots), reversed(cid_all), strict=True)}
    subscribers = {member.client_id for member in members if member.subscribes(route.topic)}
    strategy = strategy_of(members, default_strategy)
    shares: dict[str, Share] = {}
    for slot, taken in allocate_all(strategy, consumer_group, queues, slots).items():
        client_id = cid_all[int(slot)]
        if first_slot[client_id] != slot:
            share = Share(None, DUPLICATE_CLIENT_ID, client_id)
        elif client_id not in subscribers:
            share = Share(None, MEMBER_NOT_SUBSCRIBED, client_id)
        else:
            share = Share(client_id)
        shares.update((queue_name(queue), share) for queue in taken)
    return {queue_name(queue): shares.get(queue_name(queue), Share(None)) for queue in queues}


def observed_pullers(watch: QueueWatch, now_ms: int, pull_silence_ms: int) -> list[Puller]:
    """Who pulled within the window, sorted by address."""
    return [puller for _, puller in sorted(watch.pullers.items()) if puller.last_pull_ms + pull_silence_ms > now_ms]


def observed_owners(pullers: Sequence[Puller]) -> list[str]:
    """ClientIds; the address is added where several channels carry one, and stands alone where no id is known."""
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
) -> str:
    """The verdict on one queue.

    `other_owners` are the owners other brokers' views would give it; `watched_since_ms` is when the group and its
    topic were first seen; `has_pulls` whether any pull of the group was ever seen.
    """
    if pullers:
        if _pull_side_by_side(pullers):
            return DOUBLED
        owners = {watch.share.owner, *other_owners} - {None}
        ids = {puller.client_id for puller in pullers}
        return OK if ids == {None} or ids & owners else MISPLACED
    since_ms = max(watched_since_ms, watch.share_since_ms, watch.last_pull_ms or 0)
    if now_ms < since_ms + rules.pull_silence_ms:
        return UNKNOWN
    if watch.share.owner is None:
        return STARVED if has_pulls or watch.share.gap else UNKNOWN
    return SILENT if has_pulls else UNKNOWN


def _pull_side_by_side(pullers: Sequence[Puller]) -> bool:
    """Two channels overlap for longer than a hand-over takes."""
    return any(
        one.last_pull_ms - other.first_pull_ms > HAND_OVER_MS and other.last_pull_ms - one.first_pull_ms > HAND_OVER_MS
        for index, one in enumerate(pullers)
        for other in pullers[index + 1 :]
    )
