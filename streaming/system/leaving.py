"""Exit of a process: without the interpreter's teardown, or without output of libraries during it.

At teardown DuckDB's binding lists on stderr, in dozens of lines, its objects that a daemon thread or an error's frame
still holds. They would hide the sentence that matters above them.
"""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Exit without teardown: under load Arrow's native threads sometimes abort then and turn a 0 into SIGABRT."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def end_quietly() -> None:
    """Drop what libraries write to stderr at a normal exit. An error's traceback is printed before."""
    atexit.unregister(_hush)
    atexit.register(_hush)


def _hush() -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
