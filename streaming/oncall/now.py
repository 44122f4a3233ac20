"""This moment on two clocks: what is told and written goes by the wall's, how long to wait by one that only goes on.

A wall clock is set: an hour back by a wrong time zone, a minute by NTP. Waits that are kept in its time would last an
hour longer, and an Alertmanager's leases would end meanwhile.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Now:
    """Both in ms. `pace_ms` is of this process alone: what the tables say, which is the wall's, is put into it."""

    wall_ms: int
    pace_ms: int

    def pace_of(self, wall_ms: int) -> int:
        """When that was by the pace; now, where it seems to be yet to come."""
        return self.pace_ms - max(0, self.wall_ms - wall_ms)


class Clock:
    """Tells the time. The pace begins at what the wall says now, so that both look alike until the wall is set."""

    def __init__(self, wall_ms: Callable[[], int], pace_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall_ms, self._pace_ns = wall_ms, pace_ns
        self._zero_ms = wall_ms() - pace_ns() // 1_000_000

    def now(self) -> Now:
        return Now(self._wall_ms(), self._zero_ms + self._pace_ns() // 1_000_000)
