"""The clock events that `run` itself sends where agents alone report: its own code, in the modelled cluster's time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from conf.settings import Settings
from streaming.service import clock_publisher
from streaming.warehouse.rows import Rows


class _Time:
    """What a keeper asks of the module `time`."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def time_ns(self) -> int:
        return self.now_ms * 1_000_000

    def time(self) -> float:
        return self.now_ms / 1000

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class RunsClock:
    """`ahead_ms` is how far the clock of `run`'s host is ahead."""

    def __init__(self, keeper: clock_publisher.ClockPublisher, time: _Time, ahead_ms: int) -> None:
        self._keeper = keeper
        self._time = time
        self._ahead_ms = ahead_ms

    def tick(self, now_ms: int, rows: Rows) -> list[dict[str, Any]]:
        """What is sent at a true time, after a batch of these rows."""
        self._time.now_ms = now_ms + self._ahead_ms
        self._keeper.listen(rows)
        return self._keeper.ticks(self._time.monotonic(), self._time.now_ms)


@contextmanager
def runs_clock(start_ms: int, ahead_ms: int) -> Iterator[RunsClock]:
    """A keeper for one play."""
    time = _Time(start_ms + ahead_ms)
    with patch.object(clock_publisher, "time", time), patch.object(clock_publisher, "wall_ms", lambda: time.now_ms):
        yield RunsClock(clock_publisher.ClockPublisher(Settings.load()), time, ahead_ms)
