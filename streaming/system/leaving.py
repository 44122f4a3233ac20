"""How a process leaves: without the interpreter's teardown, or with one in which no library has the last word.

DuckDB's binding lists on stderr, in dozens of lines, what of it is still held when the interpreter is taken down: by a
thread that nobody waits for, or by a frame of an error. The sentence that matters stands above them, and is lost.
"""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Now, with nothing taken down: under load Arrow's native threads abort then now and then, long after everything
    has been printed, and would turn a 0 into a SIGABRT.
    """
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def end_quietly() -> None:
    """Of a process that others lead, and that leaves in Python's own way: what its libraries write to stderr at the
    very end goes nowhere. An error's traceback is printed before.
    """
    atexit.unregister(_hush)
    atexit.register(_hush)


def _hush() -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
