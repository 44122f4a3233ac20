"""Which queues each client of a consumer group takes: RocketMQ's AllocateMessageQueueStrategy.

A client looks itself up in `cid_all` by its ClientId, and List.indexOf answers the first index. So a ClientId
listed twice gives both holders the share of its first index and leaves the share of the second to nobody:
that is how queues starve under AVG and AVG_BY_CIRCLE.

`mq_all` and `cid_all` are taken as they come: RebalanceImpl.rebalanceByTopic sorts both before it asks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from udfs.model import MessageQueue

Shares = Sequence[Sequence[int]]
"""For each index of cid_all, the positions in mq_all that this index takes, in the order it takes them."""

Strategy = Callable[..., Shares]
"""(mq_all, cid_all, **options) -> Shares. It may look at names (rooms, hashes) or only at the lengths."""


def averagely(mq_all: Sequence[MessageQueue], cid_all: Sequence[str]) -> Shares:
    """AllocateMessageQueueAveragely: contiguous runs, in order.

    The first `len(mq_all) % len(cid_all)` clients take one more. With more clients than queues the surplus
    clients take nothing.
    """
    size, mod = divmod(len(mq_all), len(cid_all))
    return [
        range(index * size + min(index, mod), (index + 1) * size + min(index + 1, mod)) for index in range(len(cid_all))
    ]


def averagely_by_circle(mq_all: Sequence[MessageQueue], cid_all: Sequence[str]) -> Shares:
    """AllocateMessageQueueAveragelyByCircle: dealt like cards, client i takes i, i + m, i + 2m, ..."""
    return [range(index, len(mq_all), len(cid_all)) for index in range(len(cid_all))]


STRATEGIES: Mapping[str, Strategy] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
}
"""AllocateMessageQueueStrategy.getName() to the strategy."""


def allocate(
    strategy: str,
    consumer_group: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    **options: Any,
) -> list[MessageQueue]:
    """AllocateMessageQueueStrategy.allocate: the share of `current_cid`, in the strategy's order.

    Empty when `current_cid` is not in `cid_all`. Raises ValueError where RocketMQ raises
    IllegalArgumentException (an empty current_cid, mq_all or cid_all; the client then keeps its old queues),
    and for an unknown strategy.
    """
    if not current_cid:
        raise ValueError("current_cid is empty")
    shares = _shares(strategy, consumer_group, mq_all, cid_all, options)
    if current_cid not in cid_all:
        return []
    return [mq_all[position] for position in shares[cid_all.index(current_cid)]]


def allocate_all(
    strategy: str,
    consumer_group: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    **options: Any,
) -> dict[str, list[MessageQueue]]:
    """What `allocate` gives each client of the group, by ClientId, in one pass over the queues.

    Twins have one entry, for they take the same queues. Raises ValueError as `allocate` does.
    """
    shares = _shares(strategy, consumer_group, mq_all, cid_all, options)
    allocated: dict[str, list[MessageQueue]] = {}
    for current_cid, share in zip(cid_all, shares, strict=True):
        if current_cid not in allocated:
            allocated[current_cid] = [mq_all[position] for position in share]
    return allocated


def _shares(
    strategy: str,
    consumer_group: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    options: Mapping[str, Any],
) -> Shares:
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise ValueError(f"strategy {strategy!r} of group {consumer_group!r} is not one of {known}")
    if not mq_all:
        raise ValueError(f"mq_all of group {consumer_group!r} is empty")
    if not cid_all:
        raise ValueError(f"cid_all of group {consumer_group!r} is empty")
    return STRATEGIES[strategy](mq_all, cid_all, **options)
