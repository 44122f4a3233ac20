"""Time limit of a query, and DuckDB's errors as sentences.

DuckDB checks the time between two vectors and counts only the memory of its buffers; SQL of the user has a process
with limits of the kernel (streaming/history/sql_worker.py).
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
    """Raise DuckDB's errors as WarehouseError; `seconds` is the limit."""
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
    """Return DuckDB's message in one line, without the excerpt of the SQL."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())


class Timer:
    """An interrupt of a cursor after `seconds`; None means never."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._timer: threading.Timer | None = None

    def guard(self, cursor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """Return the cursor, guarded from now on in place of the one before."""
        self.stop()
        if self.seconds is not None:
            self._timer = threading.Timer(self.seconds, cursor.interrupt)
            self._timer.daemon = True
            self._timer.start()
        return cursor

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
