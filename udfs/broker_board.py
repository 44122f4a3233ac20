"""One broker as all its producers see it: every FaultItem, when each became unavailable and available again.

Flips are told at their own event time: an item whose time has come is available from `start_timestamp_ms` on,
whenever that is noticed.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from udfs.attempts import Attempts, Step
from udfs.fault import rules_of
from udfs.version import parse_client_version

EVICTION_MS = 60_000
"""How often idle items are looked for."""


@dataclass
class Item:
    """One producer's FaultItem. `seen_ms` is its newest attempt."""

    client_version: str
    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    reachable: bool
    is_available: bool
    seen_ms: int


@dataclass(frozen=True)
class Flip:
    """A FaultItem became unavailable, or available again."""

    client_id: str
    client_version: str
    current_latency_ms: int
    isolation: bool
    start_timestamp_ms: int
    available: bool
    changed_at_ms: int


@dataclass(frozen=True)
class Health:
    """k of n producers avoid the broker, until the last of them comes back (None: nobody does)."""

    unavailable_producers: int
    producers: int
    unavailable_until_ms: int | None
    changed_at_ms: int


@dataclass
class Board:
    """The state kept a broker: client_id → Item."""

    items: dict[str, Item] = field(default_factory=dict)
    evicted_ms: int = 0

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
        turn = _Turn(self)
        newest_ms = now_ms or 0
        for from_ms, client_id, _, step, client_version in ordered:
            turn.expire(from_ms)
            turn.apply(client_id, client_version, step)
            newest_ms = max(newest_ms, step.to_ms)
        turn.expire(newest_ms)
        if newest_ms >= self.evicted_ms + EVICTION_MS:
            self.evicted_ms = newest_ms
            self.items = {
                client_id: item
                for client_id, item in self.items.items()
                if not item.is_available or item.seen_ms + idle_ms > newest_ms
            }
        return turn.flips, turn.health


class _Turn:
    """One advance of a board: a heap of the items that wait for their time."""

    def __init__(self, board: Board) -> None:
        self.flips: list[Flip] = []
        self.health: list[Health] = []
        self._items = board.items
        self._waiting = [
            (item.start_timestamp_ms, client_id) for client_id, item in board.items.items() if not item.is_available
        ]
        self._unavailable = len(self._waiting)
        heapq.heapify(self._waiting)

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
            elif item.reachable:
                self._flip(client_id, item, True, start_ms)
            else:
                held.append((start_ms, client_id))
        for entry in held:
            heapq.heappush(self._waiting, entry)

    def apply(self, client_id: str, client_version: str, step: Step) -> None:
        rules = rules_of(parse_client_version(client_version))
        item = self._items.get(client_id)
        if item is None:
            item = self._items[client_id] = Item(client_version, step.latency_ms, False, 0, True, True, step.from_ms)
        elif step.to_ms < item.seen_ms and not rules.only_extends:
            return  # older than what already overwrote it
        item.client_version, item.seen_ms = client_version, max(item.seen_ms, step.to_ms)
        item.reachable = step.reachable
        if step.is_slow:
            self._apply_slow(client_id, item, step, rules.only_extends)
        elif not rules.only_extends or item.start_timestamp_ms <= step.from_ms:
            if not item.is_available:
                self._flip(client_id, item, True, step.from_ms, step.first_latency_ms)
            if not rules.only_extends:
                item.start_timestamp_ms = step.to_ms
        item.current_latency_ms = step.latency_ms

    def _apply_slow(self, client_id: str, item: Item, step: Step, only_extends: bool) -> None:
        known_ms = item.start_timestamp_ms if only_extends else 0
        if item.is_available and (max(known_ms, step.first_start_ms) > step.from_ms or not step.reachable):
            item.isolation, item.start_timestamp_ms = step.isolation, max(known_ms, step.first_start_ms)
            self._flip(client_id, item, False, step.from_ms, step.first_latency_ms)
        item.isolation = step.isolation
        item.start_timestamp_ms = max(known_ms, step.start_ms)
        heapq.heappush(self._waiting, (item.start_timestamp_ms, client_id))

    def _flip(self, client_id: str, item: Item, available: bool, at_ms: int, latency_ms: int | None = None) -> None:
        item.is_available = available
        if available:
            item.isolation = False
        self._unavailable += -1 if available else 1
        latency_ms = item.current_latency_ms if latency_ms is None else latency_ms
        self.flips.append(
            Flip(client_id, item.client_version, latency_ms, item.isolation, item.start_timestamp_ms, available, at_ms)
        )
        until = [other.start_timestamp_ms for other in self._items.values() if not other.is_available]
        health = Health(self._unavailable, len(self._items), max(until, default=None), at_ms)
        if self.health and self.health[-1].changed_at_ms == at_ms:
            self.health.pop()
        self.health.append(health)
