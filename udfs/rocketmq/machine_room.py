"""The two strategies that know machine rooms: AllocateMessageQueueByMachineRoom and AllocateMachineRoomNearby.

The first reads the room from the broker's name, `room@broker`, and shares out the queues of some rooms only. The
second asks a resolver, and keeps queues in their own room as long as a client is alive there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from udfs.rocketmq.model import MessageQueue, java_order
from udfs.rocketmq.version import ClientVersion

Shares = dict[str, list[MessageQueue]]
"""ClientId to the queues it takes, in the order in which the strategy lists them."""

ShareOut = Callable[[Sequence[MessageQueue], Sequence[str], Mapping[str, int]], Shares]
"""(mq_all, cid_all, wanted) -> Shares: one strategy over one group.

`wanted` maps each ClientId that is asked about to its first index in cid_all.
"""

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

    Queues of other rooms are nobody's. Up to 4.7.1 the runs are counted in mq_all itself: other rooms' queues are
    handed out and as many of its own starve, unless its rooms come first in mq_all. Raises ValueError where Java
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
    """What stands before the "@", when there are exactly two parts as String.split sees them: "a@b@" has two."""
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
