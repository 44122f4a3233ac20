"""How far machines' clocks are out of step with the collector's, by the times they give for what a round saw happen.

A heartbeat or a pull whose time moved between two readings happened between them, whatever its machine's clock says.
Each such time bounds how far that clock is ahead; a clock that stands keeps within all the bounds, one that drifts
contradicts them by little and takes them along, one that was set contradicts them by much, and is learnt anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

MIN_SKEW_MS = 10_000
MIN_ROUNDS = 3
MAX_DRIFT_MS = 1_000
"""Of a clock since its bounds were found; also how long a busy machine may stand between reading it and saying so."""
MAX_TOLD = 100


class Machine(NamedTuple):
    """A broker's name or a ClientId, and its role: broker or client."""

    role: str
    name: str


class Stamp(NamedTuple):
    """A time that a machine gave for what happened after `after_ms` and before the round ended, by our clock."""

    machine: Machine
    stamp_ms: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class Skew:
    """A machine's clock is ahead by between these, ms, seen so in so many rounds; below 0 it is behind."""

    lowest_ms: int
    highest_ms: int
    rounds: int = 1

    @property
    def ahead_ms(self) -> int:
        return (self.lowest_ms + self.highest_ms) // 2

    @property
    def is_reported(self) -> bool:
        """Certain, and over MIN_SKEW_MS."""
        is_out_of_step = self.lowest_ms > MIN_SKEW_MS or self.highest_ms < -MIN_SKEW_MS
        return is_out_of_step and self.rounds >= MIN_ROUNDS

    def narrowed(self, other: "Skew") -> "Skew":
        """What holds of both; what lies between the two when they miss each other by MAX_DRIFT_MS at the most, else
        the other alone.
        """
        lowest, highest = max(self.lowest_ms, other.lowest_ms), min(self.highest_ms, other.highest_ms)
        if lowest - highest > MAX_DRIFT_MS:
            return other
        return Skew(min(lowest, highest), max(lowest, highest), self.rounds + other.rounds)


def update_skews(known: Mapping[Machine, Skew], stamps: Iterable[Stamp], round_time_ms: int) -> dict[Machine, Skew]:
    """What is known of each machine after a round that saw these."""
    by_machine: dict[Machine, list[Stamp]] = defaultdict(list)
    for stamp in stamps:
        by_machine[stamp.machine].append(stamp)
    updated = dict(known)
    for machine, seen in by_machine.items():
        lowest = max(stamp.stamp_ms - round_time_ms for stamp in seen)
        highest = min(stamp.stamp_ms - stamp.after_ms for stamp in seen)
        if lowest <= highest:
            skew = Skew(lowest, highest)
            updated[machine] = known[machine].narrowed(skew) if machine in known else skew
    return updated


def known_ahead_ms(skews: Mapping[Machine, Skew], machine: Machine) -> int:
    """By how much its times are to be moved back; 0 while it is not certain that its clock is off."""
    skew = skews.get(machine)
    return skew.ahead_ms if skew is not None and skew.is_reported else 0


def pick_reported(skews: Mapping[Machine, Skew]) -> list[dict[str, object]]:
    """`skews` of a clock event: the MAX_TOLD furthest out of step."""
    reported = [(machine, skew.ahead_ms) for machine, skew in skews.items() if skew.is_reported]
    furthest = sorted(reported, key=lambda each: (-abs(each[1]), each[0]))[:MAX_TOLD]
    return [{"machine": machine.name, "role": machine.role, "ahead_ms": ahead_ms} for machine, ahead_ms in furthest]
