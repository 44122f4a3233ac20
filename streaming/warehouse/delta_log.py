"""One commit of a Delta table: the files with rows that it added, and whether it removed rows.

Compaction rewrites existing rows. Only the log shows that (dataChange false), not the list of files.
"""

import json
import re
from dataclasses import dataclass
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
    """One version. `new_files` are the files with rows that it added: path in the table's folder to statistics, JSON.

    `removes_rows` is true for a delete, an update or an overwrite, whose new files hold the remaining old rows.
    """

    version: int
    at_ms: int
    new_files: dict[str, str]
    removes_rows: bool

    @property
    def appended(self) -> dict[str, str]:
        """Files whose rows were not in the table before."""
        return {} if self.removes_rows else self.new_files


def in_one_line(error: BaseException) -> str:
    """Return the message of delta-rs, DuckDB or the system without hints, tables of rows and Rust frames."""
    return " ".join(re.split(r"\nHelp:|\n +0:|\n *Backtrace|\s*Preview of invalid data:", str(error))[0].split())[:300]


def log_name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def actions_in(content: bytes) -> list[dict[str, Any]]:
    """Return a commit's actions; none of a file that a power cut emptied. Raises ValueError for a damaged one."""
    # Lines of bytes: a text's lines end at U+2028 too, which a name may hold.
    return [json.loads(line) for line in content.splitlines() if line.strip()]


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
    at_ms = to_ms(at)
    new_files: dict[str, str] = {}
    removes_rows = False
    for action in actions_in(content):
        if "add" in action and action["add"]["dataChange"]:
            new_files[unquote(action["add"]["path"])] = action["add"].get("stats") or "{}"
        elif "remove" in action:
            removes_rows |= bool(action["remove"]["dataChange"])
        elif "commitInfo" in action:
            at_ms = action["commitInfo"].get("timestamp", at_ms)
    return Commit(version, at_ms, new_files, removes_rows)


def access_error(table: str, error: Exception) -> TableAccessError:
    """Return an error that names the table at this path, and the damaged commit of its log, if there is one."""
    if isinstance(error, TableAccessError):
        return error
    file = None
    try:
        commits = [found.path for found in list_folder(table, LOG) if found.path.endswith(".json")]
        for commit in commits[-DAMAGE_SEARCHED:]:
            if not _is_intact(read_file(table, commit)[0]):
                file = f"{table}/{commit}"
                break
    except (DeltaError, BaseError, OSError):
        file = None
    return TableAccessError(table.rstrip("/").rpartition("/")[2], file, in_one_line(error))
