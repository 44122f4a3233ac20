"""What is really so in the modelled cluster: which queues nobody consumes or several do, from when, until when, why.

A queue is starved when it can be written or read and no live process holds, pulls and consumes it. One cause at a
time:

    group_offline          no process of the group runs
    consume_disabled       brokers refuse the group's pulls
    write_only_queue       producers fill it, and consumers may not read it
    pull_stopped           its holder lives and sends heartbeats, and does not pull it: by a bug, or it is suspended
    consume_stopped        its holder pulls it and its listener does not return
    order_lock             its owner cannot lock it: another process, which does not consume it, keeps the lock
    strategy_gap           the group's strategy gives it to nobody
    duplicate_client_id    it belongs to the slot of a second process with the ClientId of a first
    frozen_client          its owner is stopped, or its host is lost, and still listed
    member_not_subscribed  its owner does not subscribe the topic
    split_view             a process of the group cannot reach every broker
    stale_route            a process of the group works with an old route
    mixed_strategy         the group's processes allocate by different strategies

and two that pass by themselves and are nobody's fault:

    reconnect              it belongs to the slot of a channel that its process has replaced, until that expires
    rebalance              its owner is about to take it: seconds, after a broker's restart up to a minute or two

A queue is doubled when two live processes pull it. Only queues that clients share out are judged: no broadcasting,
POP or assign(), and none whose broker is down.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from udfs.rocketmq.model import MessageQueue

HARMLESS = frozenset({"rebalance", "reconnect"})
"""Causes that must never be paged."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something was so of `mq` in the group, for this cause, from `start_ms` up to `end_ms`; None: still so.

    `since_ms` is when it began, whatever the causes before this one.
    """

    consumer_group: str
    mq: MessageQueue
    start_ms: int
    end_ms: int | None
    cause: str
    since_ms: int = 0

    @property
    def is_harmless(self) -> bool:
        """It passes by itself."""
        return self.cause in HARMLESS


class Starved(Span):
    """Nobody consumed the queue."""

    __slots__ = ()


class Doubled(Span):
    """Two processes consumed the queue."""

    __slots__ = ()


SomeSpan = TypeVar("SomeSpan", bound=Span)


class _Spans(Generic[SomeSpan]):
    """Intervals of one sort: the ended ones in the order they ended, then the open ones."""

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
    """Every starvation and every doubling up to `known_ms`. Iterating gives the starved intervals."""

    def __init__(self) -> None:
        self.known_ms = 0
        self._starved = _Spans(Starved)
        self._doubled = _Spans(Doubled)

    def __iter__(self) -> Iterator[Starved]:
        return iter(self._starved)

    @property
    def doubled(self) -> Iterator[Doubled]:
        """Every interval in which two processes pulled a queue."""
        return iter(self._doubled)

    def at(self, time_ms: int) -> list[Starved]:
        """What was starved at a time."""
        return [one for one in self if is_at(one, time_ms)]

    def doubled_at(self, time_ms: int) -> list[Doubled]:
        """What was doubled at a time."""
        return [one for one in self.doubled if is_at(one, time_ms)]

    def causes(self, longer_than_ms: int = 0) -> frozenset[str]:
        """Why queues starved for longer than this without a break; the harmless causes left out."""
        return frozenset(one.cause for one in self if not one.is_harmless and self.lasted_ms(one) > longer_than_ms)

    def lasted_ms(self, span: Span) -> int:
        """How long an interval lasted, or has lasted so far."""
        return (self.known_ms if span.end_ms is None else span.end_ms) - span.start_ms

    def spells(self, gap_ms: int) -> list[Starved]:
        """Starved intervals of one queue and one cause, joined over gaps of up to `gap_ms`, by start.

        A split view makes queues change hands every 20 s: with a gap of a minute that is one spell. Harmless
        intervals between two of one cause belong to the gap. `since_ms` is the first interval's.
        """
        return _joined(self, gap_ms)

    def doubled_spells(self, gap_ms: int) -> list[Doubled]:
        """The same of doubled intervals."""
        return _joined(self.doubled, gap_ms)

    def update(
        self,
        consumer_group: str,
        starved: Mapping[MessageQueue, str],
        doubled: Mapping[MessageQueue, str],
        now_ms: int,
    ) -> None:
        """From now on exactly these queues are starved and doubled in the group, for these causes."""
        self._starved.update(consumer_group, starved, now_ms)
        self._doubled.update(consumer_group, doubled, now_ms)


def is_at(span: Span, time_ms: int) -> bool:
    """Whether the interval holds a moment."""
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
