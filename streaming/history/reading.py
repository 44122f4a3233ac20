"""What may be asked, and for how long: one SELECT, or an EXPLAIN of one, in limited time and memory.

DESCRIBE, SHOW and SUMMARIZE are SELECTs to DuckDB.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from streaming.history.warehouse_error import WarehouseError

MEMORY_LIMIT = "2GB"
MOST_CHARACTERS = 1_000_000

_EXPLAIN = re.compile(r"\s*EXPLAIN(?:\s+ANALYZE)?\s", re.IGNORECASE)


def check_reading(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises WarehouseError for anything that is not a question, and duckdb.Error for what is not SQL."""
    if len(sql) > MOST_CHARACTERS:
        raise WarehouseError(f"the SQL has {len(sql)} characters; {MOST_CHARACTERS} are read at the most")
    statements = cursor.extract_statements(sql)
    if len(statements) == 1 and statements[0].type == duckdb.StatementType.EXPLAIN:
        statements = cursor.extract_statements(_EXPLAIN.sub("", statements[0].query, count=1))
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise WarehouseError("only one SELECT at a time: the tables are read, never written")


@contextmanager
def in_words(seconds: float | None) -> Iterator[None]:
    """DuckDB's errors as WarehouseError; `seconds` are what was allowed."""
    try:
        yield
    except duckdb.InterruptException:
        raise WarehouseError(_too_long(seconds)) from None
    except duckdb.OutOfMemoryException:
        raise WarehouseError(f"the answer needs more than {MEMORY_LIMIT} of memory; ask for less") from None
    except duckdb.Error as error:
        raise WarehouseError(_sentence(error)) from None
    except (pa.ArrowException, OSError) as error:
        raise WarehouseError(_too_long(seconds) if "INTERRUPT" in str(error) else str(error)) from None


def _too_long(seconds: float | None) -> str:
    return "interrupted" if seconds is None else f"no answer within {seconds:g} s; ask for less, or allow more time"


def _sentence(error: duckdb.Error) -> str:
    """DuckDB's own words in one line, without the picture of where in the SQL it is."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())


class Timer:
    """Interrupts what it guards `seconds` after it began to; None never does."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._timer: threading.Timer | None = None

    def guard(self, cursor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """The same cursor; another one before it is guarded no more."""
        self.stop()
        if self.seconds is not None:
            self._timer = threading.Timer(self.seconds, cursor.interrupt)
            self._timer.daemon = True
            self._timer.start()
        return cursor

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
