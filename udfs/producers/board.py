"""One broker as all its producers see it: every FaultItem, when each became unavailable and available again.

Flips are reported at their own event time: an item whose time has come is available from `start_timestamp_ms` on,
whenever that is noticed.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from udfs.alerts.alert import Incident
from udfs.producers.attempts import Attempts, Step
from udfs.rocketmq.fault import rules_of

EVICTION_MS = 60_000
"""How often idle items are looked for."""

LOST_MS = 86_400_000
"""A 5.1.4 producer's item that never comes back by itself is kept this long without an attempt: it may be cured yet."""


@dataclass(frozen=True)
class Flip:
    """A FaultItem became unavailable, or available again, at its own event time, with the values that decided it."""

    client_id: str
    client_version: str
    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    available: bool
    changed_at_ms: int


@dataclass
class Item:
    """One producer's FaultItem of one broker as it is kept, moved by the steps of its attempts and by time.

    It is available from `start_timestamp_ms` on, whenever that is noticed; in 5.1.4 only if it is reachable. `seen_ms`
    is its newest attempt; `slow_ms` and `slow_latency_ms` its newest slow or failed one and its latency.

    `out_ms` and `back_ms`: when it last became unavailable, and available again.
    """

    client_version: str
    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    reachable: bool
    is_available: bool
    seen_ms: int
    slow_ms: int = 0
    slow_latency_ms: int = 0
    out_ms: int = 0
    back_ms: int = 0

    @classmethod
    def of(cls, client_version: str, step: Step, seen_ms: int) -> "Item":
        """A broker that nothing bad is remembered of."""
        return cls(client_version, step.latency_ms, False, 0, True, True, seen_ms)

    def expire(self, client_id: str, now_ms: int) -> Flip | None:
        """Its time has come and it may be used. The flip has the latency that kept it out: of a run of quick attempts
        since, which change nothing, the one at that moment is not known.
        """
        if self.is_available or not self.reachable or now_ms < self.start_timestamp_ms:
            return None
        return self._flip(client_id, True, self.start_timestamp_ms, self.slow_latency_ms)

    def apply(self, client_id: str, client_version: str, step: Step) -> Flip | None:
        """MQFaultStrategy.updateFaultItem for each attempt of the step. Up to 5.1.3 an old step changes nothing."""
        only_extends = rules_of(client_version).only_extends
        if step.to_ms < self.seen_ms and not only_extends:
            return None
        self.client_version, self.seen_ms = client_version, max(self.seen_ms, step.to_ms)
        self.reachable = step.reachable
        apply = self._apply_slow if step.is_slow else self._apply_quick
        flip = apply(client_id, step, only_extends)
        self.current_latency_ms = step.latency_ms
        return flip

    def _apply_quick(self, client_id: str, step: Step, only_extends: bool) -> Flip | None:
        if only_extends and self.start_timestamp_ms > step.from_ms:
            return None
        flip = None if self.is_available else self._flip(client_id, True, step.from_ms, step.first_latency_ms)
        if not only_extends:
            self.start_timestamp_ms = step.to_ms
        return flip

    def _apply_slow(self, client_id: str, step: Step, only_extends: bool) -> Flip | None:
        flip = None
        known_ms = self.start_timestamp_ms if only_extends else 0
        if self.is_available and (max(known_ms, step.first_start_ms) > step.from_ms or not step.reachable):
            self.isolation, self.start_timestamp_ms = step.isolation, max(known_ms, step.first_start_ms)
            flip = self._flip(client_id, False, step.from_ms, step.first_latency_ms)
        self.isolation, self.slow_ms, self.slow_latency_ms = step.isolation, step.to_ms, step.latency_ms
        self.start_timestamp_ms = max(known_ms, step.start_ms)
        return flip

    def _flip(self, client_id: str, available: bool, at_ms: int, latency_ms: int) -> Flip:
        self.is_available = available
        if available:
            self.isolation, self.back_ms = False, at_ms
        else:
            self.out_ms = at_ms
        start_ms = self.start_timestamp_ms
        return Flip(client_id, self.client_version, latency_ms, self.isolation, start_ms, available, at_ms)


@dataclass(frozen=True)
class Health:
    """k of n producers avoid the broker, until the last of them comes back (None: none does)."""

    unavailable_producers: int
    producers: int
    unavailable_until_ms: int | None
    changed_at_ms: int


@dataclass
class Board:
    """The state kept a broker: client_id → Item. `incidents` has at most one, that a rule raised for it.

    `has_told`: it has a row of its health, which is not its last.
    """

    items: dict[str, Item] = field(default_factory=dict)
    evicted_ms: int = 0
    incidents: dict[str, Incident] = field(default_factory=dict)
    has_reported: bool = False

    def advance(
        self, attempts: Iterable[Attempts], now_ms: int | None, idle_ms: int
    ) -> tuple[list[Flip], list[Health]]:
        """Apply steps in time order and let time come to `now_ms` (None: to the newest step)."""
        ordered = sorted(
            (
                (step.from_ms, of.client_id, index, step, of.client_version)
                for of in attempts
                for index, step in enumerate(of.steps)
            ),
            key=lambda entry: entry[:3],
        )
        turns = _Turns(self)
        newest_ms = now_ms or 0
        for from_ms, client_id, _, step, client_version in ordered:
            turns.expire(from_ms)
            turns.apply(client_id, client_version, step)
            newest_ms = max(newest_ms, step.to_ms)
        turns.expire(newest_ms)
        if newest_ms >= self.evicted_ms + EVICTION_MS:
            self.evicted_ms = newest_ms
            turns.evict(newest_ms, idle_ms)
            last = Health(0, 0, None, newest_ms)
            if self.has_reported and not self.items and last not in turns.health:
                turns.health.append(last)
        self.has_reported = bool(self.items) and (self.has_reported or bool(turns.health))
        return turns.flips, turns.health


class _Turns:
    """One advance of a board: heaps of the items that wait for their time, the next first and the last first.

    An entry whose item has turned or moved since is dropped when it comes up.
    """

    def __init__(self, board: Board) -> None:
        self.flips: list[Flip] = []
        self.health: list[Health] = []
        self._items = board.items
        self._waiting = [
            (item.start_timestamp_ms, client_id) for client_id, item in board.items.items() if not item.is_available
        ]
        self._unavailable = len(self._waiting)
        self._latest = [(-start_ms, client_id) for start_ms, client_id in self._waiting]
        heapq.heapify(self._waiting)
        heapq.heapify(self._latest)

    def expire(self, now_ms: int) -> None:
        """Items whose startTimestamp has come are available from then on; in 5.1.4 only if reachable."""
        held: list[tuple[int, str]] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            start_ms, client_id = heapq.heappop(self._waiting)
            item = self._items[client_id]
            if item.is_available:
                continue
            if item.start_timestamp_ms > start_ms:
                heapq.heappush(self._waiting, (item.start_timestamp_ms, client_id))
            elif flip := item.expire(client_id, start_ms):
                self._report(flip)
            else:
                held.append((start_ms, client_id))
        for entry in held:
            heapq.heappush(self._waiting, entry)

    def apply(self, client_id: str, client_version: str, step: Step) -> None:
        item = self._items.get(client_id)
        if item is None:
            item = self._items[client_id] = Item.of(client_version, step, step.from_ms)
        flip = item.apply(client_id, client_version, step)
        if not item.is_available:
            heapq.heappush(self._waiting, (item.start_timestamp_ms, client_id))
            heapq.heappush(self._latest, (-item.start_timestamp_ms, client_id))
        if flip is not None:
            self._report(flip)

    def evict(self, now_ms: int, idle_ms: int) -> None:
        """Forget items without a send for long. It turns nothing: what became of the producer is not known."""
        idle = [
            client_id
            for client_id, item in self._items.items()
            if item.seen_ms + (idle_ms if item.is_available else LOST_MS) <= now_ms
            and (item.is_available or not item.reachable)
        ]
        lost = sum(not self._items.pop(client_id).is_available for client_id in idle)
        if lost:
            self._unavailable -= lost
            self._report_health(now_ms)

    def _report(self, flip: Flip) -> None:
        self._unavailable += -1 if flip.available else 1
        self.flips.append(flip)
        self._report_health(flip.changed_at_ms)

    def _report_health(self, at_ms: int) -> None:
        health = Health(self._unavailable, len(self._items), self._until_ms(), at_ms)
        if self.health and self.health[-1].changed_at_ms == at_ms:
            self.health.pop()
        self.health.append(health)

    def _until_ms(self) -> int | None:
        """When the last of the unavailable items comes back."""
        while self._latest:
            start_ms, client_id = -self._latest[0][0], self._latest[0][1]
            item = self._items.get(client_id)
            if item is not None and not item.is_available and item.start_timestamp_ms == start_ms:
                return start_ms
            heapq.heappop(self._latest)
        return None
