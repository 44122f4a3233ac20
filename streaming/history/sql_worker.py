"""The process that answers one question in somebody's own SQL, and can be ended whatever it does.

Its one argument is the process that started it. It reads a Request as JSON from stdin, prints the answer to stdout, and
then one JSON object to stderr: {"note": ...}, {"error": ...} or {}. What DuckDB prints by itself goes nowhere. SIGALRM
ends it at the deadline.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from streaming.history.confinement import end_after, end_with_parent, hold_files, hold_memory
from streaming.history.sql_request import FILES_GONE, Request
from streaming.store.limits import MEMORY_BYTES, too_much
from streaming.store.store import History
from streaming.terminal.printing import print_answer, print_columns
from streaming.text.result import first_rows
from streaming.warehouse.warehouse_error import FilesGoneError, WarehouseError
from udfs.alerts.prose import count

MOST_CHARACTERS = 4_000
DEEPEST = 10_000
"""Levels of SQL in SQL, of which each takes several."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(int(sys.argv[1]))
    words = _take_stderr()
    request = Request(**json.load(sys.stdin))
    said = _said(request)
    words.write(json.dumps({key: " ".join(text.split())[:MOST_CHARACTERS] for key, text in said.items()}))
    words.flush()
    os._exit(0)  # nothing of what a library does at its end is waited for


def _take_stderr() -> TextIO:
    """What was stderr; what a library writes there from now on is lost."""
    words = os.fdopen(os.dup(2), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return words


def _said(request: Request) -> Mapping[str, str]:
    try:
        note = _answer(request)
        sys.stdout.flush()
    except MemoryError:
        return {"error": too_much()}
    except WarehouseError as error:
        return {"error": str(error)}
    except Exception as error:  # whatever it is, it is told in one sentence
        return {"error": f"{type(error).__name__}: {error}"}
    return {"note": note} if note else {}


def _answer(request: Request) -> str:
    """Print it; what there is to note."""
    sys.setrecursionlimit(DEEPEST)
    try:
        history = History(Path(request.warehouse), seal=hold_files, given=request.files)
        hold_memory(MEMORY_BYTES)
        end_after(request.seconds)
        found = first_rows(history.stream(request.sql), request.limit)
    except FilesGoneError:
        os._exit(FILES_GONE)
    print_answer(found.rows, request.format, print_columns, "No row.")
    return f"only the first {count(request.limit or 0, 'row')}; --limit 0 prints all" * found.is_cut
