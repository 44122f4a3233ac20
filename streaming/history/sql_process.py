"""Start the process that answers SQL of the user, and pass on what it prints; see sql_worker."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import IO, Any, BinaryIO, cast

from conf.location import is_store
from streaming.store.limits import TOO_MUCH
from streaming.terminal.format_option import is_terminal
from streaming.text.output import bytes_out
from streaming.warehouse.warehouse_error import WarehouseError

PROJECT = Path(__file__).parents[2]

CHUNK_BYTES = 1 << 16

PIPE_BYTES = 1 << 20
"""Output that a pager has not read yet; it does not hold up the worker until its deadline."""

_PROGRAM = "from streaming.history.sql_worker import main; main()"


def print_apart(*, seconds: float, out: BinaryIO | None = None, **request: Any) -> str:
    """Write the answer to `out`, by default stdout, and return a note. An error of its `write` ends the worker.

    Raises WarehouseError. See sql_worker.answer for the other arguments.
    """
    command, pipe = [sys.executable, "-P", "-c", _PROGRAM], subprocess.PIPE
    environment = _environment(is_in_bucket=is_store(request["warehouse"]))
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:  # noqa: S603  # our own command line
        try:
            words, code = _talk(process, {**request, "seconds": seconds}, out or bytes_out())
        finally:
            process.kill()
    if code == -signal.SIGALRM:
        raise WarehouseError(f"no answer within {seconds:g} s; select less, or allow more time")
    if code < 0:
        raise WarehouseError(f"{TOO_MUCH} (DuckDB ended by {signal.Signals(-code).name})")
    text = words.decode("utf-8", "replace").strip()
    try:
        reported: dict[str, str] = json.loads(text)
    except ValueError:
        reason = text.rpartition("\n")[2] or "no error message"
        raise WarehouseError(f"DuckDB could not be started: {reason}") from None
    if "error" in reported:
        raise WarehouseError(reported["error"])
    return reported.get("note", "")


def _talk(process: subprocess.Popen[bytes], request: dict[str, Any], out: BinaryIO) -> tuple[bytes, int]:
    """Return the worker's last words and exit code; pass on its output as it comes."""
    asked, printed, words = (cast("IO[bytes]", pipe) for pipe in (process.stdin, process.stdout, process.stderr))
    with suppress(BrokenPipeError):  # a worker that ended at once says why
        asked.write(json.dumps(request).encode() + b"\n")
        asked.flush()
    with suppress(AttributeError, OSError):  # Linux only, and limited for users
        fcntl.fcntl(printed, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    while chunk := os.read(printed.fileno(), CHUNK_BYTES):
        out.write(chunk)
        out.flush()
    said = words.read()
    with suppress(BrokenPipeError):
        asked.close()
    return said, process.wait()


def _environment(*, is_in_bucket: bool) -> dict[str, str]:
    """Return the environment without settings, and without credentials unless the tables are in a bucket."""
    private = ("BALANCEWATCH_",) if is_in_bucket else ("BALANCEWATCH_", "AWS_")
    given = {name: value for name, value in os.environ.items() if not name.upper().startswith(private)}
    # What Rich would find out about the terminal: the worker only has a pipe.
    screen = {"TTY_COMPATIBLE": "1", "COLUMNS": str(get_terminal_size().columns)} if is_terminal() else {}
    return {
        **screen,
        **given,
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # other pools and each of malloc's arenas
        "MALLOC_ARENA_MAX": "2",  # reserve addresses, which are limited
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")])),
    }
