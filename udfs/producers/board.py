"""One broker as all its producers see it: every FaultItem, when each became unavailable and available again.

Flips are told at their own event time: an item whose time has come is available from `start_timestamp_ms` on,
whenever that is noticed.
"""

import heapq
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field

from udfs.alerts.alert import Incident
from udfs.producers.attempts import Attempts, Step
from udfs.producers.item import Item, Turn

EVICTION_MS = 60_000
"""How often idle items are looked for."""

LOST_MS = 86_400_000
"""A 5.1.4 producer's item that never comes back by itself is kept this long without an attempt: it may be cured yet."""


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

    @classmethod
    def of(cls, client_id: str, client_version: str, turn: Turn) -> "Flip":
        return cls(client_id, client_version, *astuple(turn))


@dataclass(frozen=True)
class Health:
    """k of n producers avoid the broker, until the last of them comes back (None: nobody does)."""

    unavailable_producers: int
    producers: int
    unavailable_until_ms: int | None
    changed_at_ms: int


@dataclass
class Board:
    """The state kept a broker: client_id → Item. `incidents` has at most one, that a rule raised at it.

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
            elif turn := item.expire(start_ms):
                self._report_turn(client_id, item, turn)
            else:
                held.append((start_ms, client_id))
        for entry in held:
            heapq.heappush(self._waiting, entry)

    def apply(self, client_id: str, client_version: str, step: Step) -> None:
        item = self._items.get(client_id)
        if item is None:
            item = self._items[client_id] = Item.of(client_version, step, step.from_ms)
        turn = item.apply(client_version, step)
        if not item.is_available:
            heapq.heappush(self._waiting, (item.start_timestamp_ms, client_id))
            heapq.heappush(self._latest, (-item.start_timestamp_ms, client_id))
        if turn is not None:
            self._report_turn(client_id, item, turn)

    def evict(self, now_ms: int, idle_ms: int) -> None:
        """Forget what nobody has sent to for long. It turns nothing: what became of the producer is not known."""
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

    def _report_turn(self, client_id: str, item: Item, turn: Turn) -> None:
        self._unavailable += -1 if turn.available else 1
        self.flips.append(Flip.of(client_id, item.client_version, turn))
        self._report_health(turn.changed_at_ms)

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
