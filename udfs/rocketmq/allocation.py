"""Which queues each client of a consumer group takes: RocketMQ's AllocateMessageQueueStrategy.

A client looks itself up in `cid_all` by its ClientId, and List.indexOf answers the first index. So a ClientId
listed twice gives both holders the share of its first index and leaves the share of the second to nobody:
that is how queues starve under every strategy that goes by index. CONSISTENT_HASH and CONFIG do not.

`mq_all` and `cid_all` are taken as they come: RebalanceImpl.rebalanceByTopic sorts both before it asks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from udfs.rocketmq.consistent_hash import VIRTUAL_NODES, by_consistent_hash
from udfs.rocketmq.machine_room import (
    CHECKS_ITS_ARGUMENTS_SINCE,
    ShareOut,
    Shares,
    by_machine_room,
    by_machine_room_nearby,
)
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

Allocate = Callable[[str, str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]
"""(consumer_group, current_cid, mq_all, cid_all) -> the share: a strategy of the user's own."""


def averagely(mq_all: Sequence[MessageQueue], cid_all: Sequence[str], wanted: Mapping[str, int]) -> Shares:
    """AVG: contiguous runs, in order; the first `len(mq_all) % len(cid_all)` clients take one more.

    With more clients than queues the surplus clients take nothing.
    """
    size, mod = divmod(len(mq_all), len(cid_all))
    return {
        cid: list(mq_all[index * size + min(index, mod) : (index + 1) * size + min(index + 1, mod)])
        for cid, index in wanted.items()
    }


def averagely_by_circle(mq_all: Sequence[MessageQueue], cid_all: Sequence[str], wanted: Mapping[str, int]) -> Shares:
    """AVG_BY_CIRCLE: dealt like cards, client i takes i, i + m, i + 2m, ..."""
    return {cid: list(mq_all[index :: len(cid_all)]) for cid, index in wanted.items()}


POSITIONAL: Mapping[str, ShareOut] = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}
"""The strategies that look at positions only: neither at a ClientId, nor at a broker's name, nor at an option."""

CONFIG, MACHINE_ROOM, CONSISTENT_HASH = "CONFIG", "MACHINE_ROOM", "CONSISTENT_HASH"

NEARBY = "MACHINE_ROOM_NEARBY"
"""AllocateMachineRoomNearby.getName() adds "-" and the name of the strategy inside."""

STRATEGIES = (*POSITIONAL, CONFIG, MACHINE_ROOM, NEARBY, CONSISTENT_HASH)
"""AllocateMessageQueueStrategy.getName() of what RocketMQ brings."""


class UnknownStrategyError(ValueError):
    """The name is no strategy of RocketMQ's. Every other ValueError here is an exception of RocketMQ's too."""


@dataclass(frozen=True)
class Options:
    """What a strategy is constructed with. Each option is read by its own strategy and ignored by the others.

    config_queues     CONFIG: the list it answers; None is an empty one
    consumer_idcs     MACHINE_ROOM: the rooms whose queues are shared out
    client_version    MACHINE_ROOM: its release, "4.7.1", "V4_7_1" or (4, 7, 1); None is the newest
    inner             MACHINE_ROOM_NEARBY: the strategy inside, by name or as a callable, where the name has none
    broker_room       MACHINE_ROOM_NEARBY: MachineRoomResolver.brokerDeployIn, of a MessageQueue
    client_room       MACHINE_ROOM_NEARBY: MachineRoomResolver.consumerDeployIn, of a ClientId
    virtual_nodes     CONSISTENT_HASH: replicas of a client on the ring
    """

    config_queues: Sequence[MessageQueue] | None = None
    consumer_idcs: Collection[str] | None = None
    client_version: str | ClientVersion | None = NEWEST
    inner: str | Allocate | None = None
    broker_room: Callable[[MessageQueue], str | None] | None = None
    client_room: Callable[[str], str | None] | None = None
    virtual_nodes: int = VIRTUAL_NODES

    @property
    def release(self) -> ClientVersion:
        return release_of(self.client_version or NEWEST)


def allocate(
    strategy: str,
    consumer_group: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    **options: Any,
) -> list[MessageQueue]:
    """AllocateMessageQueueStrategy.allocate: the share of `current_cid`, in the strategy's order; see Options.

    Empty when `current_cid` is not in `cid_all`. Raises ValueError where RocketMQ throws (an empty current_cid,
    mq_all or cid_all; no room; fewer than no virtual nodes: the client then keeps its old queues), and for an
    unknown strategy. Two strategies check less: CONFIG answers its list whatever it is asked, and MACHINE_ROOM up to
    4.9.2 answers an empty list.
    """
    chosen = Options(**options)
    if strategy == CONFIG:
        return list(chosen.config_queues or ())
    if not current_cid and _is_checked(strategy, chosen):
        raise ValueError(f"current_cid of group {consumer_group!r} is empty")
    return _shares(strategy, consumer_group, mq_all, cid_all, [current_cid], chosen).get(current_cid, [])


def allocate_all(
    strategy: str,
    consumer_group: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    **options: Any,
) -> Shares:
    """What `allocate` gives each client of the group, by ClientId, in one pass over the queues and the clients.

    Twins have one entry, for they take the same queues; the empty ClientId, which `allocate` refuses, has none.
    Raises ValueError as `allocate` does.
    """
    chosen = Options(**options)
    if strategy == CONFIG:
        return {cid: list(chosen.config_queues or ()) for cid in cid_all or ()}
    everyone = [cid for cid in cid_all or () if cid or not _is_checked(strategy, chosen)]
    return _shares(strategy, consumer_group, mq_all, cid_all, everyone, chosen)


def _is_checked(strategy: str, options: Options) -> bool:
    return strategy != MACHINE_ROOM or options.release >= CHECKS_ITS_ARGUMENTS_SINCE


def _shares(
    strategy: str,
    consumer_group: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    asking: Sequence[str],
    options: Options,
) -> Shares:
    """The share of each client that asks, if it is listed."""
    share_out = _construct(strategy, consumer_group, options)
    is_checked = _is_checked(strategy, options)
    for name, given in (("cid_all", cid_all), ("mq_all", mq_all)):
        if is_checked and not given:
            raise ValueError(f"{name} of group {consumer_group!r} is empty")
    if cid_all is None:
        raise ValueError(f"cid_all of group {consumer_group!r} is None")
    first_index = {cid: index for index, cid in reversed(list(enumerate(cid_all)))}
    wanted = {cid: first_index[cid] for cid in asking if cid in first_index}
    if not wanted:
        return {}
    if mq_all is None:
        raise ValueError(f"mq_all of group {consumer_group!r} is None")
    return share_out(mq_all, cid_all, wanted)


def _construct(strategy: str, consumer_group: str, options: Options) -> ShareOut:
    """The strategy as its constructor and setters leave it."""
    if strategy in POSITIONAL:
        return POSITIONAL[strategy]
    if strategy == MACHINE_ROOM:
        return partial(by_machine_room, consumer_idcs=options.consumer_idcs, client_version=options.release)
    if strategy == CONSISTENT_HASH:
        if options.virtual_nodes < 0:
            raise ValueError(f"virtual_nodes is {options.virtual_nodes}, less than 0")
        return partial(by_consistent_hash, virtual_nodes=options.virtual_nodes)
    family, _, inner_name = strategy.partition("-")
    if family != NEARBY:
        raise UnknownStrategyError(
            f"strategy {strategy!r} of group {consumer_group!r} is not one of {', '.join(STRATEGIES)}"
        )
    if options.broker_room is None or options.client_room is None:
        raise ValueError(f"{strategy} needs broker_room and client_room")
    return partial(
        by_machine_room_nearby,
        inner=_construct_inner(strategy, inner_name, consumer_group, options),
        broker_room=options.broker_room,
        client_room=options.client_room,
    )


def _construct_inner(strategy: str, inner_name: str, consumer_group: str, options: Options) -> ShareOut:
    inner = options.inner
    if callable(inner):
        return partial(_by_callable, allocate_one=inner, consumer_group=consumer_group)
    if inner and inner_name and inner != inner_name:
        raise ValueError(f"{strategy} and inner={inner!r} name two strategies")
    name = inner or inner_name
    if not name:
        raise ValueError(f"{strategy} names no strategy inside; write {NEARBY}-AVG, or give inner")
    if name == CONFIG:
        return partial(_by_config, config_queues=options.config_queues)
    return _construct(name, consumer_group, replace(options, inner=None))


def _by_callable(
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    wanted: Mapping[str, int],
    allocate_one: Allocate,
    consumer_group: str,
) -> Shares:
    return {cid: list(allocate_one(consumer_group, cid, mq_all, cid_all)) for cid in wanted}


def _by_config(
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    wanted: Mapping[str, int],
    config_queues: Sequence[MessageQueue] | None,
) -> Shares:
    """CONFIG inside another strategy, which cannot add up a list that was never set."""
    if config_queues is None:
        raise ValueError("config_queues is not set")
    return {cid: list(config_queues) for cid in wanted}
