"""What time it is at an address, as the Date of its answers says: what shall end there must end by that clock.

With our own an hour behind, each alert would be over for an Alertmanager before it arrives.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from streaming.text.times import to_ms

SAME_MS = 5_000
"""A Date is cut to seconds and is on its way for a while; so near, the two clocks are the same."""


class TheirClock:
    """Ours until they have answered; theirs where it is another, however ours is set meanwhile."""

    def __init__(self, pace_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._pace_ns = pace_ns
        self._zero_ms: int | None = None

    def note(self, date: str | None) -> None:
        """An answer's Date header, just now."""
        try:
            said_ms = to_ms(parsedate_to_datetime(date)) if date else None
        except (ValueError, TypeError, OverflowError):
            return
        if said_ms is not None:
            self._zero_ms = said_ms - self._pace_ns() // 1_000_000

    def now_ms(self, ours_ms: int) -> int:
        """The time there, given ours."""
        if self._zero_ms is None:
            return ours_ms
        theirs_ms = self._zero_ms + self._pace_ns() // 1_000_000
        return ours_ms if is_same(ours_ms, theirs_ms) else theirs_ms


def is_same(one_ms: int, other_ms: int) -> bool:
    """Whether two clocks differ by no more than one can know."""
    return abs(one_ms - other_ms) <= SAME_MS
