"""By how much a batch's event times are moved on, source by source, as far as its lags show whose clock is behind."""

from collections.abc import Callable

from schemas.events import CLOCKS
from streaming.queries.chunk import Chunk
from streaming.queries.shard_events import intervals_of, missed_of
from streaming.queries.working_set import WorkingSet
from udfs.brokers.log_order import pick_behind
from udfs.brokers.skew import WINDOW_MS


class SourceTimes:
    """Of one batch of one shard."""

    def __init__(self, work: WorkingSet) -> None:
        self._work, self._shard_index = work, work.shard_index
        self._shifts: dict[tuple[str, str, str], int] = {}
        self._behind: dict[str, int] = {}
        self._intervals: dict[str, int] = {}

    def learn(self, chunks: list[Chunk], is_silent: Callable[[str], bool]) -> None:
        """Take in what the chunks show of lags; before any of their events is counted. Of clusters that are silent
        since they were forgotten nothing is learnt.
        """
        forgotten = {name: at_ms // WINDOW_MS for name, at_ms in self._shard_index.forgotten_ms.items()}
        lags = [
            lag
            for chunk in chunks
            for lag in chunk.lags
            if lag.window > forgotten.get(lag.cluster, 0) and not is_silent(lag.cluster)
        ]
        for lag in lags:
            self._work.cluster(lag.cluster).watch.skew.note(lag)
        ticks: dict[str, int] = {}
        for chunk in chunks:
            for cluster, time_ms in chunk.newest_ms.items() if chunk.topic == CLOCKS else ():
                ticks[cluster] = max(time_ms, ticks.get(cluster, 0))
        behind = pick_behind((one for chunk in chunks for one in chunk.behind), ticks)
        missed = missed_of(chunks) if lags else {}
        for cluster in {lag.cluster for lag in lags}:
            watch = self._work.cluster(cluster).watch
            watch.skew.settle()
            watch.skew.ordered = behind.get(cluster, {})
            watch.skew.missed = sorted(watch.missed.missed.keys() | missed.get(cluster, set()))

    def read_intervals(self, chunks: list[Chunk]) -> None:
        """A first batch may be long, and its rounds are no skew."""
        if any(not entry.watch.interval_ms for entry in self._shard_index.clusters.values()):
            self._intervals = intervals_of(chunks)

    def shift_ms(self, cluster: str, source: str, machine: str) -> int:
        """By how much a source's times are moved on."""
        key = cluster, source, machine
        if key not in self._shifts:
            entry = self._shard_index.clusters.get(cluster)
            interval_ms = (entry.watch.interval_ms if entry else 0) or self._intervals.get(cluster, 0)
            self._shifts[key] = entry.watch.skew.shift_ms(source, machine, interval_ms) if entry else 0
        return self._shifts[key]

    def behind_ms(self, cluster: str) -> int:
        """How far the cluster's time runs behind Kafka's."""
        if cluster not in self._behind:
            entry = self._shard_index.clusters.get(cluster)
            self._behind[cluster] = entry.watch.skew.behind_ms() if entry else 0
        return self._behind[cluster]
