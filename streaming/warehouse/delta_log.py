"""The log of a Delta table: which files with rows a commit added, and commits that a power cut damaged.

Compaction rewrites existing rows. Only the log shows that (dataChange false), not the list of files.

What balancewatch commits is synced to the disk before the next step; a commit by delta-rs (retention) just after, one
by another writer perhaps never. A power cut can leave its file or its data file empty or truncated. A damaged newest
commit is renamed to `NAME.damaged`: the table is then as it was before, and an append takes the version. A damaged
commit below an intact one stays, because a log must have no gap.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError

from conf.location import Location
from streaming.text.times import to_ms
from streaming.warehouse.table_store import list_folder, read_file
from streaming.warehouse.warehouse_error import TableAccessError

LOG = "_delta_log"

DAMAGE_SEARCHED = 200
"""Newest commits of a log that are searched for a damaged one."""


@dataclass(frozen=True)
class Commit:
    """One version: its files, by their path in the table's folder.

    `appended` are those whose rows were not in the table before, with their statistics, JSON. A delete, an update or an
    overwrite has none: its new files hold the remaining old rows.
    """

    at_ms: int
    added: tuple[str, ...]
    appended: dict[str, str]


def in_one_line(error: BaseException) -> str:
    """Return the message of delta-rs, DuckDB or the system without hints, tables of rows and Rust frames."""
    return " ".join(re.split(r"\nHelp:|\n +0:|\n *Backtrace|\s*Preview of invalid data:", str(error))[0].split())[:300]


def log_name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def actions_in(content: bytes) -> list[dict[str, Any]]:
    """Return a commit's actions; none of a file that a power cut emptied. Raises ValueError for a damaged one."""
    # Lines of bytes: a text's lines end at U+2028 too, which a name may hold.
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def read_actions(table: Location, version: int) -> list[dict[str, Any]]:
    """Raises FileNotFoundError for a version that the log does not have: a future one, or one that was cleaned up."""
    return actions_in(read_file(table, log_name(version))[0])


def _is_intact(content: bytes) -> bool:
    """Whether the content of a commit has actions, each of them JSON."""
    try:
        return bool(actions_in(content))
    except ValueError:
        return False


def read_commit(table: Location, version: int) -> Commit | None:
    """Return None for a version that the log does not have: a future one, or one that was cleaned up."""
    try:
        content, at = read_file(table, log_name(version))
    except FileNotFoundError:
        return None
    actions = actions_in(content)
    stated_ms = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    removes_rows = any(action["remove"]["dataChange"] for action in actions if "remove" in action)
    adds = {unquote(action["add"]["path"]): action["add"] for action in actions if "add" in action}
    new = {} if removes_rows else {path: add for path, add in adds.items() if add["dataChange"]}
    appended = {path: add.get("stats") or "{}" for path, add in new.items()}
    return Commit(next(filter(None, stated_ms), to_ms(at)), tuple(adds), appended)


def access_error(table: str, error: Exception) -> TableAccessError:
    """Return an error that names the table at this path, and the damaged commit of its log, if there is one."""
    if isinstance(error, TableAccessError):
        return error
    file = None
    with suppress(DeltaError, BaseError, OSError):
        commits = [found.path for found in list_folder(table, LOG) if found.path.endswith(".json")][-DAMAGE_SEARCHED:]
        damaged = (commit for commit in commits if not _is_intact(read_file(table, commit)[0]))
        file = next((f"{table}/{commit}" for commit in damaged), None)
    return TableAccessError(table.rstrip("/").rpartition("/")[2], file, in_one_line(error))


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
    log = os.open(table / LOG, os.O_RDONLY)
    try:
        fcntl.flock(log, fcntl.LOCK_EX)
        for commit, is_intact in _checked(table):
            if is_intact:
                return
            commit.rename(commit.with_name(commit.name + DAMAGED))
    finally:
        os.close(log)


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
