"""Whose clock is out of step, by the one clock that sees them all: Kafka's, which stamps each message as it arrives.

A live source's messages arrive some lag after their event time. Where that lag is large and stays the same, the clock
behind them is behind, or they are always sent late: either way their times are moved on by it. A lag that grows is a
source that stands still, one that shrinks a log that is being caught up with: both say nothing of a clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple, Protocol

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
    behind a source stands in a log that was written at once (find_behind). `waited` has, by the clock's source, the
    greatest lag of its clock events in each of their windows. `missed` are brokers that did not answer every round of
    late: what is told of them is as old as their clients' heartbeats are apart.
    """

    lags: dict[str, dict[int, int]] = field(default_factory=dict)
    base_ms: int | None = None
    newest: int = 0
    ordered: dict[str, int] = field(default_factory=dict)
    waited: dict[str, dict[int, int]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._steady: dict[str, int | None] = {}  # by the keys of `lags`, what `_lag` says; not kept

    def note(self, lag: Lag) -> None:
        key = f"{lag.source} {lag.machine}"
        self._steady.pop(key, None)
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
        for key in [key for key, windows in self.lags.items() if max(windows) + APART < self.newest]:
            del self.lags[key]
            self._steady.pop(key, None)
        self.waited = {name: of for name, of in self.waited.items() if f"{CLOCK} {name}" in self.lags}
        clocks = [lag for key in self.lags if key.startswith(f"{CLOCK} ") and (lag := self._lag(key)) is not None]
        if clocks:
            self.base_ms = max(0, min([*clocks, *([] if self.base_ms is None else [self.base_ms])]))

    def _lag(self, key: str) -> int | None:
        """Return the lag of a source, if it stays the same."""
        if key in self.lags and key not in self._steady:  # of others nothing is kept: clients come and go
            self._steady[key] = self._find_lag(key)
        return self._steady.get(key)

    def _find_lag(self, key: str) -> int | None:
        windows = sorted(self.lags[key].items())[-2:]
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

    def moves_anybody(self, interval_ms: int) -> bool:
        """Whether the times of any source are moved on. All clients may have lags, of which few are far behind."""
        base_ms = self.base_ms or 0
        far = [key for key in self.lags if (lag := self._lag(key)) is not None and lag - base_ms > TOLD_MS]
        keys = (key.partition(" ") for key in (*far, *self.ordered))
        return any(self.shift_ms(source, machine, interval_ms) for source, _, machine in keys)

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


AT_ONCE_MS = 120_000
"""So much must a partition's events span to show whether they were written as they happened."""

FASTER = 4
"""A log whose events run so many times faster than Kafka's clock was written at once."""

LEAST_MS = 40_000
"""Less is that of rounds, of heartbeats and of what comes late."""

NEARLY_ALL = 0.8

WINDOWS = 4
"""In so many windows of the log it must be so."""


class Behind(NamedTuple):
    """How far a source's events stand behind the newest of its partition; `newest_ms` is its own newest time."""

    cluster: str
    source: str
    machine: str
    behind_ms: int
    newest_ms: int


class Reported(Protocol):
    """A pull or heartbeat."""

    broker_name: str
    client_id: str | None
    event_time_ms: int


def was_written_at_once(event_span_ms: int, ingest_span_ms: int) -> bool:
    """Whether a partition's events are a log that was written at once, or a copy, by the times that they span."""
    return event_span_ms >= AT_ONCE_MS and ingest_span_ms * FASTER < event_span_ms


def find_behind(cluster: str, source: str, events: Sequence[Reported], ingest_span_ms: int) -> list[Behind]:
    """Return each broker, each client that is far behind, who is ahead of one; none of a log written as it happened.

    `events` are those of one source in one partition, in their order. In a log that was written at once Kafka's times
    show no clock, but the order is that in which things happened: a machine whose events always come after newer ones
    of others, by as much, has a clock that is behind.
    """
    times = [event.event_time_ms for event in events]
    if len(times) < WINDOWS or not was_written_at_once(max(times) - min(times), ingest_span_ms):
        return []
    least: dict[tuple[str, str], dict[int, int]] = {}
    newest: dict[tuple[str, str], int] = {}
    brokers = {event.broker_name for event in events}
    seen: set[str] = set()
    log_ms = 0
    for event in events:
        time_ms = event.event_time_ms
        log_ms = max(log_ms, time_ms)
        seen.add(event.broker_name)
        client_id = event.client_id if source == PULLS else None
        for key in [(source, event.broker_name), *([(OF_CLIENT, client_id)] if client_id else [])]:
            newest[key] = max(time_ms, newest.get(key, 0))
            if seen == brokers:  # before, none may be ahead of it
                windows, window = least.setdefault(key, {}), log_ms // WINDOW_MS
                windows[window] = min(log_ms - time_ms, windows.get(window, log_ms))
    steady = {
        key: behind_ms
        for key, windows in sorted(least.items())
        if (behind_ms := _steady(list(windows.values()))) is not None
    }
    is_apart = any(key[0] == OF_CLIENT and behind_ms >= LEAST_MS for key, behind_ms in steady.items())
    return [
        Behind(cluster, *key, behind_ms, newest[key])
        for key, behind_ms in steady.items()
        if key[0] in BROKER_SOURCES or behind_ms >= LEAST_MS or (is_apart and behind_ms <= STEADY_MS)
    ]


def _steady(least_ms: list[int]) -> int | None:
    """What nearly all windows have; None where they differ. In a few the time came from another machine's clock."""
    if len(least_ms) < WINDOWS:
        return None
    middle_ms = median_low(least_ms)
    alike = sum(abs(lag - middle_ms) <= STEADY_MS for lag in least_ms)
    return middle_ms if alike >= NEARLY_ALL * len(least_ms) else None


def pick_behind(reported: Iterable[Behind], tick_ms: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Cluster → "SOURCE MACHINE" → how far it is behind, below 0 ahead, where all partitions agree.

    The cluster's newest tick shows which of two is off: one whose times end with it is in step.
    """
    by_key: dict[tuple[str, str, str], list[Behind]] = {}
    for one in reported:
        by_key.setdefault(one[:3], []).append(one)
    agreed: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
    for (cluster, source, machine), of_key in sorted(by_key.items()):
        least_ms, most_ms = min(one.behind_ms for one in of_key), max(one.behind_ms for one in of_key)
        if most_ms - least_ms <= STEADY_MS and cluster in tick_ms:
            after_ms = max(one.newest_ms for one in of_key) - tick_ms[cluster]
            agreed.setdefault(cluster, {})[source, machine] = least_ms, after_ms
    return {
        cluster: {f"{source} {machine}": off_ms for (source, machine), off_ms in _off(of_cluster)}
        for cluster, of_cluster in agreed.items()
    }


def _off(of_cluster: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[tuple[tuple[str, str], int]]:
    """By (source, machine): how far it stands behind the others, and how far its times end after the newest tick.

    Where a broker's pulls are ahead and its heartbeats are not, one of its clients is; where a broker's heartbeats are
    ahead, its clients are not. Who is behind one that is ahead, by as much, is in step, also if it ended long before.
    """
    ahead = dict(_ahead(of_cluster))
    for key, (behind_ms, after_ms) in of_cluster.items():
        if key in ahead:
            yield key, -ahead[key]
        elif any(abs(behind_ms - ahead_ms) <= 2 * STEADY_MS for ahead_ms in ahead.values()):
            continue
        elif behind_ms >= LEAST_MS and behind_ms + after_ms <= STEADY_MS:
            yield key, behind_ms


def _ahead(of_cluster: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[tuple[tuple[str, str], int]]:
    is_broker = any(source == HEARTBEATS and after_ms >= LEAST_MS for (source, _), (_, after_ms) in of_cluster.items())
    for key, (behind_ms, after_ms) in of_cluster.items():
        if behind_ms > STEADY_MS or after_ms < LEAST_MS or (is_broker and key[0] == OF_CLIENT):
            continue
        others = [of for (source, _), (of, _) in of_cluster.items() if source == key[0] and of >= LEAST_MS]
        ahead_ms = min(others, key=lambda of: abs(of - after_ms), default=0)
        _, heard_ms = of_cluster.get((HEARTBEATS, key[1]), (0, after_ms))
        if max(abs(ahead_ms - after_ms), abs(heard_ms - after_ms)) <= 2 * STEADY_MS and ahead_ms:
            yield key, ahead_ms
