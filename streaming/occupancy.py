"""One `run`, one relay and one demo at a time: the kernel's lock on a file beside the tables, on one beside the
checkpoints, and on one in a demo's folder.

The kernel lets go of a lock when the process is gone, however it died, so nothing is ever left to clear away. It holds
on one host, and on NFS where its server keeps locks; elsewhere two hosts cannot see each other (README, "Running it").
Beside tables in an object store it is a lease.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import structlog

from conf.location import Location, is_store
from conf.settings import Settings
from streaming.private_folder import make_checkpoints, make_private

log = structlog.get_logger()

Part = Literal["run", "relay", "demo"]

HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
MOST_BYTES = 1_000
NOTE_SECONDS = 0.2
"""A holder notes who it is just after it has the lock."""

ADVICE: Mapping[Part, str] = {
    "run": "end it first, or name other folders",
    "relay": "one tells people, or they hear everything twice: end it first, or set oncall.enabled = false for `run`",
    "demo": "end it first, or name another folder",
}


class OccupiedError(RuntimeError):
    """Somebody else does this with the same folder. The message says who, where, and what to do."""


def work_folders(settings: Settings) -> dict[str, Location]:
    """Those that one works in alone, made as private as they may be; who reads a bucket its owner says."""
    warehouse = settings.paths.warehouse
    return {
        "paths.warehouse": str(warehouse)
        if is_store(warehouse)
        else make_private(Path(warehouse).expanduser().resolve()),
        "paths.checkpoints": make_checkpoints(settings),
    }


@contextlib.contextmanager
def occupying(part: Part, command: str, folders: Mapping[str, Location]) -> Iterator[None]:
    """Be the only `part` that works with these folders, by the setting that names each; `command` is what others read.

    Raises OccupiedError. A folder whose file system has no locks is worked with all the same, with a warning.
    """
    with contextlib.ExitStack() as held:
        seen: set[Location] = set()
        for key, folder in folders.items():
            place = str(folder) if is_store(folder) else Path(folder).expanduser().resolve()
            if place not in seen:
                seen.add(place)
                held.enter_context(
                    _lease(part, command, key, place) if isinstance(place, str) else _lock(part, command, key, place)
                )
        yield


@contextlib.contextmanager
def _lease(part: Part, command: str, key: str, address: str) -> Iterator[None]:
    """Where another takes it, for this process was suspended or cut off for long, the process is asked to end."""
    from streaming.warehouse.lease import Lease, LeaseHeldError  # noqa: PLC0415  # a folder needs no store's client

    lost: list[str] = []

    def lose(holder: str) -> None:
        lost.append(holder)
        log.error("another has taken over meanwhile: this ends", key=key, holder=holder)
        os.kill(os.getpid(), signal.SIGTERM)

    lease = Lease(address, f"{part}.lock", command, lose)
    try:
        lease.take()
    except LeaseHeldError as holder:
        raise OccupiedError(f"{key} = {address!r}: {holder} is at it; {ADVICE[part]}") from None
    try:
        yield
    finally:
        lease.release()
    if lost:
        raise OccupiedError(f"{key} = {address!r}: {lost[0]} is at it, who took over while this was cut off")


@contextlib.contextmanager
def _lock(part: Part, command: str, key: str, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_File(folder / f"{part}.lock")) as file:
        try:
            fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:
                raise OccupiedError(f"{key} = {str(folder)!r}: {file.holder()} is at it; {ADVICE[part]}") from None
            log.warning("no lock can be had here; see to it that nobody else works here", folder=str(folder), part=part)
        else:
            file.note(command)
        yield


class _File:
    """An open lock file. One that another user made may only be read, which is enough for a lock."""

    def __init__(self, path: Path) -> None:
        try:
            self.number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError:
            self.number = os.open(path, os.O_RDONLY)

    def note(self, command: str) -> None:
        """Say who has it; who cannot, has it all the same."""
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        words = {"command": command, "pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with contextlib.suppress(OSError):
            os.ftruncate(self.number, 0)
            os.pwrite(self.number, json.dumps(words).encode(), 0)

    def holder(self) -> str:
        """Who has noted to have it."""
        until = time.monotonic() + NOTE_SECONDS
        while True:
            try:
                words = json.loads(os.pread(self.number, MOST_BYTES, 0))
                return (
                    f"`balancewatch {words['command']}` (pid {words['pid']} on {words['host']}, since {words['since']})"
                )
            except (OSError, ValueError, KeyError, TypeError):
                if time.monotonic() > until:
                    return "another process"
                time.sleep(NOTE_SECONDS / 10)

    def close(self) -> None:
        os.close(self.number)
