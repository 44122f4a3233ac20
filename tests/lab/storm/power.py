"""What a disk may lose when the power fails, or when it lies: files that were not synced, and the newest commit.

Processes record each fsync (`hook/sitecustomize.py`). A file is on the disk if its content was synced after its last
write and its folder after its name was made; every other file that is younger than the kernel's write-back may be
empty, cut, full of zeros, gone, or intact. Files that were deleted do not come back.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

WRITE_BACK_SECONDS = 35.0
"""Linux writes dirty pages back after 30 s, and looks for them every 5 s."""

KEPT_SHARE = 0.3
"""Of the files that were not synced, those that were on the disk all the same."""


def cut_power(roots: list[Path], synced_log: Path, rng: random.Random) -> list[str]:
    """Damage what was not on the disk; return what happened to which file. All writers have ended."""
    contents, names = _read_synced(synced_log)
    oldest_ns = time.time_ns() - int(WRITE_BACK_SECONDS * 1e9)
    damaged = []
    for path in (path for root in roots for path in _files(root)):
        status = path.stat()
        if max(status.st_mtime_ns, status.st_ctime_ns) < oldest_ns:
            continue
        has_content = contents.get(status.st_ino) == (status.st_size, status.st_mtime_ns)
        has_name = names.get(path.parent.stat().st_ino, 0) >= status.st_ctime_ns
        if (has_content and has_name) or rng.random() < KEPT_SHARE:
            continue
        fate = "gone" if has_content else rng.choice(("empty", "cut", "zeros", "gone"))
        _damage(path, status.st_size, fate)
        damaged.append(f"{fate} {path}")
    return damaged


def empty_commit(warehouse: Path, rng: random.Random) -> str | None:
    """Empty the newest commit of a table; return its path, None without a table.

    Rows of `alerts` that a query has appended and synced are spared: no program survives a disk that loses them. A
    compaction of `alerts` is not.
    """
    logs = sorted(warehouse.glob("*/_delta_log"))
    rng.shuffle(logs)
    for log in logs:
        commits = sorted(path for path in log.glob("*.json") if int(path.stem) > 0)
        if commits and (log.parent.name != "alerts" or '"OPTIMIZE"' in commits[-1].read_text()):
            commits[-1].write_bytes(b"")
            return str(commits[-1])
    return None


def _read_synced(log: Path) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Return the newest synced content by inode, and when each folder was synced."""
    contents: dict[int, tuple[int, int]] = {}
    names: dict[int, int] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        kind, inode, size, written_ns, synced_ns = line.split()
        if kind == "d":
            names[int(inode)] = int(synced_ns)
        else:
            contents[int(inode)] = int(size), int(written_ns)
    return contents, names


def _files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            yield Path(folder) / name


def _damage(path: Path, size: int, fate: str) -> None:
    match fate:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            os.truncate(path, size // 2)
        case "zeros":
            path.write_bytes(b"\0" * size)
