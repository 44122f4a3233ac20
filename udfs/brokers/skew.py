"""Whose clock is out of step, by the one clock that sees them all: Kafka's, which stamps each message as it arrives.

A live source's messages arrive some lag after their event time. Where that lag is large and stays the same, the clock
behind them is behind, or they are always sent late: either way their times are moved on by it. A lag that grows is a
source that stands still, one that shrinks a log that is being caught up with: both say nothing of a clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_MS = 30_000
"""Of ingest time; two make up a minute, in which every client has sent two heartbeats."""

KEPT = 3
APART = 8
"""Windows may lie so far apart: rounds of 180 s fill one in six."""

STEADY_MS = 10_000
"""A lag that differs by no more than this from one window to the next stays the same."""

MOST_MS = 5_400_000
"""What is further behind is a replay, whose time is not ours to move."""

TOLD_MS = 10_000

ROUND_MS = 60_000
"""What is reported of a round is no older: a round takes less, however far the rounds are apart."""

HEARTBEAT_MS = 30_000
"""MQClientInstance's heartbeat interval: so old is the newest heartbeat of a broker that gives data now and then."""

CLIENT_MS = 25_000
"""A client's pulls are told a long poll late, and a round: what is less is not kept of each client."""

BROKER, COLLECTOR, CLIENT = "broker", "collector", "client"
HEARTBEATS, PULLS, CLOCK, OF_CLIENT = "heartbeats", "pulls", "clock", "client"
SENDS, SENDS_OF = "sends", "sends_of"
BROKER_SOURCES = (HEARTBEATS, PULLS)


class Lag(NamedTuple):
    """The least lag of one source's messages in one window of a chunk; below 0 its clock is ahead of Kafka's.

    `source` is HEARTBEATS, PULLS, SENDS (machine: the broker), OF_CLIENT (pulls, by ClientId), SENDS_OF (sends, by
    ClientId) or CLOCK (who tells the time).
    `most_ms` is the greatest lag of a CLOCK's: events that come late, and their clock events with them, are in step.
    """

    cluster: str
    source: str
    machine: str
    window: int
    least_ms: int
    most_ms: int = 0


@dataclass
class Skew:
    """`lags` has, by "SOURCE MACHINE", the least lag of each of its newest windows. `base_ms` is the lag that the
    cluster's time runs by: the least that any of its clocks was seen to have. `ordered` has by the same keys how far
    behind a source stands in a log that was written at once (log_order.py). `waited` has, by who tells the time, the
    greatest lag of its clock events in each of their windows. `missed` are brokers that did not answer every round of
    late: what is told of them is as old as their clients' heartbeats are apart.
    """

    lags: dict[str, dict[int, int]] = field(default_factory=dict)
    base_ms: int | None = None
    newest: int = 0
    ordered: dict[str, int] = field(default_factory=dict)
    waited: dict[str, dict[int, int]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def note(self, lag: Lag) -> None:
        key = f"{lag.source} {lag.machine}"
        windows = self.lags.setdefault(key, {})
        windows[lag.window] = min(lag.least_ms, windows.get(lag.window, lag.least_ms))
        for window in sorted(windows)[:-KEPT]:
            del windows[window]
        if lag.source == CLOCK:
            waited = self.waited.get(lag.machine, {})
            waited[lag.window] = max(lag.most_ms, waited.get(lag.window, lag.most_ms))
            self.waited[lag.machine] = {window: most_ms for window, most_ms in waited.items() if window in windows}
        self.newest = max(self.newest, lag.window)

    def settle(self) -> None:
        """After all lags of a batch are noted: what the cluster's time runs by, and who is gone."""
        self.lags = {key: windows for key, windows in self.lags.items() if max(windows) + APART >= self.newest}
        self.waited = {name: of for name, of in self.waited.items() if f"{CLOCK} {name}" in self.lags}
        clocks = [lag for key in self.lags if key.startswith(f"{CLOCK} ") and (lag := self._lag(key)) is not None]
        if clocks:
            self.base_ms = max(0, min([*clocks, *([] if self.base_ms is None else [self.base_ms])]))

    def _lag(self, key: str) -> int | None:
        windows = sorted(self.lags.get(key, {}).items())[-2:]
        if len(windows) < 2 or windows[1][0] - windows[0][0] > APART:
            return None
        (_, first_ms), (_, second_ms) = windows
        source, _, machine = key.partition(" ")
        waited = self.waited.get(machine, {})
        if source == CLOCK and any(waited.get(window, lag_ms) - lag_ms > STEADY_MS for window, lag_ms in windows):
            return None  # the events of the past are caught up with: they lag less and less
        lag = min(first_ms, second_ms)
        return lag if abs(first_ms - second_ms) <= STEADY_MS and abs(lag) <= MOST_MS else None

    def _waiting_ms(self) -> int:
        """By how much more than usual the newest clock events lagged: they may have waited for late events."""
        return max([0, *(most_ms for of in self.waited.values() for most_ms in of.values())]) - (self.base_ms or 0)

    def shift_ms(self, source: str, machine: str, interval_ms: int) -> int:
        """By how much the source's event times are moved on, in whole seconds; 0 for one that is in step."""
        ordered_ms = self.ordered.get(f"{source} {machine}", 0)
        if ordered_ms or self.base_ms is None:
            return ordered_ms // 1000 * 1000
        lag = self._lag(f"{source} {machine}")
        if lag is None:
            return 0
        behind_ms = lag - self.base_ms
        least_ms = self._least_ms(source, machine, interval_ms) + self._waiting_ms()
        return behind_ms // 1000 * 1000 if behind_ms > max(least_ms, CLIENT_MS * (source == OF_CLIENT)) else 0

    def apart_ms(self, source: str, machine: str) -> int | None:
        """How far the source's events come behind the cluster's time, below 0 ahead of it; None where that is not
        known. What was ahead of Kafka's clock was cut, and came at once.
        """
        lag = self._lag(f"{source} {machine}")
        if lag is None or self.base_ms is None:
            return None
        apart_ms = max(lag, 0) - self.base_ms
        return apart_ms if apart_ms < 0 else max(0, apart_ms - self._waiting_ms())

    def behind_ms(self) -> int:
        """By how much the cluster's time runs behind Kafka's: what arrives is no later than that, by any clock."""
        return self.base_ms if self.base_ms is not None and self.base_ms > TOLD_MS else 0

    def out_of_step(
        self, interval_ms: int, own_clocks: frozenset[str], ahead_ms: Iterable[int] = ()
    ) -> Mapping[str, dict[str, int]]:
        """Role → machine → how far it is ahead of Kafka's clock. `own_clocks` are those of `run`, which are in step.

        A machine that is off in the same direction as the cluster's collector, and no further, is not named: the
        collector dates its events. That includes a collector whose times are refused for being `ahead_ms`.
        """
        least_ms = least_reported_ms(interval_ms)
        found: dict[str, dict[str, int]] = {}
        clocks = {key.partition(" ")[2]: self._lag(key) for key in sorted(self.lags) if key.startswith(f"{CLOCK} ")}
        collectors = {name: lag for name, lag in clocks.items() if lag is not None and name not in own_clocks}
        bases = {min(collectors.values(), default=0), *(-ahead for ahead in ahead_ms)}
        for machine, lag in collectors.items():
            if abs(lag) > least_ms:
                found.setdefault(COLLECTOR, {})[machine] = -lag
        for key in sorted(self.lags, key=lambda one: (one.startswith(f"{OF_CLIENT} "), one)):
            source, _, machine = key.partition(" ")
            lag_or_none = self._lag(key)
            if source == CLOCK or lag_or_none is None:
                continue
            least_ms = self._least_ms(source, machine, interval_ms) + self._waiting_ms()
            if any(min(base, 0) - least_ms <= lag_or_none <= max(base, 0) + least_ms for base in bases):
                continue  # the collector's clock, or a part of it: what a round reads may be old
            if source == OF_CLIENT and len(self.lags[key]) < KEPT:
                continue  # it may be its broker, whose heartbeats are fewer
            if source == PULLS and lag_or_none < 0:
                continue  # one of its clients is ahead; were it the broker, its heartbeats would be so, too
            off_ms = -lag_or_none
            if source == OF_CLIENT and any(abs(off_ms - of) <= least_ms for of in found.get(BROKER, {}).values()):
                continue  # its pulls have the broker's time
            of_role = found.setdefault(CLIENT if source == OF_CLIENT else BROKER, {})
            of_role[machine] = max(off_ms, of_role.get(machine, off_ms), key=abs)
        for key, behind_ms in sorted(self.ordered.items(), key=lambda one: (one[0].startswith(f"{OF_CLIENT} "), one)):
            source, _, machine = key.partition(" ")
            if source == OF_CLIENT and any(abs(behind_ms + of) <= STEADY_MS for of in found.get(BROKER, {}).values()):
                continue  # its pulls have the broker's time
            found.setdefault(CLIENT if source == OF_CLIENT else BROKER, {}).setdefault(machine, -behind_ms)
        return found

    def _least_ms(self, source: str, machine: str, interval_ms: int) -> int:
        is_seldom = source in BROKER_SOURCES and machine in self.missed
        return least_reported_ms(max(interval_ms, HEARTBEAT_MS) if is_seldom else interval_ms)


def least_reported_ms(interval_ms: int) -> int:
    """A lag up to this is that of rounds and heartbeats; rounds further apart are not longer for that."""
    return max(TOLD_MS, min(interval_ms, ROUND_MS) + 5_000)
