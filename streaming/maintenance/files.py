"""A table's files and log: sizes, compaction, unused files, checkpoints and expired commits."""

import json
import math
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import obstore
from deltalake import DeltaTable

from conf.location import is_store
from conf.settings import Maintain
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import LOG, log_name, read_commit
from streaming.warehouse.table_store import Found, list_folder, read_file, store_of, sync_path
from streaming.warehouse.tables import catch_up

CHECKPOINT_AFTER = 20
"""Commits since the last checkpoint that are worth a new one."""

_NUMBERED = re.compile(rf"{LOG}/(\d{{20}})\.[^/]+")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")
_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")


class EmptyCommitError(BalancewatchError):
    """A commit of a table's log was lost. The message names its file."""


def shorten_log(handle: DeltaTable, table: str, log: Sequence[Found], wish: Maintain, *, dry_run: bool) -> int:
    """Make a checkpoint where one is due, and delete the expired files of the log; see `drop_expired`.

    `log` is the log as it was a moment ago. Return the number of deleted files; with `dry_run`, at the most would be.
    """
    catch_up(handle)
    version = int(handle.version())
    checkpointed = max((_version(found) for found in log if ".checkpoint." in found.path), default=-1)
    is_due = version - checkpointed >= CHECKPOINT_AFTER
    if dry_run:
        return len(_expired(log, wish, version if is_due else -1))
    if is_due:
        make_checkpoint(handle, table)
    return drop_expired(table, wish)


def make_checkpoint(handle: DeltaTable, table: str) -> None:
    """Make a checkpoint of the log, on the disk before the commits in it may be deleted."""
    handle.create_checkpoint()
    _sync(table, LOG, [f"{handle.version():020}.checkpoint.parquet", "_last_checkpoint"])


def sync_commits(handle: DeltaTable, table: str, before: int) -> None:
    """Write to the disk the commits after version `before` and the files that they add: delta-rs does not do so itself.

    The cost is that of the new files, however many the table has.
    """
    if is_store(table):
        return
    versions = range(before + 1, int(handle.version()) + 1)
    commits = filter(None, (read_commit(table, version) for version in versions))
    _sync(table, "", [file for commit in commits for file in commit.added])
    _sync(table, LOG, [log_name(version).removeprefix(f"{LOG}/") for version in versions])


def _sync(table: str, folder: str, names: Iterable[str]) -> None:
    """Sync these files, then their names. A bucket needs neither."""
    if is_store(table):
        return
    for name in names:
        with suppress(FileNotFoundError):  # compacted and deleted since
            sync_path(Path(table) / folder / name)
    sync_path(Path(table) / folder)


def drop_expired(table: str, wish: Maintain) -> int:
    """Delete the log before the newest checkpoint from which each version that readers may need can still be read.

    Those are the versions of the last `reader_hours`, at most `reader_commits`. A reader that follows the log commit by
    commit and is not further behind misses none. Return the number of deleted files.
    """
    expired = [found.path for found in _expired(log_files(table), wish)]
    if expired:
        obstore.delete(store_of(table), expired)
    return len(expired)


def reader_hours(log: Sequence[Found], wish: Maintain) -> int:
    """How long a file stays that the table no longer has: as long as the log, with an hour for its writing."""
    expired = {found.path for found in _expired(log, wish)}
    oldest = min((found.at for found in log if _COMMIT.fullmatch(found.path) and found.path not in expired), default=0)
    return min(wish.reader_hours, math.ceil((time.time() - oldest) / 3_600) + 1)


def _expired(numbered: Sequence[Found], wish: Maintain, next_checkpoint: int = -1) -> list[Found]:
    past = time.time() - wish.reader_hours * 3600
    commits = [found for found in numbered if _COMMIT.fullmatch(found.path)]
    too_many = max(map(_version, commits), default=-1) - wish.reader_commits
    old = [version for found in commits if (version := _version(found)) <= too_many or found.at < past]
    checkpoints = [_version(found) for found in numbered if _CHECKPOINT.fullmatch(found.path)]
    newest_old = max(old, default=-1)
    base = max((version for version in [*checkpoints, next_checkpoint] if version <= newest_old), default=-1)
    return [found for found in numbered if _version(found) < base]


def last_checkpoint(table: str) -> tuple[int, int]:
    """The version of the newest checkpoint, as the log hints, and how many actions it has; (-1, 0) without."""
    try:
        hint = json.loads(read_file(table, f"{LOG}/_last_checkpoint")[0])
        return int(hint["version"]), int(hint["size"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # a power cut may have emptied it
        return -1, 0


def refuse_empty_commits(table: str, files: Iterable[Found]) -> None:
    """Raise EmptyCommitError for a commit whose file is empty: the table opens without it, and its rows look unused."""
    empty = [found.path for found in files if found.size == 0 and _COMMIT.fullmatch(found.path)]
    if empty:
        raise EmptyCommitError(
            f"{table}/{empty[0]} is empty, as after a power failure, and the table lacks the rows of that commit. "
            "Nothing was changed: restore the file from a backup, or delete it if it is the newest of the log"
        )


def log_files(table: str) -> list[Found]:
    """Of commits and checkpoints, by their versions."""
    return [one for one in list_folder(table, LOG) if _NUMBERED.fullmatch(one.path)]


def _version(found: Found) -> int:
    return int(found.path.rpartition("/")[2][:20])


MB = 1_000_000

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_DELTA = re.compile(
    rf"part-\d{{5}}-{_UUID}[-.]c\d{{3}}(\.\w+)?\.parquet"  # data, by Spark or delta-rs
    rf"|deletion_vector_{_UUID}\.bin"
    rf"|_change_data/cdc-\d{{5}}-{_UUID}[-.]c\d{{3}}(\.\w+)?\.parquet"
)
"""Names that Delta's writers give; other files in a table's folder are left alone."""

_UNFINISHED = re.compile(
    rf"\.\d{{20}}\.json\.[0-9a-f]{{32}}\.tmp"  # a commit, by streaming.warehouse.table_store
    rf"|_commit_{_UUID}\.json\.tmp|(part-\d{{5}}-|\d{{20}}\.|_last_checkpoint)[^#]*#\d+"  # by delta-rs
)
"""Names under which a file is written before it gets its own; a killed writer leaves them."""


def take_stock(handle: DeltaTable) -> tuple[int, list[int]]:
    """Return the rows of the handle's version, counted by the log if its writers did, and the bytes of each file."""
    adds = handle.get_add_actions(flatten=True)
    rows = adds["num_records"].to_pylist() if "num_records" in adds.schema.names else [None]
    counted = sum(rows) if None not in rows else int(handle.to_pyarrow_dataset().count_rows())
    return counted, [int(size) for size in adds["size_bytes"].to_pylist()]


def find_unused(handle: DeltaTable, hours: int) -> list[str]:
    """Files, by their path in the table's folder, that no version of the last `hours` has, nor a writer is writing.

    Of those that Delta wrote: its log has named them, or their names are as it gives them. Raises DeltaError for fewer
    hours than the table's delta.deletedFileRetentionDuration.
    """
    unused = list(handle.vacuum(retention_hours=hours, dry_run=True, full=True))
    named = set(handle.vacuum(retention_hours=hours, dry_run=True, full=False)) if unused else set()
    return [file for file in unused if file in named or _OF_DELTA.fullmatch(file)]


def find_unfinished(table: str, hours: int) -> list[str]:
    """Return the files that killed writers left more than `hours` ago, as find_unused. A bucket has none."""
    if is_store(table):
        return []
    past, found = time.time() - hours * 3_600, []
    for folder in ("", f"{LOG}/"):
        for path in (Path(table) / folder).iterdir():
            with suppress(FileNotFoundError):  # its writer is at work
                if _UNFINISHED.fullmatch(path.name) and path.stat().st_mtime < past:
                    found.append(f"{folder}{path.name}")
    return found


def delete_unused(table: str, files: list[str]) -> list[str]:
    """Delete the result of find_unused or find_unfinished; return the deleted files (in a bucket: all)."""
    if is_store(table):
        obstore.delete(store_of(table), files)
        return files
    deleted = []
    for file in files:
        with suppress(FileNotFoundError):
            (Path(table) / file).unlink()
            deleted.append(file)
    return deleted
