"""Peak memory of a process tree, read from /proc: the driver, its JVM, the Python workers; Kafka apart."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

INTERVAL_SECONDS = 0.5

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20


@dataclass(frozen=True)
class Memory:
    """Resident MiB when the whole tree was at its peak. Pages that forked workers share count once a worker."""

    peak_mib: int
    driver_mib: int
    jvm_mib: int
    workers_mib: int


class MemorySampler:
    """A thread that looks at this process and its descendants. Leaving the context ends it."""

    def __init__(self) -> None:
        self.peak = Memory(0, 0, 0, 0)
        self._left_out: set[int] = set()
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
        while not self._stop.wait(INTERVAL_SECONDS):
            now = read_memory(os.getpid(), self._left_out)
            if now.peak_mib > self.peak.peak_mib:
                self.peak = now


def read_memory(root: int, left_out: set[int]) -> Memory:
    """What the tree under `root` has resident now."""
    children: dict[int, list[int]] = {}
    resident: dict[int, tuple[str, int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _read_stat(folder)) is not None:
            pid, name, parent, pages = stat
            children.setdefault(parent, []).append(pid)
            resident[pid] = name, pages * _PAGE
    sums = {"driver": 0, "jvm": 0, "workers": 0}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in left_out or pid not in resident:
            continue
        name, of_process = resident[pid]
        sums["driver" if pid == root else "jvm" if name == "java" else "workers"] += of_process
        waiting += children.get(pid, [])
    mib = {part: size // _MIB for part, size in sums.items()}
    return Memory(sum(sums.values()) // _MIB, mib["driver"], mib["jvm"], mib["workers"])


def _read_stat(folder: Path) -> tuple[int, str, int, int] | None:
    """Process id, name, parent and resident pages; None once the process is gone."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    head, _, tail = text.rpartition(")")  # a name may hold blanks and brackets
    fields = tail.split()
    return int(folder.name), head.partition("(")[2], int(fields[1]), int(fields[21])
