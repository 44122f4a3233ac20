"""Whose clock is behind in a log that was written at once: where its events stand among the others'.

Kafka's times tell nothing of a past that is poured in, or of a copy: all of it arrives now. But its order is that in
which things happened. A machine whose events always stand behind newer ones of others, by as much, has a clock behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median_low
from typing import NamedTuple

from udfs.brokers.skew import BROKER_SOURCES, HEARTBEATS, OF_CLIENT, STEADY_MS, WINDOW_MS

AT_ONCE_MS = 120_000
"""So much must a partition's events span to tell whether they were written as they happened."""

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


class LogOrder:
    """One partition's events of one cluster, in their order."""

    def __init__(self) -> None:
        self._events: list[tuple[str, str, str | None, int]] = []
        self._first_ingest_ms = self._last_ingest_ms = 0

    def note(self, source: str, broker_name: str, client_id: str | None, time_ms: int, ingest_time_ms: int) -> None:
        self._first_ingest_ms = self._first_ingest_ms or ingest_time_ms
        self._last_ingest_ms = ingest_time_ms
        self._events.append((source, broker_name, client_id, time_ms))

    def behind(self, cluster: str) -> list[Behind]:
        """Each broker, each client that is far behind, who is ahead of one; none of a log written as it happened."""
        times = [time_ms for _, _, _, time_ms in self._events]
        span_ms = max(times, default=0) - min(times, default=0)
        is_at_once = (self._last_ingest_ms - self._first_ingest_ms) * FASTER < span_ms
        if len(times) < WINDOWS or span_ms < AT_ONCE_MS or not is_at_once:
            return []
        least: dict[tuple[str, str], dict[int, int]] = {}
        newest: dict[tuple[str, str], int] = {}
        brokers = {broker_name for _, broker_name, _, _ in self._events}
        heard: set[str] = set()
        log_ms = 0
        for source, broker_name, client_id, time_ms in self._events:
            log_ms = max(log_ms, time_ms)
            heard.add(broker_name)
            for key in [(source, broker_name), *([(OF_CLIENT, client_id)] if client_id else [])]:
                newest[key] = max(time_ms, newest.get(key, 0))
                if heard == brokers:  # before, there may be nobody ahead of it
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
    """What nearly all windows have; None where they differ. In a few a clock other than the machine's told the time."""
    if len(least_ms) < WINDOWS:
        return None
    middle_ms = median_low(least_ms)
    alike = sum(abs(lag - middle_ms) <= STEADY_MS for lag in least_ms)
    return middle_ms if alike >= NEARLY_ALL * len(least_ms) else None


def pick_behind(reported: Iterable[Behind], tick_ms: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Cluster → "SOURCE MACHINE" → how far it is behind, below 0 ahead, where all partitions agree.

    The cluster's newest tick tells which of two is off: one whose times end with it is in step.
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
