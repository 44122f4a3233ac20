"""Ground truth of a simulated cluster: starved and doubled queues, with start, end and cause.

A queue is starved if it can be written or read and no live process holds, pulls and consumes it. Its cause:

    group_offline          no process of the group runs
    consume_disabled       brokers refuse the group's pulls
    write_only_queue       producers fill it, but consumers may not read it
    pull_stopped           its holder lives and sends heartbeats, but does not pull: a bug, or it is suspended
    consume_stopped        its holder pulls it, but its listener does not return
    order_lock             its owner cannot lock it: a process that does not consume it keeps the lock
    strategy_gap           the group's strategy allocates it to no member
    duplicate_client_id    it belongs to the slot of the second process with a ClientId
    frozen_client          its owner is frozen, or its host is lost, but it is still listed
    member_not_subscribed  its owner does not subscribe the topic
    split_view             a process of the group cannot reach every broker
    stale_route            a process of the group uses an old route
    mixed_strategy         the group's processes allocate by different strategies

Two causes are transient and harmless:

    reconnect              it belongs to the slot of a replaced channel, until that expires
    rebalance              its owner is about to take it: seconds, or two minutes after a broker's restart

A queue is doubled if two live processes pull it. Only queues that clients allocate are evaluated: no broadcasting, POP
or assign(), and no queue of a broker that is down.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from udfs.rocketmq.model import MessageQueue

HARMLESS = frozenset({"rebalance", "reconnect"})
"""Causes that must never be paged."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of one queue with one cause, from `start_ms` up to `end_ms` (None: open).

    `since_ms` is its start under any cause.
    """

    consumer_group: str
    mq: MessageQueue
    start_ms: int
    end_ms: int | None
    cause: str
    since_ms: int = 0

    @property
    def is_harmless(self) -> bool:
        """Whether the cause is transient."""
        return self.cause in HARMLESS


class Starved(Span):
    """No process consumed the queue."""

    __slots__ = ()


class Doubled(Span):
    """Two processes consumed the queue."""

    __slots__ = ()


SomeSpan = TypeVar("SomeSpan", bound=Span)


class _Spans(Generic[SomeSpan]):
    """Intervals of one kind: ended ones in order of their end, then open ones."""

    def __init__(self, span: type[SomeSpan]) -> None:
        self._span = span
        self._ended: list[SomeSpan] = []
        self._open: dict[tuple[str, MessageQueue], SomeSpan] = {}

    def __iter__(self) -> Iterator[SomeSpan]:
        yield from self._ended
        yield from self._open.values()

    def update(self, consumer_group: str, causes: Mapping[MessageQueue, str], now_ms: int) -> None:
        since_ms: dict[MessageQueue, int] = {}
        for key, one in list(self._open.items()):
            if key[0] == consumer_group and causes.get(key[1]) != one.cause:
                del self._open[key]
                if key[1] in causes:
                    since_ms[key[1]] = one.since_ms
                if one.start_ms < now_ms:
                    self._ended.append(replace(one, end_ms=now_ms))
        for mq, cause in causes.items():
            if (consumer_group, mq) not in self._open:
                since = since_ms.get(mq, now_ms)
                self._open[consumer_group, mq] = self._span(consumer_group, mq, now_ms, None, cause, since)


class Truth:
    """All starved and doubled intervals up to `known_ms`. Iteration yields the starved ones."""

    def __init__(self) -> None:
        self.known_ms = 0
        self._starved = _Spans(Starved)
        self._doubled = _Spans(Doubled)

    def __iter__(self) -> Iterator[Starved]:
        return iter(self._starved)

    @property
    def doubled(self) -> Iterator[Doubled]:
        """The doubled intervals."""
        return iter(self._doubled)

    def at(self, time_ms: int) -> list[Starved]:
        """Return the intervals starved at a time."""
        return [one for one in self if is_at(one, time_ms)]

    def doubled_at(self, time_ms: int) -> list[Doubled]:
        """Return the intervals doubled at a time."""
        return [one for one in self.doubled if is_at(one, time_ms)]

    def causes(self, longer_than_ms: int = 0) -> frozenset[str]:
        """Return the harmful causes of queues that starved longer than this without a break."""
        return frozenset(one.cause for one in self if not one.is_harmless and self.lasted_ms(one) > longer_than_ms)

    def lasted_ms(self, span: Span) -> int:
        """Return the duration of an interval; up to `known_ms` if it is open."""
        return (self.known_ms if span.end_ms is None else span.end_ms) - span.start_ms

    def spells(self, gap_ms: int) -> list[Starved]:
        """Return the starved intervals by start; those of one queue and cause joined over gaps of up to `gap_ms`.

        A split view moves queues every 20 s: with a gap of a minute that is one spell. Harmless intervals between two
        of one cause belong to the gap. `since_ms` is the first interval's.
        """
        return _joined(self, gap_ms)

    def doubled_spells(self, gap_ms: int) -> list[Doubled]:
        """Return the doubled intervals, joined likewise."""
        return _joined(self.doubled, gap_ms)

    def update(
        self,
        consumer_group: str,
        starved: Mapping[MessageQueue, str],
        doubled: Mapping[MessageQueue, str],
        now_ms: int,
    ) -> None:
        """Set the cause of each queue of the group that is starved or doubled from now on."""
        self._starved.update(consumer_group, starved, now_ms)
        self._doubled.update(consumer_group, doubled, now_ms)


def is_at(span: Span, time_ms: int) -> bool:
    """Return whether the interval contains a time."""
    return span.start_ms <= time_ms and (span.end_ms is None or time_ms < span.end_ms)


def _joined(spans: Iterable[SomeSpan], gap_ms: int) -> list[SomeSpan]:
    newest: dict[tuple[str, MessageQueue, str], SomeSpan] = {}
    joined: list[SomeSpan] = []
    for span in sorted(spans, key=lambda span: (span.start_ms, span.consumer_group, span.mq)):
        key = (span.consumer_group, span.mq, span.cause)
        known = newest.get(key)
        if known is not None and known.end_ms is not None and span.start_ms - known.end_ms <= gap_ms:
            newest[key] = replace(known, end_ms=span.end_ms)
        else:
            if known is not None:
                joined.append(known)
            newest[key] = span
    return sorted([*joined, *newest.values()], key=lambda span: (span.start_ms, span.consumer_group, span.mq))
