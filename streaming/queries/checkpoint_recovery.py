"""A checkpoint survives a power cut: what a batch starts from is on the disk before its rows are.

Spark writes the files of a checkpoint without fsync: a power cut can leave the newest ones empty, truncated or absent.
Before rows of batch N are appended to a table, `CheckpointSync` syncs what N starts from: `offsets/N`, `commits/N-1`
and the state of version N. At a start `recover` removes damaged files of later steps, so that Spark runs the newest
batch with rows again; the tables skip these rows. Batches without rows are planned anew.

Source: Spark 4.2.1, MicroBatchExecution (order of offsets, state and commits) and RocksDBFileManager (names of state
files in checkpoint format 2); Hadoop's ChecksumFileSystem (`.NAME.crc`).
"""

import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from streaming.queries.checkpoint import batch_ids
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.table_store import sync_path

FURTHEST = 20
"""Batches that a recovery goes back: a disk writes back what is not synced within a minute."""

LZ4_END = b"LZ4Block"
"""Begins the last block of a state change, 21 bytes long."""

log = structlog.get_logger()


class CheckpointError(BalancewatchError):
    """A checkpoint is damaged beyond recovery. The message names the file and the command to start without it."""


class CheckpointSync:
    """Syncs what a batch starts from, each file once."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._synced: set[str] = set()

    def sync(self) -> None:
        """Write all files of offsets, commits and state, and their names, to the disk."""
        root = self._checkpoint
        folders = [root, root / "sources" / "0", root / "offsets", root / "commits"]
        for partition in _partitions(root):
            folders += [partition, partition / "SSTs"]
        present: set[str] = set()
        for folder in filter(Path.is_dir, folders):
            with os.scandir(folder) as entries:
                files = {entry.path for entry in entries if entry.is_file() and not entry.name.endswith(".tmp")}
            new = files - self._synced
            for path in new:
                with suppress(FileNotFoundError):  # Spark renames and deletes files meanwhile
                    sync_path(Path(path))
            if new:
                sync_path(folder)
            present |= files
        self._synced = present


def recover(checkpoint: Path, written: int) -> list[Path]:
    """Remove damaged files of the newest batches and return them; none from an intact checkpoint.

    `written` is the newest batch with rows in the tables, -1 for none. A checkpoint that was damaged before its first
    batch ended is renamed to NAME.damaged. Raises CheckpointError if the state that `written` started from is damaged.
    """
    if not checkpoint.is_dir():
        return []
    known = batch_ids(checkpoint)
    has_id, has_beginning = _read(checkpoint / "metadata") is not None, _has_start(checkpoint, 0)
    if not (has_id and has_beginning) and written < 0 and not any(_later(checkpoint / "commits", 0)):
        damaged = checkpoint.with_name(f"{checkpoint.name}.damaged-{uuid.uuid4().hex[:8]}")
        log.error("checkpoint damaged before its first batch ended, a new one begins", moved_to=str(damaged))
        return [checkpoint.rename(damaged)]
    if has_id and not known:
        return []
    newest = known[-1] if has_id else -2
    snapshots = [path for partition in _partitions(checkpoint) for path in _damaged_snapshots(partition)]
    for batch_id in range(newest + 1, max(written, newest - FURTHEST, 0) - 1, -1):
        if not _has_start(checkpoint, batch_id):
            continue
        offsets = checkpoint / "offsets" / str(batch_id)
        is_planned = offsets.exists() and _read(offsets) is not None
        if batch_id == written and not is_planned:
            break
        later = [*_later(checkpoint / "offsets", batch_id + is_planned), *_later(checkpoint / "commits", batch_id)]
        removed = [*snapshots, *later]
        for path in removed:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            path.unlink()
        if removed:
            log.error("checkpoint recovered", batch_id=batch_id, removed=[str(path) for path in removed])
        return removed
    raise CheckpointError(
        f"the checkpoint {checkpoint} is damaged, as after a power failure: what batch {max(written, 0)} started from "
        f"cannot be read. Move it away and start again: mv {checkpoint} {checkpoint}.damaged; `run` then reads from "
        "queries.starting_offsets, and tables and incidents stay (checkpoints/README.md)"
    )


def _has_start(checkpoint: Path, batch_id: int) -> bool:
    """Whether Spark can run the batch next: the plan and the commit of the one before, and the state of its version."""
    if batch_id == 0:
        beginning = checkpoint / "sources" / "0" / "0"
        return not beginning.exists() or _read(beginning) is not None
    commit = _read(checkpoint / "commits" / str(batch_id - 1))
    if commit is None or _read(checkpoint / "offsets" / str(batch_id - 1)) is None:
        return False
    ids = commit.get("stateUniqueIds", {}).get("0")
    partitions = _partitions(checkpoint)
    return not ids or all(_has_state(one, batch_id, ids[int(one.name)][0]) for one in partitions)


def _has_state(partition: Path, version: int, state_id: str) -> bool:
    """Whether the state of this version is intact: its change, and those before it back to a snapshot or the first."""
    name = f"{version}_{state_id}"
    for step in range(version, 0, -1):
        if any(map(_is_snapshot, partition.glob(f"{name}.zip"))):
            return True
        changes = [_content(path) for path in partition.glob(f"{name}.changelog")]
        if not any(change is not None and change[-21:-13] == LZ4_END for change in changes):
            return False
        name = f"{step - 1}_*"
    return True


def _damaged_snapshots(partition: Path) -> list[Path]:
    """Return those of the two newest: Spark would load them, and can do without."""
    found = sorted(partition.glob("*.zip"), key=lambda path: int(path.name.partition("_")[0]))
    return [path for path in found[-2:] if not _is_snapshot(path)]


def _is_snapshot(path: Path) -> bool:
    """Whether an archive and the files of RocksDB that it names are intact."""
    try:
        with zipfile.ZipFile(path) as archive:
            listed = json.loads(archive.read("metadata").partition(b"\n")[2])["sstFiles"]
            is_intact = archive.testzip() is None
        return is_intact and all(
            len(_content(path.parent / "SSTs" / one["dfsSstFileName"]) or b"") == one["sizeBytes"] for one in listed
        )
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False


def _read(path: Path) -> dict[str, Any] | None:
    """Return the last JSON object of one of Spark's logs; None for a damaged file."""
    content = _content(path)
    if content is None:
        return None
    try:
        found = [json.loads(line) for line in content.decode().strip("\0").split("\n") if line.startswith("{")]
    except ValueError:
        return None
    return found[-1] if found else None


def _content(path: Path) -> bytes | None:
    """Return a file's content; None if it is absent, empty, or differs from its checksums."""
    try:
        content = path.read_bytes()
        sums = path.with_name(f".{path.name}.crc")
        expected = sums.read_bytes() if sums.exists() else None
    except OSError:
        return None
    if not content.strip(b"\0"):
        return None
    if expected is not None:
        size = int.from_bytes(expected[4:8], "big")
        if expected[:4] != b"crc\0" or size == 0:
            return None
        chunks = [content[at : at + size] for at in range(0, len(content), size)]
        if expected[8:] != b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks):
            return None
    return content


def _partitions(checkpoint: Path) -> list[Path]:
    folder = checkpoint / "state" / "0"
    return [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []


def _later(folder: Path, batch_id: int) -> Iterator[Path]:
    """Yield the files of a log from this batch on."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.isdigit() and int(path.name) >= batch_id)
