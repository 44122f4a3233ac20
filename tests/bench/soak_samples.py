"""The samples of a soak, every few seconds: CPU and memory of each process, files of each table, sizes on the disk."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conf.settings import Settings
from schemas.tables import ALERTS, FAULT_ITEMS, TABLES
from streaming.maintenance.table_keeper import TIERS
from streaming.warehouse.tables import table_path
from tests.bench.process_tree import Process, cores_by_name, read_tree, resident_by_name
from tests.bench.table_log import TableLog, latencies_ms

SMALL_BYTES = TIERS[0][0]

_MIB = 1 << 20

Timed = list[tuple[float, float]]
"""(epoch seconds of the commit, ms)."""


@dataclass(frozen=True)
class Stock:
    """Files under a folder, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Sample:
    """`cores` and `memory_mib` by process, since the sample before; `small_files` and `commits` by table."""

    at: float
    cores: dict[str, float]
    memory_mib: dict[str, float]
    small_files: dict[str, int]
    commits: dict[str, int]
    state: Stock
    checkpoints: Stock
    warehouse: Stock


class Sampler:
    """Samples a `run` whose process is `pid`, and keeps the latencies of its rows."""

    def __init__(self, settings: Settings, pid: int) -> None:
        self._settings, self._pid = settings, pid
        self._logs = {name: TableLog(Path(table_path(settings.paths.warehouse, name))) for name in TABLES}
        self._tree: list[Process] = read_tree(pid)
        self._at = time.time()
        self.flips_ms: Timed = []
        self.alerts_ms: Timed = []
        self.samples: list[Sample] = []

    def sample(self) -> None:
        for name, log in self._logs.items():
            appended = list(log.follow())
            if name == FAULT_ITEMS.name:
                self.flips_ms += _in_seconds(latencies_ms(appended, only_unavailable=True))
            elif name == ALERTS.name:
                self.alerts_ms += _in_seconds(latencies_ms(appended))
        now, tree = time.time(), read_tree(self._pid)
        paths = self._settings.paths
        sample = Sample(
            now,
            cores_by_name(self._tree, tree, now - self._at),
            {name: size / _MIB for name, size in resident_by_name(tree).items()},
            {name: log.files(SMALL_BYTES) for name, log in self._logs.items()},
            {name: log.commits for name, log in self._logs.items()},
            stock_of(*paths.checkpoints.glob("*/state")),
            stock_of(paths.checkpoints),
            stock_of(Path(paths.warehouse)),
        )
        self._tree, self._at = tree, now
        self.samples.append(sample)


def stock_of(*folders: Path) -> Stock:
    """Of all files in them now; files deleted meanwhile do not count."""
    sizes = [size for folder in folders for size in _sizes(folder)]
    return Stock(len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterator[int]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _sizes(Path(entry.path))
            continue
        try:
            yield entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue


def _in_seconds(latencies: Timed) -> Timed:
    return [(committed_ms / 1000, ms) for committed_ms, ms in latencies]
