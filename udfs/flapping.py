"""Whether an alert comes and goes: the share of changes in a window of slots, as Nagios counts them.

Nagios Core 4, "Detection and Handling of State Flapping": 21 states, 20 possible changes, the newest weighing 1.2 and
the oldest 0.8; flapping begins above a high threshold and ends below a low one. A slot here is a span of event time,
and counts as on when the alert was firing at any look in it.
"""

from dataclasses import dataclass

SLOTS = 21


@dataclass
class Window:
    """How one alert came and went. `slots` has a 0 or 1 each, the newest, number `slot`, last; `is_on` is now."""

    slots: str = "0" * SLOTS
    slot: int = 0
    is_on: bool = False
    is_flapping: bool = False

    def note(self, now_ms: int, slot_ms: int, *, is_on: bool) -> None:
        """Bring the window to now; slots that nobody looked in are as they were left."""
        slot = now_ms // slot_ms
        passed = min(max(0, slot - self.slot), SLOTS) if self.slot else 0
        if passed:
            self.slots = (self.slots + ("1" if self.is_on else "0") * passed)[-SLOTS:]
        self.slot = max(slot, self.slot)
        self.is_on = is_on
        if is_on:
            self.slots = self.slots[:-1] + "1"
        elif passed and self.slots[-1] == "1":
            self.slots = self.slots[:-1] + "0"

    def judge(self, high: float, low: float) -> bool:
        """Whether it flaps now: it begins above `high`, and ends below `low`."""
        share = self.share()
        self.is_flapping = share >= low if self.is_flapping else share > high
        return self.is_flapping

    def share(self) -> float:
        """Weighted share of changes, 0 to 1."""
        weights = (0.8 + 0.4 * index / (SLOTS - 2) for index in range(SLOTS - 1))
        changes = (before != after for before, after in zip(self.slots, self.slots[1:], strict=False))
        return sum(weight for weight, is_change in zip(weights, changes, strict=True) if is_change) / (SLOTS - 1)

    def is_over(self) -> bool:
        """Nothing of it is left to remember."""
        return not self.is_on and "1" not in self.slots
