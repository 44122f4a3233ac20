"""What the process that answers somebody's own SQL is given, and how it ends: see sql_worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FILES_GONE = 75
"""Its exit code where the tables' files were others before it could read them, and nothing is printed."""


@dataclass(frozen=True)
class Request:
    """See query_options.QueryOptions; `seconds` are from when the tables are open.

    `files` are those of each table, where the process may not look for them: copies of what a store has.
    """

    sql: str
    warehouse: str
    format: str
    limit: int | None
    seconds: float
    files: Mapping[str, Sequence[str]] | None = None
