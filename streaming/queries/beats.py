"""What of a group moves with every heartbeat and pull that only repeats what is known, apart from all else of it.

A group's state is kept as a frame, which is written when something changed, and its beats over it: numbers alone, in
the order of the frame. So a group that is alive and well costs a few hundred bytes a batch, whatever it subscribes.
"""

from collections.abc import Iterator

import msgspec

from udfs.groups.consumption import Consumption
from udfs.groups.queue_state import QueueState
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Member

Offsets = tuple[int, int, int, int, int, int | None, bool, int, int]
"""A Consumption's fields."""


class Beats(msgspec.Struct, array_like=True, gc=False):
    """In the order of the frame: of each member its newest heartbeat and the gap before it; of each queue its newest
    pull, commit and end, its consumption, and the newest pull of each of its pullers.
    """

    members: list[tuple[int, int | None]]
    queues: list[tuple[int | None, int | None, int | None, Offsets | None, list[int]]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Beats).decode


def beats_of(group: GroupState) -> bytes:
    """They fit the frame that the group was last written as, for as long as it was only told what repeats."""
    members = [
        (member.last_heartbeat_ms, member.gap_ms)
        for view in group.membership.views.values()
        for member in view.values()
    ]
    queues = [
        (
            watch.last_pull_ms,
            watch.commit_offset,
            watch.max_offset,
            None if watch.consumption is None else _fields_of(watch.consumption),
            [puller.last_pull_ms for puller in watch.pullers.values()],
        )
        for watched in group.topics.values()
        for watch in watched.queues.values()
    ]
    return _encode(Beats(members, queues))


def lay_over(group: GroupState, beats: bytes) -> None:
    """Bring a group, as its frame has it, to its beats."""
    known = _decode(beats)
    for member, of_member in zip(_members(group), known.members, strict=True):
        member.last_heartbeat_ms, member.gap_ms = of_member
    for watch, (last_pull_ms, commit_offset, max_offset, consumption, pullers) in zip(
        _queues(group), known.queues, strict=True
    ):
        watch.last_pull_ms, watch.commit_offset, watch.max_offset = last_pull_ms, commit_offset, max_offset
        watch.consumption = None if consumption is None else Consumption(*consumption)
        for puller, pulled_ms in zip(watch.pullers.values(), pullers, strict=True):
            puller.last_pull_ms = pulled_ms


def _members(group: GroupState) -> Iterator[Member]:
    for view in group.membership.views.values():
        yield from view.values()


def _queues(group: GroupState) -> Iterator[QueueState]:
    for watched in group.topics.values():
        yield from watched.queues.values()


def _fields_of(known: Consumption) -> Offsets:
    return (
        known.commit_offset,
        known.max_offset,
        known.since_ms,
        known.first_max_offset,
        known.reported_ms,
        known.consumed_ms,
        known.is_cache_full,
        known.asked_offset,
        known.asked_ms,
    )
