"""Rate limit for wrong tokens by address, in bounded memory. It keeps the log short.

The token's length is the protection against guessing; a correct token never waits.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

WINDOW_SECONDS = 60
MOST_OF_ONE = 5
MOST_OF_ALL = 100
ADDRESSES = 1_000


class LoginThrottle:
    """Wrong tokens of the last minute. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of_one: OrderedDict[str, list[float]] = OrderedDict()
        self._of_all: list[float] = []

    def wait_seconds(self, address: str) -> int:
        """Return the seconds until this address may try a wrong token again; 0 for now."""
        with self._lock:
            now = self._clock()
            waits = (
                _wait(self._of_one.get(address, []), MOST_OF_ONE, now),
                _wait(self._of_all, MOST_OF_ALL, now),
            )
            return max(waits)

    def note(self, address: str) -> None:
        """Count a wrong token of this address."""
        with self._lock:
            now = self._clock()
            self._of_all = [*_newest(self._of_all, now), now][-MOST_OF_ALL:]
            self._of_one[address] = [*_newest(self._of_one.pop(address, []), now), now][-MOST_OF_ONE:]
            while len(self._of_one) > ADDRESSES:
                self._of_one.popitem(last=False)


def _newest(tries: list[float], now: float) -> list[float]:
    return [one for one in tries if 0 <= now - one < WINDOW_SECONDS]


def _wait(tries: list[float], most: int, now: float) -> int:
    newest = _newest(tries, now)
    return 0 if len(newest) < most else max(1, int(WINDOW_SECONDS - (now - newest[0])) + 1)
