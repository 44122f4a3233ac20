"""Tables with thousands of commits, made in seconds: their logs are written as text, and only files in use exist.

Kept as `run` does it: a commit a batch, small files compacted by the tiers of `streaming/maintenance`, a checkpoint of
the log now and then.
"""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

from schemas.tables import TABLES, Table
from streaming.maintenance.table_keeper import due_tier
from streaming.warehouse.appender import statistics_of
from streaming.warehouse.delta_log import log_name
from streaming.warehouse.tables import table_path
from tests.lab.bench.history_rows import rows_of
from tests.support.laboratory import say
from tests.support.row_writer import create_tables

ROWS = 32
"""Of an append; a multiple of the rows of an incident, so that none is open at the end."""

COMPRESSED = 0.2
"""Bytes of a row in a large file beside those in a small one, about."""

SINCE_CHECKPOINT = 50
"""Commits after the last checkpoint: half of what there are between two."""


@dataclass
class DataFile:
    """A file of the rows from `first` to `end`. A removed one is never read."""

    first: int
    end: int
    size: int
    name: str = field(default_factory=lambda: f"part-00000-{uuid.uuid4()}-c000.snappy.parquet")
    stats: str = '{"numRecords":1}'


Commit = tuple[list[DataFile], list[DataFile]]
"""Files added and removed; an append removes none."""


def age_tables(warehouse: Path, commits: int) -> None:
    """Make all tables, each with `commits` appends in its past."""
    began = time.monotonic()
    create_tables(warehouse)
    for table in TABLES.values():
        age_table(Path(table_path(warehouse, table.name)), table, commits)
    say(f"{len(TABLES)} tables of {commits:,} commits after {time.monotonic() - began:.0f} s")


def age_table(folder: Path, table: Table, commits: int, *, is_kept: bool = True) -> int:
    """Age a table that has only the commit that made it; return the number of its files in use.

    One that is not kept has a small file for each commit.
    """

    def write(file: DataFile) -> DataFile:
        part = rows_of(table, np.arange(file.first, file.end), commits * ROWS, np.random.default_rng(file.first))
        pq.write_table(part.replace_schema_metadata(None), folder / file.name, compression="snappy")
        file.size, file.stats = (folder / file.name).stat().st_size, statistics_of(part)
        return file

    small = write(DataFile(0, ROWS, 0))
    (folder / small.name).unlink()
    history = list(history_of(commits, small.size, is_kept=is_kept))
    in_use = files_in_use(history)
    for file in in_use:
        write(file)
    start_ms = time.time_ns() // 1_000_000 - len(history) * 1000
    for version, commit in enumerate(history, 1):
        (folder / log_name(version)).write_bytes(_text(commit, version, start_ms + version * 1000))
        if version == max(1, len(history) - SINCE_CHECKPOINT):
            DeltaTable(str(folder)).create_checkpoint()
    return len(in_use)


def history_of(commits: int, size: int, *, is_kept: bool = True) -> Iterator[Commit]:
    """Yield appends of files of `size` bytes and, if `is_kept`, their compaction when a tier is full."""
    files: list[DataFile] = []
    for number in range(commits):
        files.append(DataFile(number * ROWS, (number + 1) * ROWS, size))
        yield files[-1:], []
        while is_kept and (tier := due_tier([one.size for one in files])) is not None:
            taken = [one for one in files if one.size < tier]
            made = list(_compacted(taken, tier, size / ROWS * COMPRESSED))
            files = [one for one in files if one.size >= tier] + made
            yield made, taken


def files_in_use(history: list[Commit]) -> list[DataFile]:
    gone = {file.name for _, removed in history for file in removed}
    return [file for added, _ in history for file in added if file.name not in gone]


def _compacted(taken: list[DataFile], tier: int, bytes_a_row: float) -> Iterator[DataFile]:
    """Yield files of up to `tier` bytes with the rows of the taken ones, which follow each other."""
    end = max(one.end for one in taken)
    most = max(ROWS, int(tier / bytes_a_row) // ROWS * ROWS)
    for first in range(min(one.first for one in taken), end, most):
        rows = min(most, end - first)
        yield DataFile(first, first + rows, tier if rows == most else int(rows * bytes_a_row))


def _text(commit: Commit, version: int, at_ms: int) -> bytes:
    """Return the actions of a commit, a line each. Compaction changes no data."""
    added, removed = commit
    operation = "OPTIMIZE" if removed else "WRITE"
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": at_ms, "operation": operation}}]
    if not removed:
        actions.append({"txn": {"appId": "balancewatch-aged", "version": version, "lastUpdated": at_ms}})
    for file in removed:
        gone = {"path": file.name, "deletionTimestamp": at_ms, "dataChange": False, "size": file.size}
        actions.append({"remove": gone | {"extendedFileMetadata": True, "partitionValues": {}}})
    for file in added:
        add = {"path": file.name, "partitionValues": {}, "size": file.size, "modificationTime": at_ms}
        actions.append({"add": add | {"dataChange": not removed, "stats": file.stats}})
    return b"\n".join(map(msgspec.json.encode, actions))
