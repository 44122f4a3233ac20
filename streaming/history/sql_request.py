"""What the process that answers somebody's own SQL is given, and how it ends: see sql_worker."""

from dataclasses import dataclass

FILES_GONE = 75
"""Its exit code where the tables' files were others before it could read them, and nothing is printed."""


@dataclass(frozen=True)
class Request:
    """See asked.Asked; `seconds` are from when the tables are open."""

    sql: str
    warehouse: str
    format: str
    limit: int | None
    seconds: float
