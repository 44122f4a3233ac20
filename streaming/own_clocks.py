"""Which clusters have a clock of their own (a collector's), and which of these clocks has fallen silent.

A clock is one of now when it keeps pace with the wall clock: its events come within LIVE_MS of their time, and two of
them no faster than twice as fast as life. A replay or a simulated past that is poured in ends near now as well, but in
no time; its silence afterwards means nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

LIVE_MS = 60_000
"""Events further than this from the wall clock are a replay, whose time is not ours to move."""

FORGOTTEN_MS = 86_400_000
"""A cluster whose clock has been silent for so long is taken as gone."""


@dataclass
class _Clock:
    """Its newest event, when that was heard, and the brokers that it asked."""

    event_time_ms: int
    at_ms: int
    is_live: bool = False
    brokers: list[str] = field(default_factory=list)


class OwnClocks:
    """What was heard of each cluster's own clock. Silence counts from `started_ms` at the earliest."""

    def __init__(self, started_ms: int) -> None:
        self._started_ms = started_ms
        self._clocks: dict[str, _Clock] = {}

    def hear(self, cluster: str, event_time_ms: int, at_ms: int, brokers: Iterable[str] = ()) -> None:
        """An event of the cluster's own clock, as heard at `at_ms`. One that is not newer tells nothing."""
        known = self._clocks.get(cluster)
        if known is None:
            self._clocks[cluster] = _Clock(event_time_ms, at_ms, brokers=sorted(brokers))
            return
        gap_ms = event_time_ms - known.event_time_ms
        if gap_ms <= 0:
            return
        is_of_now = abs(at_ms - event_time_ms) < LIVE_MS
        known.is_live = known.is_live or (is_of_now and (at_ms - known.at_ms) * 2 >= gap_ms)
        known.event_time_ms, known.at_ms = event_time_ms, at_ms
        known.brokers = sorted(brokers) or known.brokers

    def has(self, cluster: str) -> bool:
        """Whether the cluster has, or lately had, a live clock of its own."""
        return cluster in self._clocks and self._clocks[cluster].is_live

    def silent(self, now_ms: int, silent_ms: int) -> dict[str, list[str]]:
        """Clusters whose live clock has said nothing for `silent_ms`, and the brokers it used to ask."""
        return {
            cluster: clock.brokers
            for cluster, clock in sorted(self._clocks.items())
            if clock.is_live
            and now_ms - max(clock.at_ms, self._started_ms) >= silent_ms
            and now_ms - clock.at_ms < FORGOTTEN_MS
        }
