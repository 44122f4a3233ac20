"""A table's log: a checkpoint of it, so that opening the table reads one file, and commits that it makes superfluous.

What a checkpoint keeps: the files, the schema, and the newest transaction of each writer, which exactly-once rests on.
"""

import json
import re
import time
from collections.abc import Iterable

import obstore
from deltalake import DeltaTable

from streaming.queries.delta_log import LOG
from streaming.warehouse.table_store import Found, list_files, read_file, store_of

CHECKPOINT_AFTER = 20
"""Commits since the last checkpoint that are worth a new one."""

LOG_RETENTION_HOURS = 30 * 24
"""Delta's own delta.logRetentionDuration: no commit that a checkpoint has stays longer, whatever hangs on it."""

_NUMBERED = re.compile(rf"{LOG}/(\d{{20}})\.[^/]+")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")
_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")


class EmptyCommitError(RuntimeError):
    """A commit of a table's log was lost. The message names its file."""


def shorten_log(handle: DeltaTable, table: str, keep_hours: int, *, dry_run: bool) -> int:
    """Make a checkpoint where one is due, and delete the files before it that are past a retention.

    The number of files that are deleted; with `dry_run`, at the most would be. See `drop_expired` for `keep_hours`.
    """
    handle.update_incremental()
    before = _log_files(table)
    is_due = int(handle.version()) - _checkpointed(table, before) >= CHECKPOINT_AFTER
    if dry_run:
        past = time.time() - LOG_RETENTION_HOURS * 3600
        upto = int(handle.version()) if is_due else _checkpointed(table, before)
        over = {found.path for found in before if found.at.timestamp() < past and _version(found) < upto}
        return len(over | {found.path for found in _expired(before, keep_hours)})
    if is_due:
        handle.create_checkpoint()
    if before and before[0].at.timestamp() < time.time() - LOG_RETENTION_HOURS * 3600:
        handle.cleanup_metadata()
    drop_expired(table, keep_hours)
    left = {found.path for found in _log_files(table)}
    return sum(found.path not in left for found in before)


def drop_expired(table: str, keep_hours: int) -> None:
    """Delete the log before the newest checkpoint from which each version of the last `keep_hours` can still be read.

    Who follows the log commit by commit, and is not further behind than that, misses none.
    """
    expired = [found.path for found in _expired(_log_files(table), keep_hours)]
    if expired:
        obstore.delete(store_of(table), expired)


def _expired(files: Iterable[Found], keep_hours: int) -> list[Found]:
    past = time.time() - keep_hours * 3600
    numbered = list(files)
    old = [_version(found) for found in numbered if _COMMIT.fullmatch(found.path) and found.at.timestamp() < past]
    newest_old = max(old, default=-1)
    checkpoints = [_version(found) for found in numbered if _CHECKPOINT.fullmatch(found.path)]
    base = max((version for version in checkpoints if version <= newest_old), default=-1)
    return [found for found in numbered if _version(found) < base]


def _checkpointed(table: str, files: Iterable[Found]) -> int:
    """The version of the newest checkpoint; -1 without one."""
    try:
        return int(json.loads(read_file(table, f"{LOG}/_last_checkpoint")[0])["version"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # it is a hint: a power cut may have emptied it
        return max((_version(found) for found in files if ".checkpoint." in found.path), default=-1)


def refuse_empty_commits(table: str) -> None:
    """Raise EmptyCommitError for a commit whose file is empty: the table opens without it, and its rows look unused."""
    empty = [found.path for found in _log_files(table) if _COMMIT.fullmatch(found.path) and found.size == 0]
    if empty:
        raise EmptyCommitError(
            f"{table}/{empty[0]} is empty, as a power cut leaves a file, and the table misses the rows of that commit: "
            "nothing is done to it; put the file back from a backup, or delete it where it is the newest of the log"
        )


def _log_files(table: str) -> list[Found]:
    """Of commits and checkpoints, by their versions."""
    found = (one for one in list_files(table, LOG) if _NUMBERED.fullmatch(one.path))
    return sorted(found, key=lambda one: one.path)


def _version(found: Found) -> int:
    return int(found.path.rpartition("/")[2][:20])
