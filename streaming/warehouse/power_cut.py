"""Commits of a table in a folder that a power cut damaged: found, and set aside if they are the newest.

Rows that balancewatch appends are synced to the disk before the next step. Commits by delta-rs (compaction, retention)
and by other writers are not: a power cut can leave their file or their data file empty or truncated. A damaged newest
commit is renamed to `NAME.damaged`: the table is then as it was before, and an append takes the version. A damaged
commit below an intact one stays, because a log must have no gap.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from streaming.warehouse.delta_log import LOG, actions_in

CHECKED = 20
"""Newest commits that are checked: a disk writes back what is not synced within a minute."""

DAMAGED = ".damaged"


@dataclass(frozen=True)
class Damage:
    """A damaged commit by its file in the table's log, written at `written_ms`, in epoch ms.

    `is_set_aside`: the table is read without it.
    """

    file: str
    written_ms: int
    is_set_aside: bool


def find_damage(table: Path) -> list[Damage]:
    """Return the damaged commits among the newest, and those that were set aside and not yet cleaned up."""
    aside = sorted((table / LOG).glob(f"*{DAMAGED}"))
    damaged = [commit for commit, is_intact in _checked(table) if not is_intact]
    return [
        Damage(path.name.removesuffix(DAMAGED), int(path.stat().st_mtime * 1000), path.name.endswith(DAMAGED))
        for path in [*aside, *damaged]
    ]


def set_aside_damaged(table: Path) -> None:
    """Set the damaged commits aside that are the newest of the log. Processes that open the table do so in turn."""
    if not (table / LOG).is_dir():
        return
    with _locked(table / LOG):
        for commit, is_intact in _checked(table):
            if is_intact:
                return
            commit.rename(commit.with_name(commit.name + DAMAGED))


def _checked(table: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the newest commits, the newest first, and whether each is intact.

    An intact commit has actions, each a JSON object, and its data files have the size that it names, unless a newer
    commit removed them. A log's first commit makes the table and is not checked.
    """
    names = (entry.name for entry in os.scandir(table / LOG))
    commits = sorted((name for name in names if len(name) == 25 and name.endswith(".json")), reverse=True)
    removed: set[str] = set()
    for commit in (table / LOG / name for name in commits[:CHECKED] if int(name[:20]) > 0):
        try:
            actions = actions_in(commit.read_bytes())
            removed |= {action["remove"]["path"] for action in actions if "remove" in action}
            adds = [action["add"] for action in actions if "add" in action and action["add"]["path"] not in removed]
            yield commit, bool(actions) and all(_size(table / unquote(add["path"])) == add["size"] for add in adds)
        except FileNotFoundError:
            continue  # cleaned up meanwhile
        except (ValueError, TypeError, KeyError):
            yield commit, False


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
