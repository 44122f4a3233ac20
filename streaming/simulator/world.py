"""The shared world of a simulated cluster: virtual time, random numbers, emitted events."""

from collections.abc import Callable, Generator
from random import Random
from typing import Any

import simpy

Process = Generator[Any, Any, None]
Event = dict[str, Any]
Said = tuple[str, Event, int]
"""Topic, event, and its true time at Kafka in epoch ms."""


class Alarm:
    """A wait that ends when it is rung, or after its time.

    It keeps one timer in the heap however often it is set, because a long poll is set again with every message. Only a
    wait that ends before the running timer needs another.
    """

    __slots__ = ("_bell", "_deadline_ms", "_env", "_timer_ms", "_timers")

    def __init__(self, env: Any) -> None:
        self._env = env
        self._bell: Any = None
        self._deadline_ms = 0
        self._timer_ms = 0
        self._timers = 0

    def set(self, after_ms: int) -> Any:
        """Return the event to wait for."""
        self._bell = self._env.event()
        self._deadline_ms = deadline_ms = self._env.now + after_ms
        if not self._timers or deadline_ms < self._timer_ms:
            self._start_timer()
        return self._bell

    def ring(self) -> None:
        """End the current wait, if any."""
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.succeed()

    def _start_timer(self) -> None:
        self._timers += 1
        self._timer_ms = self._deadline_ms
        self._env.timeout(self._deadline_ms - self._env.now).callbacks.append(self._on_timer)

    def _on_timer(self, _: Any) -> None:
        self._timers -= 1
        if self._bell is None:
            return
        if self._env.now >= self._deadline_ms:
            self.ring()
        elif not self._timers:
            self._start_timer()


class World:
    """Virtual time in epoch milliseconds, one seeded source of random numbers, and the events not yet taken.

    `on_change(consumer_group)` is called when consumption of a group (None: of any) may have changed, for an observer.
    """

    def __init__(self, cluster: str, seed: int, start_ms: int) -> None:
        self.cluster = cluster
        self.env: Any = simpy.Environment(initial_time=start_ms)  # its time is an int here, unlike in its types
        self.random = Random(seed)  # noqa: S311  # reproducible
        self.emitted: list[tuple[str, Event]] = []
        self.on_change: Callable[[str | None], None] = lambda _: None

    @property
    def now_ms(self) -> int:
        now_ms: int = self.env.now
        return now_ms

    def emit(self, topic: str, event: Event) -> None:
        self.emitted.append((topic, event))

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        self.env.timeout(delay_ms).callbacks.append(lambda _: action())

    def network_ms(self) -> int:
        return 1 + int(self.random.random() * 3)
