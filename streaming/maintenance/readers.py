"""How far the relay's stream has read a table, as its checkpoint says: what it has yet to read must stay readable.

`offsets/N` of a checkpoint is where batch N of Delta's source ends, written before the batch runs; `commits/N` says
that it was done. `reservoirVersion` is the first version that was not read whole (Delta's DeltaSourceOffset).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from streaming.checkpoint_offsets import HEADER_LINES
from streaming.queries.delta_log import read_commit

RELAY = "relay"
"""The checkpoint of streaming.oncall.alert_stream, which needs Spark to import."""


class ReaderError(RuntimeError):
    """A reader is further behind than the log reaches. The message says whose checkpoint to look at."""


@dataclass(frozen=True)
class Reader:
    """A stream of one table. `unread_since_ms`: when the first rows were written that it has yet to read, if any are.

    A file that it needs was in the table then or came later, so it was replaced later too.
    """

    version: int
    unread_since_ms: int | None


def read_reader(checkpoint: Path, table: Path | str, handle: DeltaTable) -> Reader | None:
    """None without a checkpoint of this very table. Raises ReaderError, or ValueError for one that makes no sense."""
    position = _position(checkpoint)
    if position is None or position["reservoirId"] != str(handle.metadata().id):
        return None
    version, newest = int(position["reservoirVersion"]), int(handle.version())
    for unread in range(version, newest + 1):
        commit = read_commit(table, unread)
        if commit is None:
            raise ReaderError(
                f"{checkpoint} has read up to version {version}, and version {unread} is no longer in the table's log: "
                "its stream cannot go on; move that folder away, and its reader begins anew"
            )
        if commit.new_files or position["isStartingVersion"]:
            return Reader(version, commit.at_ms)
    return Reader(version, None)


def _position(checkpoint: Path) -> dict[str, Any] | None:
    """The offset up to which all was read; that of the first batch where none was noted as done."""
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    batch_ids = sorted(int(path.name) for path in offsets.iterdir() if path.name.isdigit()) if offsets.is_dir() else []
    if not batch_ids:
        return None
    done = [batch_id for batch_id in batch_ids if (commits / str(batch_id)).is_file()]
    text = (offsets / str(done[-1] if done else batch_ids[0])).read_text()
    position: dict[str, Any] = json.loads(text.split("\n")[HEADER_LINES])
    return position if done else {**position, "reservoirVersion": 0}
