"""Somebody's own SQL, answered by a process of its own, which is started here: see sql_worker."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, cast

from conf.location import is_store
from schemas.tables import TABLES
from streaming.history.query_options import is_terminal
from streaming.history.sql_request import FILES_GONE, Request
from streaming.store.limits import too_long, too_much
from streaming.text.output import bytes_out
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError

LOOKS = 3
"""How often the tables are looked at when a compaction takes their files away meanwhile."""

CHUNK_BYTES = 1 << 16

PIPE_BYTES = 1 << 20
"""What is printed and not read yet: a table that somebody looks at in a pager is over before its time is."""

_PROGRAM = """
from streaming.store.light_arrow import load_arrow
load_arrow()
from streaming.history.sql_worker import main
main()
"""

_PASSED_ON = (
    *("HOME", "LANG", "LANGUAGE", "LC_", "LD_LIBRARY_PATH", "PATH", "PYTHON", "TZ"),
    *("COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM", "TTY_"),
)
"""How names of variables begin that tell where Python is and how to print; no secret of ours is among them."""


def print_apart(request: Request) -> str:
    """Print the answer to stdout; what there is to note about it. Raises WarehouseError.

    However this ends, so does the process.
    """
    for _ in range(LOOKS):
        options = _with_copies(request) if is_store(request.warehouse) else request
        with _worker() as process:
            words, code = _talk(process, options)
        if code != FILES_GONE:
            break
    if code == FILES_GONE:
        raise WarehouseError("files of the tables were deleted or replaced while the query read them; run it again")
    if code == -signal.SIGALRM:
        raise WarehouseError(too_long(request.seconds))
    if code < 0:
        raise WarehouseError(f"{too_much()} (DuckDB ended by {signal.Signals(-code).name})")
    said = _read_words(words)
    if "error" in said:
        raise WarehouseError(said["error"])
    return said.get("note", "")


def _with_copies(request: Request) -> Request:
    """What the store has is fetched here: whoever computes the answer has neither its credentials nor a network."""
    from streaming.store.table_files import TableFiles, UnreadableTableError  # noqa: PLC0415  # deltalake: a store's alone
    from streaming.warehouse.copies_folder import copies_folder  # noqa: PLC0415  # the same

    tables = {name: TableFiles(request.warehouse, table) for name, table in TABLES.items()}
    try:
        for table in tables.values():
            table.look()
    except UnreadableTableError as error:
        raise WarehouseError(str(error)) from None
    there = {name: table.paths() for name, table in tables.items() if table.version is not None}
    if not there:
        raise NotWrittenError(request.warehouse)
    return replace(request, warehouse=str(copies_folder(request.warehouse)), files=there)


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes]]:
    command, pipe = [sys.executable, "-P", "-c", _PROGRAM, str(os.getpid())], subprocess.PIPE
    with subprocess.Popen(  # noqa: S603  # our own command line
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _talk(process: subprocess.Popen[bytes], request: Request) -> tuple[bytes, int]:
    """Its last words and its exit code; what it prints, which is harmless to show, is passed on as it comes."""
    reported, printed, words = (cast("IO[bytes]", one) for one in (process.stdin, process.stdout, process.stderr))
    with suppress(BrokenPipeError):  # where it ended at once its words say why
        reported.write(json.dumps(asdict(request)).encode())
        reported.close()
    _pass_on(printed)
    return words.read(), process.wait()


def _pass_on(printed: IO[bytes]) -> None:
    with suppress(AttributeError, OSError):  # Linux alone has it, and may allow less
        fcntl.fcntl(printed, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    out = bytes_out()
    while chunk := os.read(printed.fileno(), CHUNK_BYTES):
        out.write(chunk)
        out.flush()


def _read_words(words: bytes) -> dict[str, str]:
    text = words.decode("utf-8", "replace").strip()
    try:
        said: dict[str, str] = json.loads(text)
    except ValueError:
        return {"error": f"DuckDB could not be started: {text.rpartition(chr(10))[2] or 'no error message'}"}
    return said


def _environment() -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    project = str(Path(__file__).parents[2])
    return {
        **_screen(),
        **given,
        "MALLOC_ARENA_MAX": "2",  # each arena reserves addresses, which are what is limited
        "PYTHONPATH": os.pathsep.join(filter(None, [project, os.environ.get("PYTHONPATH", "")])),
    }


def _screen() -> dict[str, str]:
    """What Rich would see of the terminal, where there is one: the worker has a pipe."""
    if not is_terminal():
        return {}
    found = {"TTY_COMPATIBLE": "1"}
    for descriptor in range(3):
        with suppress(OSError):
            return {**found, "COLUMNS": str(os.get_terminal_size(descriptor).columns)}
    return found
