"""What the parts of the modelled cluster share: virtual time, rng, the way out for events."""

from collections.abc import Callable, Generator
from random import Random
from typing import Any

import simpy

Process = Generator[Any, Any, None]
Event = dict[str, Any]


class Alarm:
    """A wait that ends when somebody rings, or its time has passed.

    However often it is set, it keeps one timer in the heap: a long poll is set anew with every message. Only a wait
    that ends before the running timer needs another.
    """

    __slots__ = ("_bell", "_deadline_ms", "_env", "_timer_ms", "_timers")

    def __init__(self, env: Any) -> None:
        self._env = env
        self._bell: Any = None
        self._deadline_ms = 0
        self._timer_ms = 0
        self._timers = 0

    def set(self, after_ms: int) -> Any:
        """The event to wait for."""
        self._bell = self._env.event()
        self._deadline_ms = deadline_ms = self._env.now + after_ms
        if not self._timers or deadline_ms < self._timer_ms:
            self._start_timer()
        return self._bell

    def ring(self) -> None:
        """End the wait now, if there is one."""
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
    """Virtual time in epoch milliseconds, one seeded source of random numbers, and the events said so far."""

    def __init__(self, cluster: str, seed: int, start_ms: int) -> None:
        self.cluster = cluster
        self.env: Any = simpy.Environment(initial_time=start_ms)  # its time is an int here, whatever its types say
        self.random = Random(seed)  # noqa: S311  # a scenario must come out the same each time
        self.said: list[tuple[str, Event]] = []

    @property
    def now_ms(self) -> int:
        now_ms: int = self.env.now
        return now_ms

    def say(self, topic: str, event: Event) -> None:
        """Let out an event of now."""
        self.said.append((topic, event))

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Call `action` after `delay_ms`."""
        self.env.timeout(delay_ms).callbacks.append(lambda _: action())

    def network_ms(self) -> int:
        """One way over the network."""
        return 1 + int(self.random.random() * 3)
