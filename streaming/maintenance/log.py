"""A table's log: a checkpoint of it, so that opening the table reads one file, and commits that it makes superfluous.

What a checkpoint keeps: the files, the schema, and the newest transaction of each writer, which exactly-once rests on.
"""

import json
import re
import time
from collections.abc import Iterable, Sequence

import obstore
from deltalake import DeltaTable

from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import LOG
from streaming.warehouse.opening import catch_up
from streaming.warehouse.table_store import Found, list_folder, read_file, store_of

CHECKPOINT_AFTER = 20
"""Commits since the last checkpoint that are worth a new one."""

LOG_RETENTION_HOURS = 30 * 24
"""Delta's own delta.logRetentionDuration: no commit that a checkpoint has stays longer, whatever hangs on it."""

_NUMBERED = re.compile(rf"{LOG}/(\d{{20}})\.[^/]+")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")
_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")


class EmptyCommitError(BalancewatchError):
    """A commit of a table's log was lost. The message names its file."""


def shorten_log(handle: DeltaTable, table: str, before: Sequence[Found], keep_hours: int, *, dry_run: bool) -> int:
    """Make a checkpoint where one is due, and delete the files before it that are past a retention.

    `before` is the log as it was a moment ago. The number of its files that are deleted; with `dry_run`, at the most
    would be. See `drop_expired` for `keep_hours`.
    """
    catch_up(handle)
    is_due = int(handle.version()) - _checkpointed(table, before) >= CHECKPOINT_AFTER
    past = time.time() - LOG_RETENTION_HOURS * 3600
    if dry_run:
        upto = int(handle.version()) if is_due else _checkpointed(table, before)
        over = {found.path for found in before if found.at < past and _version(found) < upto}
        return len(over | {found.path for found in _expired(before, keep_hours)})
    if is_due:
        handle.create_checkpoint()
    is_past = any(found.at < past for found in before)
    if is_past:
        handle.cleanup_metadata()
    if not is_due and not is_past and not _expired(before, keep_hours):
        return 0
    drop_expired(table, keep_hours)
    left = {found.path for found in log_files(table)}
    return sum(found.path not in left for found in before)


def drop_expired(table: str, keep_hours: int) -> None:
    """Delete the log before the newest checkpoint from which each version of the last `keep_hours` can still be read.

    Who follows the log commit by commit, and is not further behind than that, misses none.
    """
    expired = [found.path for found in _expired(log_files(table), keep_hours)]
    if expired:
        obstore.delete(store_of(table), expired)


def _expired(numbered: Sequence[Found], keep_hours: int) -> list[Found]:
    past = time.time() - keep_hours * 3600
    old = [_version(found) for found in numbered if found.at < past and _COMMIT.fullmatch(found.path)]
    newest_old = max(old, default=-1)
    if newest_old < 0:
        return []
    checkpoints = [_version(found) for found in numbered if _CHECKPOINT.fullmatch(found.path)]
    base = max((version for version in checkpoints if version <= newest_old), default=-1)
    return [found for found in numbered if _version(found) < base]


def last_checkpoint(table: str) -> tuple[int, int]:
    """The version of the newest checkpoint, as the log hints, and how many actions it has; (-1, 0) without."""
    try:
        hint = json.loads(read_file(table, f"{LOG}/_last_checkpoint")[0])
        return int(hint["version"]), int(hint["size"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # a power cut may have emptied it
        return -1, 0


def _checkpointed(table: str, files: Iterable[Found]) -> int:
    """The version of the newest checkpoint; -1 without one."""
    hinted, _ = last_checkpoint(table)
    return hinted if hinted >= 0 else max((_version(one) for one in files if ".checkpoint." in one.path), default=-1)


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
