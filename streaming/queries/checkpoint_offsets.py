"""How far a query has read, as its checkpoint says; and a partition put back to where Kafka now begins.

`offsets/N` is what batch N reads up to, written before it runs; `commits/N` says that it was done; `sources/0/0` holds
where the first batch began. Text, one JSON object a source from the third line on (Spark's OffsetSeqLog, version 1).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Offsets = dict[tuple[str, int], int]
"""(topic, partition) to the next offset to be read."""

HEADER_LINES = 2


@dataclass(frozen=True)
class Position:
    """`wanted` is where the next batch begins to read. `planned` is as far as one was told to that did not end.

    `batch_id` is the newest batch begun; where it ended, `planned` equals `wanted`. `checkpoint_id` is the query's id.
    """

    checkpoint_id: str
    batch_id: int
    is_committed: bool
    wanted: Offsets
    planned: Offsets


def read_position(checkpoint: Path) -> Position | None:
    """None for a checkpoint in which no batch has begun. Raises OSError or ValueError for one that cannot be read."""
    batch_ids = _batch_ids(checkpoint)
    if not batch_ids:
        return None
    newest = batch_ids[-1]
    planned = _offsets_in((checkpoint / "offsets" / str(newest)).read_bytes(), HEADER_LINES)
    is_committed = (checkpoint / "commits" / str(newest)).is_file()
    wanted = planned if is_committed else _before(checkpoint, newest)
    metadata: dict[str, Any] = json.loads((checkpoint / "metadata").read_text())
    return Position(metadata["id"], newest, is_committed, wanted, planned)


def read_header(checkpoint: Path) -> bytes | None:
    """What Spark noted of the newest batch begun beside its offsets, a JSON object; None where none has.

    Raises OSError or ValueError for a checkpoint that cannot be read.
    """
    batch_ids = _batch_ids(checkpoint)
    if not batch_ids:
        return None
    _, _, rest = (checkpoint / "offsets" / str(batch_ids[-1])).read_bytes().partition(b"\n")
    if not rest:
        raise ValueError(f"{checkpoint}: batch {batch_ids[-1]} has no header")
    return rest.partition(b"\n")[0]


def read_beginning(checkpoint: Path) -> Offsets:
    """Where the first batch began. Raises OSError or ValueError for a checkpoint that cannot be read."""
    return _offsets_in((checkpoint / "sources" / "0" / "0").read_bytes().lstrip(b"\0"), 1)


def read_batch(checkpoint: Path, batch_id: int) -> dict[tuple[str, int], int]:
    """How many offsets of each partition a batch was told to read, some of which may hold no message.

    Raises OSError or ValueError for a checkpoint that cannot be read.
    """
    until = _offsets_in((checkpoint / "offsets" / str(batch_id)).read_bytes(), HEADER_LINES)
    since = _before(checkpoint, batch_id)
    return {place: offset - since.get(place, 0) for place, offset in until.items()}


def put_back(checkpoint: Path, beginnings: Mapping[tuple[str, int], int]) -> None:
    """Let the next batch read these partitions from the offsets given; the others go on as they were.

    For partitions that were made again: Spark itself would go on at their end, and skip what they hold. Call it
    while the query is not running.
    """
    for batch_id in _batch_ids(checkpoint)[-2:]:
        path = checkpoint / "offsets" / str(batch_id)
        lines = path.read_text().split("\n")
        for number in range(HEADER_LINES, len(lines)):
            lines[number] = _line_with(lines[number], beginnings)
        # Its checksum goes first: Hadoop reads a file without one, and refuses one that differs.
        path.with_name(f".{batch_id}.crc").unlink(missing_ok=True)
        new = path.with_name(f".{batch_id}.new")
        new.write_text("\n".join(lines))
        new.replace(path)


def _batch_ids(checkpoint: Path) -> list[int]:
    folder = checkpoint / "offsets"
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def _before(checkpoint: Path, batch_id: int) -> Offsets:
    """Where batch `batch_id` begins."""
    path = checkpoint / "offsets" / str(batch_id - 1)
    if path.is_file():
        return _offsets_in(path.read_bytes(), HEADER_LINES)
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
