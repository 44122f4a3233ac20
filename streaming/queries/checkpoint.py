"""A query's checkpoint: how far it has read, its number of tasks, the limits of its batches, its state version.

Spark's own files are text, one JSON object a source from the third line on (Spark's OffsetSeqLog, version 1):
`offsets/N` is what batch N reads up to, written before it runs; `commits/N` says that it is done; `sources/0/0` holds
where the first batch began. `limits.json` and `balancewatch.json` beside them are written here.
"""

import json
import os
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import structlog
from pyspark.sql import SparkSession

from conf.location import is_store
from conf.section import SettingsError
from conf.settings import Settings
from streaming.queries.state import ShardIndex
from streaming.queries.written_batch import WrittenBatch
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.store_path import StorePath
from streaming.warehouse.table_store import sync_path

Offsets = dict[tuple[str, int], int]
"""(topic, partition) to the next offset to be read."""

Checkpoint: TypeAlias = Path | StorePath
"""Its folder, or its place in a bucket."""

HEADER_LINES = 2

log = structlog.get_logger()


def checkpoint_of(name: str, settings: Settings) -> Checkpoint:
    place = settings.paths.checkpoints
    return StorePath(str(place), name) if is_store(place) else (Path(place).expanduser() / name).resolve()


@dataclass(frozen=True)
class Position:
    """`wanted` is where the next batch begins to read, `planned` where the newest batch ends.

    `batch_id` is the newest batch begun; if it is committed, `planned` equals `wanted`.
    """

    checkpoint_id: str
    batch_id: int
    is_committed: bool
    wanted: Offsets
    planned: Offsets


def app_id_of(name: str, checkpoint: Checkpoint) -> str:
    """Return the id of the query's Delta transactions: a new checkpoint, whose batch ids start anew, has another.

    Raises OSError, ValueError or KeyError for an unreadable checkpoint.
    """
    metadata = json.loads((checkpoint / "metadata").read_text())
    return f"balancewatch-{name}-{metadata['id']}"


def read_position(checkpoint: Checkpoint) -> Position | None:
    """Return None for a checkpoint without a batch. Raises OSError or ValueError for an unreadable one."""
    known = batch_ids(checkpoint)
    if not known:
        return None
    newest = known[-1]
    planned = _offsets_in((checkpoint / "offsets" / str(newest)).read_bytes(), HEADER_LINES)
    is_committed = (checkpoint / "commits" / str(newest)).is_file()
    wanted = planned if is_committed else _before(checkpoint, newest)
    metadata: dict[str, Any] = json.loads((checkpoint / "metadata").read_text())
    return Position(metadata["id"], newest, is_committed, wanted, planned)


def read_beginning(checkpoint: Checkpoint) -> Offsets:
    """Return where the first batch began. Raises OSError or ValueError for an unreadable checkpoint."""
    return _offsets_in((checkpoint / "sources" / "0" / "0").read_bytes().lstrip(b"\0"), 1)


def read_batch(checkpoint: Checkpoint, batch_id: int) -> dict[tuple[str, int], int]:
    """Return the planned number of offsets of each partition, holes included. Raises OSError or ValueError."""
    until = _offsets_in((checkpoint / "offsets" / str(batch_id)).read_bytes(), HEADER_LINES)
    since = _before(checkpoint, batch_id)
    return {place: offset - since.get(place, 0) for place, offset in until.items()}


def put_back(checkpoint: Checkpoint, beginnings: Mapping[tuple[str, int], int]) -> None:
    """Let the next batch read these partitions from the given offsets; the others stay as they are.

    For recreated partitions: Spark would continue at their end, and skip their messages. Only while the query is not
    running.
    """
    for batch_id in batch_ids(checkpoint)[-2:]:
        path = checkpoint / "offsets" / str(batch_id)
        lines = path.read_text().split("\n")
        lines[HEADER_LINES:] = [_line_with(line, beginnings) for line in lines[HEADER_LINES:]]
        _write_safely(path, "\n".join(lines))


def batch_ids(checkpoint: Checkpoint) -> list[int]:
    folder = checkpoint / "offsets"
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def _before(checkpoint: Checkpoint, batch_id: int) -> Offsets:
    try:
        return _offsets_in((checkpoint / "offsets" / str(batch_id - 1)).read_bytes(), HEADER_LINES)
    except FileNotFoundError:
        return read_beginning(checkpoint)


def _offsets_in(text: bytes, header_lines: int) -> Offsets:
    found: Offsets = {}
    for line in text.decode().split("\n")[header_lines:]:
        if line.startswith("{"):
            for topic, partitions in json.loads(line).items():
                found |= {(topic, int(partition)): offset for partition, offset in partitions.items()}
    return found


def _line_with(line: str, beginnings: Mapping[tuple[str, int], int]) -> str:
    if not line.startswith("{"):
        return line
    topics: dict[str, dict[str, int]] = json.loads(line)
    for (topic, partition), offset in beginnings.items():
        if str(partition) in topics.get(topic, {}):
            topics[topic][str(partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def _write_safely(path: Checkpoint, text: str) -> None:
    if isinstance(path, StorePath):
        path.write_text(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Its checksum goes first: Hadoop reads a file without one, and refuses one that differs.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    sync_path(new)
    new.replace(path)


# How many tasks a batch is: one on one machine, as many as a cluster has cores. A checkpoint keeps its number.

PARTITIONS = "spark.sql.shuffle.partitions"

PAUSE_SECONDS, COME_SECONDS = 3.0, 60.0
"""Longest time between the starts of two executors of a cluster, and the longest wait for all of them."""


def tasks_of(settings: Settings, spark: SparkSession, checkpoint: Checkpoint) -> int:
    """Return the number of state partitions and shards, and set it in Spark; a checkpoint's own comes first."""
    is_near = settings.spark.master.startswith("local[")
    tasks = frozen_tasks(checkpoint) or settings.queries.tasks or (1 if is_near else _cores_of(spark))
    spark.conf.set(PARTITIONS, str(tasks))
    return tasks


def _cores_of(spark: SparkSession) -> int:
    """Return the cores of all executors, once no other has started for PAUSE_SECONDS."""
    spark.range(1).count()  # waits for the first
    cores, deadline = 0, time.monotonic() + COME_SECONDS
    while cores < (now := spark.sparkContext.defaultParallelism) and time.monotonic() < deadline:
        cores = now
        time.sleep(PAUSE_SECONDS)
    return max(cores, 1)


def frozen_tasks(checkpoint: Checkpoint) -> int | None:
    """Return the checkpoint's number of tasks; None without a batch, or if Spark will report what is wrong with it."""
    try:
        newest = batch_ids(checkpoint)[-1]
        header = (checkpoint / "offsets" / str(newest)).read_bytes().split(b"\n")[1]
        return int(json.loads(header)["conf"][PARTITIONS])
    except (OSError, LookupError, ValueError, TypeError):
        return None


def refuse_other_tasks(settings: Settings, checkpoint: Checkpoint) -> None:
    """Raise SettingsError if the checkpoint was created with another number of tasks than is set."""
    asked, frozen = settings.queries.tasks, frozen_tasks(checkpoint)
    if asked and frozen and asked != frozen:
        raise SettingsError(
            f"queries.tasks = {asked}: the checkpoint {checkpoint} was created with {frozen}, which cannot change; "
            f"set 0 or {frozen}, or rewind (checkpoints/README.md)"
        )


# Under which maxOffsetsPerTrigger each batch was planned. A killed batch runs again with the offsets that were planned
# for it, whatever the limit is by then: whether it was cut depends on the limit of that time.

LIMITS_FILE = "limits.json"

Limits = Sequence[tuple[int, int]]
"""(first batch, limit), in the order of the batches; 0 is no limit."""


def note_limit(checkpoint: Checkpoint, limit: int) -> Limits:
    """Note, before the query starts, the limit of all batches planned from now on.

    Raises OSError or ValueError for a checkpoint that cannot be read or written.
    """
    position = read_position(checkpoint)
    path = checkpoint / LIMITS_FILE
    known = _read_limits(path)
    following = 0 if position is None else position.batch_id + 1
    kept = [entry for entry in known if entry[0] < following]
    limits = kept if kept and kept[-1][1] == limit else [*kept, (following, limit)]
    if limits != known:
        _write_safely(path, json.dumps(limits))
    return limits


def _read_limits(path: Checkpoint) -> list[tuple[int, int]]:
    try:
        return [(int(first), int(of)) for first, of in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError):  # a file that a power cut emptied: limits of earlier batches are unknown
        return []


def limit_of(limits: Limits, batch_id: int) -> int | None:
    """Return the limit that the batch was planned under; None if it was not noted."""
    return next((limit for first, limit in reversed(limits) if first <= batch_id), None)


STATE_FILE = "balancewatch.json"


class StateNote:
    """The state version of a checkpoint, beside it: another version is refused before anything starts.

    A BatchListener: it is saved after the first batch. The first batch itself checks the state that it reads
    (StateError).
    """

    def __init__(self, query: str, checkpoint: Checkpoint) -> None:
        self._query, self._file = query, checkpoint / STATE_FILE
        self._is_noted = False

    def refuse_other(self) -> None:
        """Raise SettingsError if this release cannot read the state."""
        try:
            words = json.loads(self._file.read_text())
            held, release = int(words["state_version"]), str(words["release"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        if held != ShardIndex().version:
            raise SettingsError(
                f"the checkpoint {self._file.parent} has state of version {held}, written by balancewatch {release}; "
                f"this release, {version('balancewatch')}, reads version {ShardIndex().version}. Nothing was changed: "
                "reinstall that release, or rewind (checkpoints/README.md)"
            )

    def on_batch(self, batch: WrittenBatch) -> None:
        if self._is_noted or batch.query != self._query or not self._file.parent.is_dir():
            return
        words = {"state_version": ShardIndex().version, "release": version("balancewatch")}
        try:
            _write_safely(self._file, json.dumps(words))
        except OSError as error:  # the next batch tries again
            log.warning("state version not saved, retrying", checkpoint=str(self._file.parent), reason=error.strerror)
        else:
            self._is_noted = True


# A checkpoint survives a power cut: what a batch starts from is on the disk before its rows are.
# Spark writes the files of a checkpoint without fsync: a power cut can leave the newest ones empty, cut or absent.
# Before rows of batch N are appended, CheckpointSync syncs what N starts from: `offsets/N`, `commits/N-1` and the state
# of version N. At a start `recover` removes damaged files of later steps, so that Spark runs the newest batch with rows
# again; the tables skip these rows. Batches without rows are planned anew. Source: Spark 4.2.1, MicroBatchExecution
# (order of offsets, state, commits) and RocksDBFileManager (names of state files in checkpoint format 1); Hadoop's
# ChecksumFileSystem (`.NAME.crc`).

FURTHEST = 20
"""Batches that a recovery goes back: a disk writes back what is not synced within a minute."""

LZ4_END = b"LZ4Block"
"""Begins the last block of a state change, 21 bytes long."""


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
        folders += (root / "state" / "0").glob("_*/*")  # the operator's descriptions and the schema of its state
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


def recover(checkpoint: Checkpoint, written: int) -> list[Path]:
    """Remove damaged files of the newest batches and return them; none from an intact checkpoint or a bucket.

    `written` is the newest batch with rows in the tables, -1 for none. A checkpoint that was damaged before its first
    batch ended is renamed to NAME.damaged. Raises CheckpointError if the state that `written` started from is damaged.
    """
    if isinstance(checkpoint, StorePath) or not checkpoint.is_dir():
        return []
    known = batch_ids(checkpoint)
    has_id, has_beginning = _read(checkpoint / "metadata") is not None, _has_start(checkpoint, 0)
    descriptions = [*_later(checkpoint / "state" / "0" / "_metadata" / "v2", 0)]
    undescribed = [path for path in descriptions if _read(path) is None]  # Spark writes one at each start
    is_described = not descriptions or len(undescribed) < len(descriptions)
    is_whole = has_id and has_beginning and is_described
    if not is_whole and written < 0 and not any(_later(checkpoint / "commits", 0)):
        damaged = checkpoint.with_name(f"{checkpoint.name}.damaged-{uuid.uuid4().hex[:8]}")
        log.error("checkpoint damaged before its first batch ended, a new one begins", moved_to=str(damaged))
        return [checkpoint.rename(damaged)]
    if has_id and not known:
        return []
    newest = known[-1] if has_id and is_described else -2
    snapshots = [path for partition in _partitions(checkpoint) for path in _damaged_snapshots(partition)]
    for batch_id in range(newest + 1, max(written, newest - FURTHEST, 0) - 1, -1):
        if not _has_start(checkpoint, batch_id):
            continue
        offsets = checkpoint / "offsets" / str(batch_id)
        is_planned = offsets.exists() and _read(offsets) is not None
        if batch_id == written and not is_planned:
            break
        later = [*_later(checkpoint / "offsets", batch_id + is_planned), *_later(checkpoint / "commits", batch_id)]
        # A snapshot of a batch that is planned anew would be taken for the state of the new one.
        for partition in _partitions(checkpoint):
            later += _later(partition, batch_id + is_planned + 1)
        removed = list(dict.fromkeys([*snapshots, *undescribed, *later]))  # a damaged snapshot may be a later one
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
    return all(_has_state(partition, batch_id) for partition in _partitions(checkpoint))


def _has_state(partition: Path, version: int) -> bool:
    """Whether the state of this version is intact: its change, and those before it back to a snapshot or the first."""
    for step in range(version, 0, -1):
        if _is_snapshot(partition / f"{step}.zip"):
            return True
        change = _content(partition / f"{step}.changelog")
        if change is None or change[-21:-13] != LZ4_END:
            return False
    return True


def _damaged_snapshots(partition: Path) -> list[Path]:
    """Return those of the two newest: Spark would load them, and can do without."""
    found = sorted(partition.glob("*.zip"), key=lambda path: int(path.stem))
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


def _later(folder: Path, number: int) -> Iterator[Path]:
    """Yield the files of a log from this batch on, or those of a partition's state from this version on."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.stem.isdigit() and int(path.stem) >= number)
