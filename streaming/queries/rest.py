"""How long to rest after a batch that had little to do: until the next tick has come, for nothing is concluded between.

A batch costs as much for ten events as for a hundred. Where a cluster is quiet, one batch for each round of its clock
is enough; where events come fast, or nothing waits for a tick, the next batch begins at once or soon.
"""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from statistics import median
from typing import NamedTuple

BUSY = 100.0
"""Events a second from which on nobody rests."""

SENDS_S = 1.0
"""FaultItems change between ticks: where there are sends, a rest is no longer than this."""

SOON_S = 0.25
"""The rest where a tick is overdue."""

MARGIN_S = 0.05
"""So much after its time a tick will be in Kafka."""

EARLIER_S = 0.005
"""By so much earlier the next tick is looked for, once one was there: nobody tells for how long it has waited. Until
one is missed for the first time, by MARGIN_S."""

KEPT = 6
"""Ticks of one source that its rhythm is taken from."""

OVERDUE_ROUNDS = 3
"""A source that has missed so many rounds keeps nobody's time."""


class TickSeen(NamedTuple):
    """A batch had this tick; `at_ms` is when Kafka had it, by Kafka's clock."""

    cluster: str
    source: str
    at_ms: int


class Rest:
    """Told of each batch, it says how long to rest. Times are seconds of one clock of ours, but for a tick's."""

    def __init__(self, most_s: float) -> None:
        """`most_s` is the longest rest; 0 is none at all."""
        self._most_s = most_s
        self._ticks: dict[tuple[str, str], deque[int]] = {}
        self._apart_s: float | None = None  # how far our clock is ahead of Kafka's, as far as it shows
        self._step_s = MARGIN_S
        self._is_missed = False
        self._last_s: float | None = None

    def after(self, began_s: float, now_s: float, events: int, sends: int, ticks: Iterable[TickSeen]) -> float:
        """Seconds to rest now, after a batch that began at `began_s` and read so many events, `sends` among them."""
        for tick in ticks:
            known = self._ticks.setdefault(tick[:2], deque(maxlen=KEPT))
            if not known or tick.at_ms > known[-1]:
                known.append(tick.at_ms)
                self._note(began_s - tick.at_ms / 1000)
        passed_s = now_s - self._last_s if self._last_s is not None else 0.0
        self._last_s = now_s
        if self._most_s <= 0 or passed_s <= 0 or events / passed_s >= BUSY:
            return 0.0
        most_s = min(self._most_s, SENDS_S) if sends else self._most_s
        next_s = self._next_tick_s(now_s)
        self._is_missed = next_s is not None and next_s < now_s
        return min(most_s, SENDS_S if next_s is None else max(next_s + MARGIN_S - now_s, SOON_S))

    def _note(self, waited_s: float) -> None:
        """A tick was there, so much after its time by Kafka's clock and ours."""
        if self._apart_s is None or waited_s < self._apart_s:
            self._apart_s = waited_s
        elif self._is_missed:
            self._apart_s, self._step_s = self._apart_s + MARGIN_S, EARLIER_S
        else:
            self._apart_s -= self._step_s
        self._is_missed = False

    def _next_tick_s(self, now_s: float) -> float | None:
        """When the next tick of all is to be in Kafka; None where nobody's rhythm is known."""
        apart_s = self._apart_s or 0.0
        found = []
        for key, seen in list(self._ticks.items()):
            if len(seen) < 2:
                continue
            times = list(seen)
            every_s = median(after - before for before, after in pairwise(times)) / 1000
            due_s = times[-1] / 1000 + apart_s + every_s
            if now_s > due_s + OVERDUE_ROUNDS * every_s:
                del self._ticks[key]
            else:
                found.append(due_s)
        return min(found, default=None)
