"""Whether an alert comes and goes: how often it came in a window, a newer coming weighing more, as in Nagios.

Nagios Core 4, "Detection and Handling of State Flapping": 21 states, 20 possible changes, the newest weighing 1.2 and
the oldest 0.8; flapping begins above a high threshold and ends below a low one. A coming is two changes, there and
back. Comings are counted at their own times, not as a state a slot: what comes and goes once in each slot, or at a
period close to a slot's, is in the same state in every slot.
"""

from dataclasses import dataclass, field

SLOTS = 21

MOST_COMINGS = 64
"""Remembered of a window, newest; so many are flapping by any threshold."""


@dataclass
class Window:
    """How one alert came and went. `comings` are the times it began to fire, oldest first; `is_on` is now."""

    comings: list[int] = field(default_factory=list)
    is_on: bool = False
    is_flapping: bool = False
    now_ms: int = 0
    span_ms: int = 0

    def note(self, now_ms: int, slot_ms: int, *, is_on: bool) -> None:
        """Bring the window to now; in time that nobody looked in nothing came."""
        self.now_ms, self.span_ms = max(now_ms, self.now_ms), SLOTS * slot_ms
        if is_on and not self.is_on:
            self.comings.append(self.now_ms)
        self.is_on = is_on
        self.comings = [at for at in self.comings if at + self.span_ms > self.now_ms][-MOST_COMINGS:]

    def judge(self, high: float, low: float) -> bool:
        """Whether it flaps now: it begins above `high`, and ends below `low`."""
        share = self.share()
        self.is_flapping = share >= low if self.is_flapping else share > high
        return self.is_flapping

    def share(self) -> float:
        """Weighted share of changes, 0 to 1."""
        weights = (1.2 - 0.4 * (self.now_ms - at) / self.span_ms for at in self.comings)
        return min(1.0, 2 * sum(weights) / (SLOTS - 1))

    def is_over(self) -> bool:
        """Nothing of it is left to remember."""
        return not self.is_on and not self.comings
