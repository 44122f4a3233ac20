"""A process and its descendants, read from /proc: CPU and memory of the driver, the JVM and each Python worker."""

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tests.support.session_process import read_stats

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")

DRIVER, JVM, DAEMON, WORKER, OTHER = "driver", "JVM", "Python daemon", "Python worker", "other"
ENDED = "ended"
CHILDREN = {JVM: DAEMON, DAEMON: WORKER, WORKER: WORKER}
"""Spark's JVM starts one Python daemon, and the daemon forks the workers."""

EVERY_SECONDS = 0.25


@dataclass(frozen=True)
class Process:
    """One process now.

    cpu_seconds     its own, user and system
    ended_seconds   of its children that have ended and that it has waited for
    resident        bytes; pages that forked processes share count in each
    """

    pid: int
    name: str
    cpu_seconds: float
    ended_seconds: float
    resident: int


def read_tree(root: int, left_out: frozenset[int] | set[int] = frozenset()) -> list[Process]:
    """`root` first, then its descendants; without those left out and their descendants. Empty once it has ended."""
    stats = read_stats()
    children: dict[int, list[int]] = {}
    for pid, (_, fields) in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    kinds: dict[int, str] = {}
    numbers: dict[str, int] = {}
    tree: list[Process] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop(0)
        if pid in left_out or pid not in stats:
            continue
        command, fields = stats[pid]
        user, system, ended_user, ended_system = (int(ticks) / _TICKS for ticks in fields[11:15])
        if fields[0] == "Z":
            tree.append(Process(pid, ENDED, user + system, ended_user + ended_system, 0))
            continue
        of_parent = CHILDREN.get(kinds.get(int(fields[1]), OTHER), OTHER)
        kind = kinds[pid] = DRIVER if pid == root else JVM if command == "java" else of_parent
        numbers[kind] = numbers.get(kind, 0) + 1
        name = kind if kind == DRIVER or (kind in (JVM, DAEMON) and numbers[kind] == 1) else f"{kind} {numbers[kind]}"
        tree.append(Process(pid, name, user + system, ended_user + ended_system, int(fields[21]) * _PAGE))
        waiting += sorted(children.get(pid, []))
    return tree


def cpu_of(tree: list[Process]) -> float:
    """Seconds of all of them since they were started, those of ended children included."""
    return sum(process.cpu_seconds + process.ended_seconds for process in tree)


def resident_by_name(tree: list[Process]) -> dict[str, int]:
    """Bytes by name, the largest first."""
    sums: dict[str, int] = {}
    for process in tree:
        sums[process.name] = sums.get(process.name, 0) + process.resident
    return {name: size for name, size in sorted(sums.items(), key=lambda item: -item[1]) if size}


def cores_by_name(before: list[Process], after: list[Process], seconds: float) -> dict[str, float]:
    """Cores that each used in the span; ENDED is of processes that ended in it."""
    known = {process.pid: process.cpu_seconds for process in before}
    spent: dict[str, float] = {}
    for process in after:
        spent[process.name] = spent.get(process.name, 0.0) + process.cpu_seconds - known.get(process.pid, 0)
    ended = cpu_of(after) - cpu_of(before) - sum(spent.values())
    spent[ENDED] = spent.get(ENDED, 0.0) + max(0.0, ended)
    return {name: cpu / seconds for name, cpu in sorted(spent.items(), key=lambda item: -item[1]) if cpu > 0}


def peak_of(samples: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """The largest of the samples, bytes by name, that the sample before it or after it confirms.

    A process that has just been forked counts as large as its parent for a moment; a peak is what lasts.
    """
    lasting = [min(two, key=lambda sample: sum(sample.values())) for two in pairwise(samples)] or samples
    return max(lasting, key=lambda sample: sum(sample.values()), default={})


class TreeWatch:
    """A thread that samples a process and its descendants, without `left_out`. Leaving the context ends it."""

    def __init__(self, pid: int, *left_out: int) -> None:
        self.left_out = set(left_out)
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
        """CPU seconds that the tree used between two times, epoch seconds: between samples in a straight line."""
        if not self._times:
            return 0.0
        return float(np.interp(ended, self._times, self._cpu) - np.interp(began, self._times, self._cpu))

    def peak(self, began: float = 0.0, ended: float = math.inf) -> Mapping[str, int]:
        """Bytes by name at the peak between two times."""
        samples = zip(self._times, self._resident, strict=True)
        return peak_of([resident for at, resident in samples if began <= at <= ended] or self._resident[-1:])

    def _follow(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            if tree := read_tree(self._pid, self.left_out):
                self._times.append(time.time())
                self._cpu.append(max(cpu_of(tree), self._cpu[-1] if self._cpu else 0.0))
                self._resident.append(resident_by_name(tree))
