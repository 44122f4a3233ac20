"""How long a question may take, and what is said when it cannot be answered.

DuckDB looks at the time between two vectors and counts the memory of its own buffers; for SQL that is not ours see
confinement.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from streaming.store.limits import too_long, too_much
from streaming.warehouse.warehouse_error import WarehouseError


@contextmanager
def in_words(seconds: float | None) -> Iterator[None]:
    """DuckDB's errors as WarehouseError; `seconds` are what was allowed."""
    try:
        yield
    except duckdb.InterruptException:
        raise WarehouseError(too_long(seconds)) from None
    except duckdb.OutOfMemoryException:
        raise WarehouseError(too_much()) from None
    except duckdb.Error as error:
        raise WarehouseError(_sentence(error)) from None
    except (pa.ArrowException, OSError) as error:
        raise WarehouseError(too_long(seconds) if "INTERRUPT" in str(error) else str(error)) from None


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
