"""Which queues each client of a consumer group takes: RocketMQ's AllocateMessageQueueStrategy.

A client looks itself up in `cid_all` by its ClientId, and List.indexOf answers the first index. So a ClientId
listed twice gives both holders the share of its first index and leaves the share of the second without a client:
that is how queues starve under every strategy that uses indexes. CONSISTENT_HASH and CONFIG do not.

`mq_all` and `cid_all` are taken as they come: RebalanceImpl.rebalanceByTopic sorts both before it asks.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

from udfs.rocketmq.model import MessageQueue, java_order
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

Shares = dict[str, list[MessageQueue]]
"""ClientId to the queues it takes, in the order in which the strategy lists them."""

ShareOut = Callable[[Sequence[MessageQueue], Sequence[str], Mapping[str, int]], Shares]
"""(mq_all, cid_all, wanted) -> Shares: one strategy over one group.

`wanted` maps each ClientId that is asked about to its first index in cid_all.
"""

VIRTUAL_NODES = 10
"""AllocateMessageQueueConsistentHash's own virtualNodeCnt."""


@lru_cache(maxsize=32_768)
def ring_position(key: str) -> int:
    """ConsistentHashRouter.MD5Hash, 0 to 2**32 - 1.

    The key is read as UTF-8: 5.0.0 and newer always do so, older releases take the JVM's default charset, which
    JDK 18 made UTF-8. A lone surrogate becomes "?", as in String.getBytes.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def build_ring(cid_all: Sequence[str], virtual_nodes: int) -> dict[int, str]:
    """Ring position to ClientId: `virtual_nodes` positions for each entry of cid_all.

    A ClientId listed again adds replicas after those it has on the ring. Where two keys meet, the later entry takes
    the position, and the earlier one has a replica fewer.
    """
    ring: dict[int, str] = {}
    replicas = dict.fromkeys(cid_all, 0)
    for cid in cid_all:
        first = replicas[cid]
        for replica in range(first, first + virtual_nodes):
            position = ring_position(f"{cid}-{replica}")
            if position in ring:
                replicas[ring[position]] -= 1
            ring[position] = cid
            replicas[cid] += 1
    return ring


def by_consistent_hash(
    mq_all: Sequence[MessageQueue], cid_all: Sequence[str], wanted: Mapping[str, int], virtual_nodes: int
) -> Shares:
    """The share of each `wanted` ClientId, in the order of mq_all. Without virtual nodes no client has a queue.

    No slot is lost to a twin: both holders of a ClientId take all of its queues.
    """
    shares: Shares = {cid: [] for cid in wanted}
    ring = build_ring(cid_all, virtual_nodes)
    positions = sorted(ring)
    for mq in mq_all if positions else ():
        following = bisect_left(positions, ring_position(mq.java_string())) % len(positions)
        owner = ring[positions[following]]
        if owner in shares:
            shares[owner].append(mq)
    return shares


Subject = TypeVar("Subject")

INDEXES_ITS_ROOMS_SINCE: ClientVersion = (4, 8, 0)
"""Up to 4.7.1 MACHINE_ROOM counts its rooms' queues, but takes them from the list of all rooms."""

CHECKS_ITS_ARGUMENTS_SINCE: ClientVersion = (4, 9, 3)
"""Before, MACHINE_ROOM alone of all strategies answers an empty list instead of refusing."""


def by_machine_room(
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    wanted: Mapping[str, int],
    consumer_idcs: Collection[str] | None,
    client_version: ClientVersion,
) -> Shares:
    """MACHINE_ROOM: contiguous runs over the queues of `consumer_idcs`, then one more for each of the first clients.

    Queues of other rooms have no owner. Up to 4.7.1 the runs are counted in mq_all itself: other rooms' queues are
    handed out and as many of these rooms starve, unless its rooms come first in mq_all. Raises ValueError where Java
    has a NullPointerException: no consumer_idcs, and a broker whose name holds a room.
    """
    pre_mq_all = [mq for mq in mq_all if _is_in(room_of(mq.broker_name), consumer_idcs)]
    run_over = pre_mq_all if client_version >= INDEXES_ITS_ROOMS_SINCE else mq_all
    mod, rem = divmod(len(pre_mq_all), len(cid_all))
    shares = {cid: list(run_over[mod * index : mod * (index + 1)]) for cid, index in wanted.items()}
    for cid, index in wanted.items():
        if index < rem:
            shares[cid].append(pre_mq_all[mod * len(cid_all) + index])
    return shares


def room_of(broker_name: str) -> str | None:
    """The part before the "@", when there are exactly two parts as String.split sees them: "a@b@" has two."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _is_in(room: str | None, consumer_idcs: Collection[str] | None) -> bool:
    if room is None:
        return False
    if consumer_idcs is None:
        raise ValueError("consumer_idcs is not set")
    return room == consumer_idcs if isinstance(consumer_idcs, str) else room in consumer_idcs


def by_machine_room_nearby(
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    wanted: Mapping[str, int],
    inner: ShareOut,
    broker_room: Callable[[MessageQueue], str | None],
    client_room: Callable[[str], str | None],
) -> Shares:
    """MACHINE_ROOM_NEARBY: each room's queues by `inner` over the room's own clients.

    The queues of each room without clients follow, room after room in Java's string order, shared out by `inner`
    over all of cid_all: each such room begins anew at the first client, so the first clients get most. Raises
    ValueError when a room is None or empty, of whichever queue or client.
    """
    queues = _by_room(mq_all, broker_room, "queue")
    clients = _by_room(cid_all, client_room, "client")
    shares: Shares = {cid: [] for cid in wanted}
    for room, cids in clients.items():
        first_index = {cid: index for index, cid in reversed(list(enumerate(cids))) if cid in shares}
        if first_index and room in queues:
            for cid, share in inner(queues[room], cids, first_index).items():
                shares[cid] += share
    for room in sorted(queues.keys() - clients.keys(), key=java_order):
        for cid, share in inner(queues[room], cid_all, wanted).items():
            shares[cid] += share
    return shares


def _by_room(subjects: Iterable[Subject], room: Callable[[Subject], str | None], noun: str) -> dict[str, list[Subject]]:
    rooms: dict[str, list[Subject]] = {}
    for subject in subjects:
        name = room(subject)
        if not name:
            raise ValueError(f"the machine room of {noun} {subject} is {name!r}")
        rooms.setdefault(name, []).append(subject)
    return rooms


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
"""The strategies that use positions only: neither at a ClientId, nor at a broker's name, nor at an option."""

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
    broker_room       MACHINE_ROOM_NEARBY: MachineRoomResolver.brokerDeployIn, of a MessageQueue
    client_room       MACHINE_ROOM_NEARBY: MachineRoomResolver.consumerDeployIn, of a ClientId
    virtual_nodes     CONSISTENT_HASH: replicas of a client on the ring
    """

    config_queues: Sequence[MessageQueue] | None = None
    consumer_idcs: Collection[str] | None = None
    client_version: str | ClientVersion | None = NEWEST
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
    if not inner_name:
        raise ValueError(f"{strategy} names no strategy inside; write {NEARBY}-AVG")
    return partial(
        by_machine_room_nearby,
        inner=(
            partial(_by_config, config_queues=options.config_queues)
            if inner_name == CONFIG
            else _construct(inner_name, consumer_group, options)
        ),
        broker_room=options.broker_room,
        client_room=options.client_room,
    )


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
