"""A table's files: how many, how large, which compaction would take together, and which nobody needs any more."""

import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import obstore
from deltalake import DeltaTable

from conf.location import is_store
from streaming.warehouse.delta_log import LOG
from streaming.warehouse.opening import whole
from streaming.warehouse.table_store import list_files, store_of

MB = 1_000_000

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_DELTA = re.compile(
    rf"part-\d{{5}}-{_UUID}[-.]c\d{{3}}(\.\w+)?\.parquet"  # data, by Spark or delta-rs
    rf"|deletion_vector_{_UUID}\.bin"
    rf"|_change_data/cdc-\d{{5}}-{_UUID}[-.]c\d{{3}}(\.\w+)?\.parquet"
)
"""Names that Delta's writers give; any other file in a table's folder is somebody's own."""


@dataclass(frozen=True)
class Stock:
    """What a table holds at one version."""

    rows: int
    sizes: tuple[int, ...]
    """Bytes of each file."""

    @property
    def files(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    def small_files(self, target_mb: int) -> tuple[int, ...]:
        """Sizes of those that compaction takes together."""
        return tuple(size for size in self.sizes if size < target_mb * MB)


def take_stock(handle: DeltaTable) -> Stock:
    """Rows and files of the version that the handle has read; from the log, where the writers counted their rows."""
    adds = handle.get_add_actions(flatten=True)
    rows = adds["num_records"].to_pylist() if "num_records" in adds.schema.names else [None]
    counted = sum(rows) if None not in rows else int(handle.to_pyarrow_dataset().count_rows())
    return Stock(counted, tuple(adds["size_bytes"].to_pylist()))


def file_sizes(handle: DeltaTable) -> tuple[int, ...]:
    """Bytes of each file of the version that the handle has read."""
    return tuple(handle.get_add_actions(flatten=True)["size_bytes"].to_pylist())


def expected_files(small: tuple[int, ...], target_mb: int) -> int:
    """Of how many files they will be at the most: compression gains when rows come together."""
    return max(1, math.ceil(sum(small) / (target_mb * MB))) if small else 0


def compact(handle: DeltaTable, target_mb: int) -> tuple[int, int]:
    """Take small files together, one at a time so that the writers keep their core; (files taken, files made)."""
    done = whole(lambda: handle.optimize.compact(target_size=target_mb * MB, max_concurrent_tasks=1))
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])


def find_unused(handle: DeltaTable, table: str, hours: int) -> list[str]:
    """Files, by their path in the table's folder, that no version of the last `hours` has, nor a writer is writing.

    Of those that Delta wrote: its log has named them, or their names are as it gives them. Raises DeltaError for fewer
    hours than the table's delta.deletedFileRetentionDuration.
    """
    has_own_wish = "delta.deletedFileRetentionDuration" in handle.metadata().configuration
    if not is_store(table) and not has_own_wish and not _has_old(Path(table), set(handle.file_uris()), hours):
        return []
    unused = list(handle.vacuum(retention_hours=hours, dry_run=True, full=True))
    named = set(handle.vacuum(retention_hours=hours, dry_run=True, full=False)) if unused else set()
    return [file for file in unused if file in named or _OF_DELTA.fullmatch(file)]


def _has_old(folder: Path, active: set[str], hours: int) -> bool:
    """Whether a file is older than that and in the table no more, or may be: a file is written before it is replaced.

    Looking for it so takes a tenth of what it takes delta-rs to find nothing.
    """
    if any(unquote(uri) != uri for uri in active):
        return True
    past = time.time() - hours * 3_600
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != LOG:
                return True
            if entry.is_file() and entry.path not in active and entry.stat().st_mtime < past:
                return True
    return False


def delete_unused(table: str, files: list[str]) -> list[str]:
    """Delete what find_unused found; those that were there, which a store does not tell."""
    if is_store(table):
        obstore.delete(store_of(table), files)
        return files
    return [file for file in files if _delete(Path(table) / file)]


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def bytes_of(table: str, files: list[str]) -> int:
    """What they take on the disk; nothing for one that is gone."""
    if is_store(table):
        wanted = set(files)
        return sum(found.size for found in list_files(table) if found.path in wanted) if wanted else 0
    return sum(path.stat().st_size for file in files if (path := Path(table) / file).is_file())
