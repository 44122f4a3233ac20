"""Peak memory of a process tree by process, sampled beside a measure; Kafka and those who publish apart."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.table import Table

from tests.bench.process_tree import DRIVER, JVM, read_tree, resident_by_name

INTERVAL_SECONDS = 0.5

_MIB = 1 << 20


@dataclass(frozen=True)
class Memory:
    """Resident MiB when the whole tree was at its peak. Pages that forked workers share count once a worker."""

    peak_mib: int
    driver_mib: int
    jvm_mib: int
    workers_mib: int
    processes_mib: dict[str, int] = field(default_factory=dict)


def memory_of(resident: Mapping[str, int]) -> Memory:
    """Out of bytes by name."""
    driver, jvm, whole = resident.get(DRIVER, 0), resident.get(JVM, 0), sum(resident.values())
    by_name = {name: size // _MIB for name, size in resident.items()}
    return Memory(whole // _MIB, driver // _MIB, jvm // _MIB, (whole - driver - jvm) // _MIB, by_name)


def smaller(before: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """Of two looks at a tree, one after the other: a process that has just been forked counts as large as its parent
    for a moment, and what lasts is a peak.
    """
    return min(before, now, key=lambda one: sum(one.values()))


class MemorySampler:
    """A thread that looks at this process and its descendants, but for those left out. Leaving the context ends it."""

    def __init__(self, *left_out: int) -> None:
        self.peak = Memory(0, 0, 0, 0)
        self._most = 0
        self._left_out = set(left_out)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)

    def leave_out(self, *pids: int) -> None:
        """Not these, nor their descendants."""
        self._left_out |= set(pids)

    def __enter__(self) -> "MemorySampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        before: Mapping[str, int] = {}
        while not self._stop.wait(INTERVAL_SECONDS):
            resident = resident_by_name(read_tree(os.getpid(), self._left_out))
            lasting = smaller(before, resident)
            if (whole := sum(lasting.values())) > self._most:
                self._most, self.peak = whole, memory_of(lasting)
            before = resident


def add_memory(table: Table, name: str, memory: Memory, when: str = "at its peak") -> None:
    """A row of the bench's table: the whole, and what each process had of it."""
    parts = parts_of(memory.processes_mib)
    table.add_row(f"memory, {name}", f"{memory.peak_mib:,} MiB", when, parts, end_section=True)


def parts_of(by_name: Mapping[str, float], digits: int = 0) -> str:
    """Name and figure of each process, for a cell; none of those that round to nothing."""
    return ", ".join(f"{name} {figure:,.{digits}f}" for name, figure in by_name.items() if round(figure, digits))
