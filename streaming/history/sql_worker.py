"""The process that answers one query of `balancewatch sql`, so that any query can be ended.

It reads the arguments of `answer` as a line of JSON from stdin, prints the answer to stdout, and then one JSON object
to stderr: {"note": ...}, {"error": ...} or {}. DuckDB's own output is dropped. At the deadline SIGALRM ends it, and the
end of stdin, which its parent holds open, before.
"""

import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

from streaming.store.limits import MEMORY_BYTES, TOO_MUCH
from streaming.store.store import History
from streaming.terminal.printing import print_answer, print_columns
from streaming.text.result import first_rows
from streaming.warehouse.warehouse_error import FilesGoneError, WarehouseError
from udfs.alerts.prose import count

TRIES = 3
"""Tries to read the tables while compaction deletes their files."""

MOST_CHARACTERS = 4_000


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = _take_stderr()
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        note = answer(**request)
        sys.stdout.flush()
        said = {"note": note} if note else {}
    except MemoryError:
        said = {"error": TOO_MUCH}
    except WarehouseError as error:
        said = {"error": str(error)}
    except Exception as error:  # each failure is one sentence
        said = {"error": f"{type(error).__name__}: {error}"}
    words.write(json.dumps({key: " ".join(text.split())[:MOST_CHARACTERS] for key, text in said.items()}))
    words.flush()
    os._exit(0)  # without waiting for exit handlers of libraries


def answer(*, sql: str, warehouse: str, format_: str, limit: int | None, seconds: float) -> str:
    """Print the rows and return a note. `seconds` begin when the tables are open."""
    history = History(warehouse, is_closed=True)
    limit_memory(MEMORY_BYTES)
    signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process
    for attempt in range(TRIES):
        try:
            found = first_rows(history.stream(sql), limit)
            break
        except FilesGoneError:
            if attempt == TRIES - 1:
                raise
            history = History(warehouse, is_closed=True)
    print_answer(found.rows, format_, print_columns, "No row.")
    return f"only the first {count(limit or 0, 'row')}; --limit 0 prints all" * found.is_cut


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def limit_memory(more_bytes: int) -> None:
    """Limit the address space to `more_bytes` more than now (Linux only), and write no core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = Path("/proc/self/statm")
    if size.exists():
        most = int(size.read_text().split()[0]) * resource.getpagesize() + more_bytes
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _take_stderr() -> TextIO:
    """Return the original stderr; file descriptor 2 writes to nowhere from now on."""
    words = os.fdopen(os.dup(2), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return words
