"""What the parts of the modelled cluster share: virtual time, dice, the way out for events."""

from collections.abc import Generator
from random import Random
from typing import Any

import simpy

Process = Generator[Any, Any, None]
Event = dict[str, Any]


class Alarm:
    """A wait that ends when somebody rings, or `after_ms` have passed.

    However often it is set, it keeps one timer in the heap: a long poll is set anew with every message.
    """

    def __init__(self, env: simpy.Environment, after_ms: int) -> None:
        self._env = env
        self._after_ms = after_ms
        self._bell: Any = None
        self._deadline_ms = 0
        self._has_timer = False

    def set(self) -> Any:
        """The event to wait for."""
        self._bell = self._env.event()
        self._deadline_ms = int(self._env.now) + self._after_ms
        if not self._has_timer:
            self._start_timer()
        return self._bell

    def ring(self) -> None:
        """End the wait now, if there is one."""
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.succeed()

    def _start_timer(self) -> None:
        self._has_timer = True
        self._env.timeout(self._deadline_ms - self._env.now).callbacks.append(self._on_timer)

    def _on_timer(self, _: Any) -> None:
        self._has_timer = False
        if self._bell is None:
            return
        if self._env.now >= self._deadline_ms:
            self.ring()
        else:
            self._start_timer()


class World:
    """Virtual time in epoch milliseconds, one seeded source of dice, and the events said so far."""

    def __init__(self, cluster: str, seed: int, start_ms: int) -> None:
        self.cluster = cluster
        self.env = simpy.Environment(initial_time=start_ms)
        self.random = Random(seed)  # noqa: S311  # a scenario must come out the same each time
        self.said: list[tuple[str, Event]] = []

    @property
    def now_ms(self) -> int:
        return int(self.env.now)

    def say(self, topic: str, event: Event) -> None:
        """Let out an event of now."""
        self.said.append((topic, event))

    def later(self, delay_ms: int, action: Any) -> None:
        """Call `action` after `delay_ms`."""
        self.env.timeout(delay_ms).callbacks.append(lambda _: action())

    def network_ms(self) -> int:
        """One way over the network."""
        return 1 + int(self.random.random() * 3)
