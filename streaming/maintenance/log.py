"""A table's log: a checkpoint of it, so that opening the table reads one file, and commits that it makes superfluous.

What a checkpoint keeps: the files, the schema, and the newest transaction of each writer, which exactly-once rests on.
"""

import json
import time
from pathlib import Path

from deltalake import DeltaTable

from streaming.queries.delta_log import LOG

CHECKPOINT_AFTER = 20
"""Commits since the last checkpoint that are worth a new one."""

LOG_RETENTION_HOURS = 30 * 24
"""Delta's own delta.logRetentionDuration: how far back a version can be asked for."""


class EmptyCommitError(RuntimeError):
    """A commit of a table's log was lost. The message names its file."""


def shorten_log(handle: DeltaTable, table: Path, *, dry_run: bool) -> int:
    """Make a checkpoint where one is due, and delete the commits before it that are past Delta's retention.

    The number of files that are deleted; with `dry_run`, at the most would be.
    """
    handle.update_incremental()
    is_due = int(handle.version()) - _checkpointed(table) >= CHECKPOINT_AFTER
    before = _log_files(table)
    if dry_run:
        past = time.time() - LOG_RETENTION_HOURS * 3600
        upto = int(handle.version()) if is_due else _checkpointed(table)
        return sum(path.stat().st_mtime < past and int(path.name[:20]) < upto for path in before)
    if is_due:
        handle.create_checkpoint()
    handle.cleanup_metadata()
    return len(before) - len([path for path in before if path.is_file()])


def _checkpointed(table: Path) -> int:
    """The version of the newest checkpoint; -1 without one."""
    try:
        return int(json.loads((table / LOG / "_last_checkpoint").read_text())["version"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # it is a hint: a power cut may have emptied it
        return max((int(path.name[:20]) for path in _log_files(table) if ".checkpoint." in path.name), default=-1)


def refuse_empty_commits(table: Path) -> None:
    """Raise EmptyCommitError for a commit whose file is empty: the table opens without it, and its rows look unused."""
    empty = [path for path in _log_files(table) if path.suffix == ".json" and path.stat().st_size == 0]
    if empty:
        raise EmptyCommitError(
            f"{sorted(empty)[0]} is empty, as a power cut leaves a file, and the table misses the rows of that commit: "
            "nothing is done to it; put the file back from a backup, or delete it where it is the newest of the log"
        )


def _log_files(table: Path) -> list[Path]:
    return [path for path in (table / LOG).iterdir() if path.name[:20].isdigit()]
