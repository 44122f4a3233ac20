"""A thread that follows a process and all it starts: CPU and memory over time."""

import threading
import time
from bisect import bisect_left
from itertools import pairwise

from tests.bench.memory import Memory, memory_of, smaller
from tests.bench.process_tree import cpu_of, read_tree, resident_by_name

INTERVAL_SECONDS = 0.25


class TreeWatch:
    """Leaving the context ends it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._times: list[float] = []
        self._cpu: list[float] = []
        self._resident: list[dict[str, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tree", daemon=True)

    def __enter__(self) -> "TreeWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def cpu_between(self, began: float, ended: float) -> float:
        """CPU seconds that the tree used between two moments, epoch seconds."""
        return self._cpu_at(ended) - self._cpu_at(began)

    def peak_between(self, began: float, ended: float) -> Memory:
        inside = [
            resident for at, resident in zip(self._times, self._resident, strict=True) if began <= at <= ended
        ] or self._resident[-1:]
        lasting = [smaller(before, now) for before, now in pairwise(inside)] or inside
        return memory_of(max(lasting, key=lambda resident: sum(resident.values()), default={}))

    def _cpu_at(self, moment: float) -> float:
        return value_at(self._times, self._cpu, moment)

    def _follow(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            tree = read_tree(self._pid)
            if tree:
                self._times.append(time.time())
                self._cpu.append(max(cpu_of(tree), self._cpu[-1] if self._cpu else 0.0))
                self._resident.append(resident_by_name(tree))


def value_at(times: list[float], values: list[float], moment: float) -> float:
    """Between two samples in a straight line; the first or the last beyond them, 0 without any."""
    if not times:
        return 0.0
    after = bisect_left(times, moment)
    if after == 0:
        return values[0]
    if after == len(times):
        return values[-1]
    share = (moment - times[after - 1]) / (times[after] - times[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])
