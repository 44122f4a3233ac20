"""How many questions a server is asked a second: whoever would ask too early waits.

A broker answers ours in the threads that serve its clients; what we ask shall be lost in what they do.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable

BURST_SECONDS = 0.1
"""A server that was left alone may be asked what so much time allows at once."""


class RequestRate:
    """`per_second` for each server by itself. Every thread may call; in the order in which they come they wait."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 1 / per_second
        self._clock, self._sleep = clock, sleep
        self._next_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._held_back: Counter[str] = Counter()

    def wait(self, server: str) -> None:
        """Return when the next question to `server` may be asked."""
        with self._lock:
            now = self._clock()
            at = max(self._next_at.get(server, 0.0), now - BURST_SECONDS)
            self._next_at[server] = at + self._gap
            self._asked[server] += 1
            if at > now:
                self._held_back[server] += 1
        if at > now:
            self._sleep(at - now)

    def take_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """By server the questions since the last call, and those of them that waited."""
        with self._lock:
            counts = dict(self._asked), dict(self._held_back)
            self._asked.clear()
            self._held_back.clear()
        return counts
