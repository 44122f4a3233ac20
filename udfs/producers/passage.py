"""A fleet on its way through one batch: its steps in the order of time, applied moment by moment as ticks allow."""

from collections.abc import Iterator

from udfs.producers.attempts import MOMENT_MS, next_moment_ms
from udfs.producers.fleet import Fleet


class Passage:
    """To the last moment before `to_ms`; what is asked of the fleet in between is as of the moment it has come to."""

    def __init__(self, fleet: Fleet, to_ms: int, idle_ms: int) -> None:
        self._fleet, self._idle_ms = fleet, idle_ms
        self._last_ms = to_ms // MOMENT_MS * MOMENT_MS
        self._steps = fleet.take_steps(self._last_ms)
        self._position = self._slow_at = 0
        if not fleet.judged_ms:
            first = (next_moment_ms(step.from_ms) - MOMENT_MS for step, *_ in self._steps)
            fleet.judged_ms = min(first, default=self._last_ms)

    def moments(self, until_ms: int | None = None) -> Iterator[int]:
        """Bring the fleet to each moment that needs judging, up to `until_ms` or to the last."""
        until_ms = self._last_ms if until_ms is None else until_ms
        while self._fleet.judged_ms < self._last_ms and (now_ms := self._next_ms()) <= until_ms:
            self._fleet.judged_ms = now_ms
            while self._position < len(self._steps) and self._steps[self._position][0].from_ms <= now_ms:
                self._fleet.apply(*self._steps[self._position])
                self._position += 1
            self._fleet.pass_time(now_ms, self._idle_ms)
            if not self._fleet.is_calm():
                yield now_ms

    def _next_ms(self) -> int:
        """The next moment; in calm times the next that knows of a slow attempt, or the last."""
        following_ms = self._fleet.judged_ms + MOMENT_MS
        if not self._fleet.is_calm():
            return following_ms
        self._slow_at = max(self._slow_at, self._position)
        while self._slow_at < len(self._steps) and not self._steps[self._slow_at][0].is_slow:
            self._slow_at += 1
        if self._slow_at == len(self._steps):
            return self._last_ms
        return max(following_ms, next_moment_ms(self._steps[self._slow_at][0].from_ms))
