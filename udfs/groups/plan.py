"""Who should consume each queue of a topic: every member's share, as each computes it in RebalanceImpl.

A member's strategy is what its heartbeat tells; else what its pulls showed (`InferredStrategies.strategies`); else what
most of the others use; else the default. Members that allocate by different strategies take overlapping shares and
leave gaps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from udfs.rocketmq.allocation import CONSISTENT_HASH, POSITIONAL, allocate_all
from udfs.rocketmq.membership import Member
from udfs.rocketmq.model import MessageQueue, queue_order
from udfs.rocketmq.rebalance import sort_client_ids
from udfs.rocketmq.route import Route

DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED = "duplicate_client_id", "member_not_subscribed"
MIXED_STRATEGY, STRATEGY_GAP, WRITE_ONLY_QUEUE = "mixed_strategy", "strategy_gap", "write_only_queue"
STALE_ROUTE, SPLIT_VIEW = "stale_route", "split_view"

RECOMPUTED = (*POSITIONAL, CONSISTENT_HASH)
"""Strategies that need nothing but events: machine rooms and configured lists are known to the clients only."""

UNKNOWN_STRATEGY = "?"
"""A member whose pulls fit no strategy known here: another SDK, or a strategy of its own."""


@dataclass(frozen=True)
class PlannedShare:
    """One queue's place in the plan: its owner, or why it has none and whose slot it fell into."""

    owner: str | None
    gap: str | None = None
    slot_of: str | None = None


NOBODYS = PlannedShare(None)

Views = Mapping[str, Mapping[str, Member]]
"""Broker → client address → member, as Membership.views has them."""


@dataclass
class InferredStrategies:
    """What pulls showed of the members' allocation: strategies by ClientId, and the queues of those that fit none."""

    strategies: dict[str, str] = field(default_factory=dict)
    taken: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Inference:
    """What the pulls showed: `seen` enters the plan; `causes` says by ClientId why its pulls deviate from it."""

    seen: InferredStrategies = field(default_factory=InferredStrategies)
    causes: dict[str, str] = field(default_factory=dict)


def queue_name(queue: MessageQueue) -> str:
    """`broker:queue_id`, as every table and alert writes a queue."""
    return f"{queue.broker_name}:{queue.queue_id}"


def names_of_brokers(names: Iterable[str]) -> str:
    """The brokers of these queues, joined by commas."""
    return ",".join(sorted({queue_order(name)[0] for name in names}))


def reference_view(views: Views, route: Route) -> list[Member]:
    """The view to plan by: of the route's brokers the one that knows most members, by name among equals.

    MQClientInstance.findConsumerIdList asks one random broker of the topic's route.
    """
    known = sorted(views.keys() & route.broker_names(), key=lambda name: (-len(views[name]), name))
    return list(views[known[0]].values()) if known else []


def strategies_of(members: Sequence[Member], default: str, seen: InferredStrategies) -> dict[str, str]:
    known = {member.client_id: member.strategy or seen.strategies.get(member.client_id) for member in members}
    usual = _most([name for name in known.values() if name and name != UNKNOWN_STRATEGY]) or default
    return {client_id: name or usual for client_id, name in known.items()}


def are_mixed(members: Iterable[Member]) -> bool:
    """Whether several strategies are reported, or one is reported by some while members of another SDK tell none."""
    known = list(members)
    reported = {member.strategy for member in known if member.strategy}
    sdks = {member.language for member in known if member.strategy}
    others = {member.language for member in known if not member.strategy}
    return len(reported) > 1 or bool(reported and others - sdks)


def is_recomputed(strategies: Mapping[str, str]) -> bool:
    """Whether every share can be computed from events."""
    return all(name in RECOMPUTED or name == UNKNOWN_STRATEGY for name in strategies.values())


def plan(
    consumer_group: str,
    route: Route,
    members: Sequence[Member],
    default_strategy: str,
    seen: InferredStrategies | None = None,
) -> dict[str, PlannedShare] | None:
    """The share of each readable queue by one view, by `broker:queue_id`. None where a strategy of its members cannot
    be recomputed from events. A member that does not subscribe the topic takes a share all the same.
    """
    seen = seen or InferredStrategies()
    queues, strategies = route.readable_queues(), strategies_of(members, default_strategy, seen)
    if not is_recomputed(strategies):
        return None
    if not queues or not members:
        return {queue_name(queue): PlannedShare(None) for queue in queues}
    cid_all = sort_client_ids(member.client_id for member in members)
    subscribers = {member.client_id for member in members if member.subscribes(route.topic)}
    by_strategy = {
        name: _shares(consumer_group, name, queues, cid_all, subscribers)
        for name in sorted(set(strategies.values()) - {UNKNOWN_STRATEGY})
    }
    if set(strategies.values()) <= by_strategy.keys() and len(by_strategy) == 1:
        return next(iter(by_strategy.values()))
    return _mixed(queues, strategies, by_strategy, subscribers, seen)


def _shares(
    consumer_group: str, strategy: str, queues: Sequence[MessageQueue], cid_all: Sequence[str], subscribers: set[str]
) -> dict[str, PlannedShare]:
    """The plan of a group of one strategy.

    By position, allocation runs over one slot a channel: a ClientId listed twice gives both holders the first slot's
    queues, and the later slots' queues are nobody's. CONSISTENT_HASH knows ClientIds only, so twins share one place.
    """
    if strategy not in POSITIONAL:
        taken = allocate_all(strategy, consumer_group, queues, cid_all)
        owners = {mq: client_id for client_id, share in taken.items() for mq in share}
        return {queue_name(mq): _share(owners.get(mq), subscribers) for mq in queues}
    slots = [f"{index:06d}" for index in range(len(cid_all))]
    first_slot = {client_id: slot for slot, client_id in zip(reversed(slots), reversed(cid_all), strict=True)}
    shares: dict[str, PlannedShare] = {}
    for slot, share in allocate_all(strategy, consumer_group, queues, slots).items():
        client_id = cid_all[int(slot)]
        is_later = first_slot[client_id] != slot
        entry = PlannedShare(None, DUPLICATE_CLIENT_ID, client_id) if is_later else _share(client_id, subscribers)
        shares.update((queue_name(mq), entry) for mq in share)
    return {queue_name(mq): shares.get(queue_name(mq), PlannedShare(None)) for mq in queues}


def _share(client_id: str | None, subscribers: set[str]) -> PlannedShare:
    if client_id is None:
        return NOBODYS  # a client that gave no ClientId has a place on the ring, and takes nothing
    return PlannedShare(client_id) if client_id in subscribers else PlannedShare(None, MEMBER_NOT_SUBSCRIBED, client_id)


def _mixed(
    queues: Sequence[MessageQueue],
    strategies: Mapping[str, str],
    by_strategy: Mapping[str, Mapping[str, PlannedShare]],
    subscribers: set[str],
    seen: InferredStrategies,
) -> dict[str, PlannedShare]:
    """Each member takes its share by its own strategy; what nobody takes is a gap between strategies."""
    usual = _most([name for name in strategies.values() if name != UNKNOWN_STRATEGY])
    owners: dict[str, str] = {}
    for client_id in sorted(subscribers & strategies.keys()):
        own = by_strategy.get(strategies[client_id])
        mine = seen.taken.get(client_id, []) if own is None else [q for q, s in own.items() if s.owner == client_id]
        for name in mine:
            owners.setdefault(name, client_id)
    shares = {}
    for queue in queues:
        name = queue_name(queue)
        usual_share = by_strategy[usual][name] if usual else NOBODYS
        nobodys = usual_share if usual_share.gap else PlannedShare(None, MIXED_STRATEGY)
        shares[name] = PlannedShare(owners[name]) if name in owners else nobodys
    return shares


def _most(names: Sequence[str]) -> str | None:
    return min(set(names), key=lambda name: (-names.count(name), name)) if names else None
