"""A Delta table's log, followed as it grows: when each commit came, which files it brought, which are in use.

Each commit is read once, as text; the table is never opened. A commit's time is that of its file.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streaming.warehouse.delta_log import log_name


@dataclass(frozen=True)
class Appended:
    """A file of new rows, and when its commit was there, epoch ms."""

    path: Path
    committed_ms: float


class TableLog:
    """Its first commits may have been there before; they are read as well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0
        self._in_use: dict[str, int] = {}

    @property
    def commits(self) -> int:
        """That were read, without the one that made the table."""
        return max(0, self._next - 1)

    def follow(self) -> Iterator[Appended]:
        """What was appended since the last call."""
        while (commit := self._folder / log_name(self._next)).exists():
            committed_ms = commit.stat().st_mtime_ns / 1_000_000
            for line in commit.read_text().splitlines():
                yield from self._take(json.loads(line), committed_ms)
            self._next += 1

    def _take(self, action: dict[str, dict[str, object]], committed_ms: float) -> Iterator[Appended]:
        if removed := action.get("remove"):
            self._in_use.pop(str(removed["path"]), None)
        if added := action.get("add"):
            self._in_use[str(added["path"])] = int(str(added["size"]))
            if added["dataChange"]:
                yield Appended(self._folder / str(added["path"]), committed_ms)

    def files(self, below: int) -> int:
        """In use now, and smaller than so many bytes."""
        return sum(size < below for size in self._in_use.values())


def latencies_ms(appended: Iterable[Appended], *, only_unavailable: bool = False) -> list[tuple[float, float]]:
    """(commit's time, ms from a row's `changed_at` to it) of each row; of FaultItems those that say a broker is out."""
    found: list[tuple[float, float]] = []
    for one in appended:
        columns = ["changed_at", *(["available"] if only_unavailable else [])]
        try:
            rows = pq.read_table(one.path, columns=columns)
        except FileNotFoundError:  # taken together with others and cleaned away since
            continue
        moments = rows["changed_at"].cast(pa.int64()).to_pylist()
        counts = [not out for out in rows["available"].to_pylist()] if only_unavailable else [True] * len(moments)
        found += [
            (one.committed_ms, one.committed_ms - moment / 1000)
            for moment, is_counted in zip(moments, counts, strict=True)
            if is_counted
        ]
    return found
