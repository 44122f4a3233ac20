"""Which clusters have a clock of their own (a collector's), and which of these clocks has fallen silent.

A clock is one of now when it keeps pace with the wall clock: its events come within LIVE_MS of their time, and two of
them no faster than twice as fast as life. A replay or a simulated past that is poured in ends near now as well, but in
no time; its silence afterwards means nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

LIVE_MS = 60_000
"""Events no further than this from the wall clock are of now."""

LAGGING_MS = 5_400_000
"""Events no further than this are of now too, if they keep pace with it: their clock is behind, or they come late. What
is further off is a replay, whose time is not ours to move."""

STEPS = 3
"""So many steps must keep pace before a clock that is far off counts as one of now."""

NOTICED_MS = 10_000
"""A smaller lag is that of a batch."""

ROUNDS = 3
"""Of a slow clock so many rounds must be missed before it is silent."""

FORGOTTEN_MS = 86_400_000
"""A cluster whose clock has been silent for so long is taken as gone."""


@dataclass
class _Clock:
    """Its newest event, when that gave data, and the brokers that it asked."""

    event_time_ms: int
    at_ms: int
    is_live: bool = False
    in_pace: int = 0
    gaps_ms: list[int] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)


class CollectorClocks:
    """What gave data of each cluster's own clock. Silence counts from `started_ms` at the earliest."""

    def __init__(self, started_ms: int) -> None:
        self._started_ms = started_ms
        self._clocks: dict[str, _Clock] = {}

    def note(self, cluster: str, event_time_ms: int, at_ms: int, brokers: Iterable[str] = ()) -> None:
        """An event of the cluster's own clock, as heard at `at_ms`. One that is not newer tells nothing."""
        known = self._clocks.get(cluster)
        if known is None:
            self._clocks[cluster] = _Clock(event_time_ms, at_ms, brokers=sorted(brokers))
            return
        gap_ms = event_time_ms - known.event_time_ms
        if gap_ms <= 0:
            return
        lag_ms, is_in_pace = at_ms - event_time_ms, (at_ms - known.at_ms) * 2 >= gap_ms
        known.in_pace = known.in_pace + 1 if is_in_pace else 0
        is_of_now = abs(lag_ms) < LIVE_MS or (abs(lag_ms) < LAGGING_MS and known.in_pace >= STEPS)
        known.is_live = known.is_live or (is_of_now and is_in_pace)
        known.gaps_ms = [*known.gaps_ms, gap_ms][-5:]
        known.event_time_ms, known.at_ms = event_time_ms, at_ms
        known.brokers = sorted(brokers) or known.brokers

    def has(self, cluster: str) -> bool:
        """Whether the cluster has, or lately had, a live clock of its own."""
        return cluster in self._clocks and self._clocks[cluster].is_live

    def forget(self, cluster: str) -> None:
        """A person decided that the cluster is gone."""
        self._clocks.pop(cluster, None)

    def lag_ms(self, cluster: str) -> int:
        """How far the cluster's own clock runs behind ours."""
        clock = self._clocks.get(cluster)
        lag_ms = clock.at_ms - clock.event_time_ms if clock else 0
        return lag_ms // 1000 * 1000 if lag_ms >= NOTICED_MS else 0

    def is_silent(self, cluster: str, now_ms: int, silent_ms: int) -> bool:
        """Whether the clock has said nothing for `silent_ms`, or for several of its rounds where those are longer."""
        clock = self._clocks[cluster]
        long_ms = max(silent_ms, ROUNDS * round(median(clock.gaps_ms or [0])))
        return clock.is_live and now_ms - max(clock.at_ms, self._started_ms) >= long_ms

    def silent(self, now_ms: int, silent_ms: int) -> dict[str, list[str]]:
        """Clusters whose live clock is silent, and the brokers it used to ask."""
        return {
            cluster: clock.brokers
            for cluster, clock in sorted(self._clocks.items())
            if self.is_silent(cluster, now_ms, silent_ms) and now_ms - clock.at_ms < FORGOTTEN_MS
        }
