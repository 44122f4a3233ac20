"""Start the process that answers SQL of the user, and pass on what it prints; see sql_worker."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from conf.location import is_store
from streaming.history.query_options import is_terminal
from streaming.store.limits import too_long, too_much
from streaming.text.output import bytes_out
from streaming.warehouse.warehouse_error import WarehouseError

CHUNK_BYTES = 1 << 16

PIPE_BYTES = 1 << 20
"""Output that a pager has not read yet; it does not hold up the worker until its deadline."""

_PROGRAM = """
from streaming.store.light_arrow import load_arrow
load_arrow("pyarrow.dataset")
from streaming.history.sql_worker import main
main()
"""


def print_apart(*, seconds: float, **request: Any) -> str:
    """Print the answer to stdout and return a note. Raises WarehouseError. See sql_worker.answer for the arguments."""
    with _worker(is_in_bucket=is_store(request["warehouse"])) as process:
        words, code = _talk(process, {**request, "seconds": seconds})
    if code == -signal.SIGALRM:
        raise WarehouseError(too_long(seconds))
    if code < 0:
        raise WarehouseError(f"{too_much()} (DuckDB ended by {signal.Signals(-code).name})")
    said = _read_words(words)
    if "error" in said:
        raise WarehouseError(said["error"])
    return said.get("note", "")


@contextmanager
def _worker(*, is_in_bucket: bool) -> Iterator[subprocess.Popen[bytes]]:
    command, pipe = [sys.executable, "-P", "-c", _PROGRAM, str(os.getpid())], subprocess.PIPE
    with subprocess.Popen(  # noqa: S603  # our own command line
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(is_in_bucket)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _talk(process: subprocess.Popen[bytes], request: dict[str, Any]) -> tuple[bytes, int]:
    """Return the worker's last words and exit code; pass on its output as it comes."""
    asked, printed, words = (cast("IO[bytes]", pipe) for pipe in (process.stdin, process.stdout, process.stderr))
    with suppress(BrokenPipeError):  # a worker that ended at once says why
        asked.write(json.dumps(request).encode())
        asked.close()
    with suppress(AttributeError, OSError):  # Linux only, and limited for users
        fcntl.fcntl(printed, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    out = bytes_out()
    while chunk := os.read(printed.fileno(), CHUNK_BYTES):
        out.write(chunk)
        out.flush()
    return words.read(), process.wait()


def _read_words(words: bytes) -> dict[str, str]:
    text = words.decode("utf-8", "replace").strip()
    try:
        said: dict[str, str] = json.loads(text)
    except ValueError:
        return {"error": f"DuckDB could not be started: {text.rpartition(chr(10))[2] or 'no error message'}"}
    return said


def _environment(is_in_bucket: bool) -> dict[str, str]:
    """Return the environment without settings, and without credentials unless the tables are in a bucket."""
    private = ("BALANCEWATCH_",) if is_in_bucket else ("BALANCEWATCH_", "AWS_")
    given = {name: value for name, value in os.environ.items() if not name.upper().startswith(private)}
    project = str(Path(__file__).parents[2])
    return {
        **_screen(),
        **given,
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # other pools and each of malloc's arenas
        "MALLOC_ARENA_MAX": "2",  # reserve addresses, which are limited
        "PYTHONPATH": os.pathsep.join(filter(None, [project, os.environ.get("PYTHONPATH", "")])),
    }


def _screen() -> dict[str, str]:
    """Return what Rich would find out about the terminal; the worker only has a pipe."""
    if not is_terminal():
        return {}
    found = {"TTY_COMPATIBLE": "1"}
    for descriptor in range(3):
        with suppress(OSError):
            return {**found, "COLUMNS": str(os.get_terminal_size(descriptor).columns)}
    return found
