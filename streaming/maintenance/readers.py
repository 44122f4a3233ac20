"""How far the relay's stream has read a table, as its checkpoint says: what it has yet to read must stay readable.

`offsets/N` of a checkpoint is where batch N of Delta's source ends, written before the batch runs; `commits/N` says
that it was done. `reservoirVersion` is the first version that was not read whole (Delta's DeltaSourceOffset).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from streaming.checkpoint_offsets import HEADER_LINES
from streaming.queries.delta_log import read_commit

RELAY = "relay"
"""The checkpoint of streaming.oncall.alert_stream, which needs Spark to import."""


class ReaderError(RuntimeError):
    """How far a reader is cannot be told, or the log no longer reaches so far. The message names its checkpoint."""


@dataclass(frozen=True)
class Reader:
    """A stream of one table. `unread_since_ms`: when the first rows were written that it has yet to read, if any are.

    A file that it needs was in the table then or came later, so it was replaced later too.
    """

    version: int
    unread_since_ms: int | None


def read_reader(checkpoint: Path, table: Path | str, handle: DeltaTable) -> Reader | None:
    """None without a checkpoint of this very table. Raises ReaderError."""
    position = _position(checkpoint)
    if position is None or position.table_id != str(handle.metadata().id):
        return None
    version, newest = position.version, int(handle.version())
    for unread in range(version, newest + 1):
        commit = read_commit(table, unread)
        if commit is None:
            raise ReaderError(
                f"{checkpoint} has read up to version {version}, and version {unread} is no longer in the table's log: "
                "its stream cannot go on; move that folder away, and its reader begins anew"
            )
        if commit.new_files or position.is_start:
            return Reader(version, commit.at_ms)
    return Reader(version, None)


class _Position(NamedTuple):
    """Delta's DeltaSourceOffset; `is_start` while its stream still reads what the table held at first."""

    table_id: str
    version: int
    is_start: bool


def _position(checkpoint: Path) -> _Position | None:
    """The offset up to which all was read; that of the first batch where none was noted as done.

    A file of `commits` that is empty, as a power cut leaves it, notes nothing.
    """
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    batch_ids = sorted(int(path.name) for path in offsets.iterdir() if path.name.isdigit()) if offsets.is_dir() else []
    if not batch_ids:
        return None
    done = [batch_id for batch_id in batch_ids if _holds_something(commits / str(batch_id))]
    position = _read(offsets / str(done[-1] if done else batch_ids[0]), checkpoint)
    return position if done else position._replace(version=0)


def _holds_something(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _read(path: Path, checkpoint: Path) -> _Position:
    try:
        position = json.loads(path.read_text().split("\n")[HEADER_LINES])
        return _Position(str(position["reservoirId"]), int(position["reservoirVersion"]), position["isStartingVersion"])
    except (OSError, ValueError, LookupError, TypeError):
        raise ReaderError(
            f"{path} is empty or damaged, as a power cut leaves a file: how far its reader has read is not known, so "
            f"no file that it may need is deleted; move {checkpoint} away, and its reader begins anew"
        ) from None
