"""Exclusive use of tables, checkpoints and demo folders by one `run`, one relay and one demo.

A folder has a file lock, which the kernel releases when its process ends. A bucket has an object that the holder
rewrites; every write is conditional on the one before, so one of two concurrent processes gets it. Clocks of machines
are not compared. After a crash there is nothing to clean up. A holder that lost its lock gets SIGTERM.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import obstore
import structlog
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from conf.location import Location, is_store
from conf.settings import Settings
from streaming.system.known_error import BalancewatchError
from streaming.system.private_folder import make_checkpoints, make_private
from streaming.text.times import iso, wall_ms
from streaming.warehouse.table_store import StoreUnreachableError, store_of, why_not

log = structlog.get_logger()

Part = Literal["run", "relay", "demo"]
Words = dict[str, Any]
"""A holder's record in its lock."""

RENEW_SECONDS = 5.0
LEASE_SECONDS = 30.0
"""Time without a rewrite after which another machine takes over a bucket's lock."""

LOOK_SECONDS = 0.5
PATIENCE = timedelta(seconds=10)

_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_REFUSED = (AlreadyExistsError, PreconditionError, FileNotFoundError)

ADVICE: Mapping[Part, str] = {
    "run": "stop it first, or use other folders",
    "relay": "only one process may send notifications: stop it first, or set oncall.enabled = false for `run`",
    "demo": "stop it first, or use another folder",
}


class OccupiedError(BalancewatchError):
    """Another process uses the folder. The message names it and says what to do."""


def work_folders(settings: Settings) -> dict[str, Location]:
    """Return the folders for exclusive use, created with private permissions; buckets are left as they are."""
    warehouse = settings.paths.warehouse
    return {
        "paths.warehouse": str(warehouse)
        if is_store(warehouse)
        else make_private(Path(warehouse).expanduser().resolve()),
        "paths.checkpoints": make_checkpoints(settings),
    }


@contextlib.contextmanager
def occupying(parts: Part | tuple[Part, ...], command: str, folders: Mapping[str, Location]) -> Iterator[None]:
    """Hold these folders, by setting, as each of `parts`, or none; other processes see `command`.

    Raises OccupiedError for the first one that another process holds, StoreUnreachableError. They are taken in order,
    so one of two concurrent processes gets all. All locks in buckets are read first, so those of a dead process expire
    together.
    """
    keys: dict[tuple[Part, str], str] = {}
    for part in parts if isinstance(parts, tuple) else (parts,):
        for key, folder in folders.items():
            keys.setdefault((part, str(folder if is_store(folder) else Path(folder).expanduser().resolve())), key)
    locks = {
        place: BucketLock(place[1], f"{place[0]}.lock", command)
        if is_store(place[1])
        else FileLock(Path(place[1]) / f"{place[0]}.lock", command)
        for place in keys
    }
    with contextlib.ExitStack() as held:
        for lock in locks.values():
            held.callback(lock.release)
        looks = [(place, lock.look) for place, lock in locks.items()]
        takes = [(place, lock.take) for place, lock in locks.items()]
        try:
            for (part, place), act in looks + takes:  # noqa: B007  # a refusal names them
                act()
        except HeldError as holder:
            raise OccupiedError(f"{keys[part, place]} = {place!r}: in use by {holder}; {ADVICE[part]}") from None
        except BaseError as error:
            raise StoreUnreachableError(why_not(place, f"{type(error).__name__} {error}", keys[part, place])) from None
        yield
    for (part, place), lock in locks.items():
        if lock.lost_to:
            raise OccupiedError(f"{keys[part, place]} = {place!r}: in use by {lock.lost_to}, which has taken over")


class HeldError(Exception):
    """A live process holds the lock; the message names it."""


class _Lock:
    """A thread checks every RENEW_SECONDS that the lock is still held; `lost_to` is then who holds it instead."""

    def __init__(self, name: str, command: str, on_lost: Callable[[], None] | None = None) -> None:
        self.lost_to = ""
        self._name, self._words = name, _own_words(command)
        self._on_lost = on_lost or (lambda: os.kill(os.getpid(), signal.SIGTERM))
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lock-{name}", daemon=True)

    def _keep(self) -> None:
        while not self._end.wait(RENEW_SECONDS):
            try:
                self._renew()
            except HeldError as holder:
                self.lost_to = str(holder)
                log.error("lock lost, stopping", name=self._name, holder=self.lost_to)
                self._on_lost()
                return
            except (BaseError, OSError) as error:
                log.warning("lock not renewed", name=self._name, reason=type(error).__name__)

    def _renew(self) -> None:
        """Raises HeldError if another process has the lock."""
        raise NotImplementedError

    def _stop(self) -> bool:
        """End the thread; return whether the lock is still held."""
        if not self._thread.ident:
            return False
        self._end.set()
        self._thread.join(2 * PATIENCE.total_seconds())
        return not self.lost_to


class FileLock(_Lock):
    """The kernel's lock on a file. A deleted file is written and locked again."""

    def __init__(self, path: Path, command: str, on_lost: Callable[[], None] | None = None) -> None:
        super().__init__(path.name, command, on_lost)
        self._path, self._descriptor = path, -1

    def look(self) -> None:
        """Lock the file. Raises HeldError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = self._lock()

    def take(self) -> None:
        self._thread.start()

    def release(self) -> None:
        self._stop()
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _lock(self) -> int:
        """Return the descriptor of the locked file: closing it releases the lock. One of another user is only read."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError:
            descriptor = os.open(self._path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                os.close(descriptor)
                raise HeldError(described(_read_words(self._path.read_bytes()))) from None
            log.warning("file locks unsupported, continuing without", folder=str(self._path.parent))
        with contextlib.suppress(OSError):  # another user's file
            os.ftruncate(descriptor, os.pwrite(descriptor, json.dumps(self._words).encode(), 0))
        return descriptor

    def _renew(self) -> None:
        is_same = self._path.exists() and os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        if self._path.parent.is_dir() and not is_same:
            held, self._descriptor = self._descriptor, self._lock()
            os.close(held)


class BucketLock(_Lock):
    """An object of a bucket, which is rewritten every RENEW_SECONDS.

    It is free if it was released, if its holder was a process of this machine that has ended, or after LEASE_SECONDS
    without a rewrite.
    """

    def __init__(self, place: str, name: str, command: str, on_lost: Callable[[], None] | None = None) -> None:
        super().__init__(name, command, on_lost)
        self._address = place
        self._tag: str | None = None
        """Of the newest version that was read or written; None without the object."""
        self._seen: Words = {}
        self._since = 0.0
        self._turn = 0

    def look(self) -> bool:
        """Read the object; return whether it has changed since the last read or write."""
        before = self._tag
        try:
            found = obstore.get(store_of(self._address, PATIENCE), self._name)
            self._seen, self._tag = _read_words(bytes(found.bytes())), found.meta["e_tag"]
        except FileNotFoundError:
            self._seen, self._tag = {}, None
        if self._tag != before:
            self._since = time.monotonic()
        return self._tag != before

    def take(self) -> None:
        """Wait until the lock is free, or raise HeldError as soon as its holder rewrites it."""
        if not self._is_free():
            log.info("lock held, waiting for its expiry", holder=described(self._seen), name=self._name)
        while not (self._is_free() and self._write(self._words)):
            time.sleep(LOOK_SECONDS)
            if self.look():
                if self._seen.get("id") == self._words["id"]:
                    break  # the answer to a write was lost
                if not self._is_free():
                    raise HeldError(described(self._seen))
        self._thread.start()

    def release(self) -> None:
        if not self._stop():
            return
        try:
            self._write({"free": True})
        except (BaseError, OSError) as error:
            log.warning("lock not released", name=self._name, reason=type(error).__name__)

    def _is_free(self) -> bool:
        seen = self._seen
        is_here = seen.get("machine") not in (None, "") and seen["machine"] == machine()
        has_ended = is_here and _began(seen.get("pid")) != seen.get("began")
        is_over = self._tag is None or bool(seen.get("free")) or has_ended
        return is_over or time.monotonic() - self._since >= LEASE_SECONDS

    def _renew(self) -> None:
        if not self._write(self._words):
            self.look()
            if self._seen.get("id") != self._words["id"]:
                raise HeldError(described(self._seen))

    def _write(self, words: Words) -> bool:
        """Return False if the object changed since it was last read or written."""
        self._turn += 1  # another content has another tag
        mode: Any = "create" if self._tag is None else {"e_tag": self._tag}
        content = json.dumps({**words, "turn": self._turn}).encode()
        try:
            self._tag = obstore.put(store_of(self._address, PATIENCE), self._name, content, mode=mode)["e_tag"]
        except _REFUSED:
            return False
        return True


def described(words: Words) -> str:
    if "pid" not in words:
        return "another process"
    given = {name: str(words.get(name, "?"))[:100] for name in ("command", "pid", "host", "since")}
    return f"`balancewatch {given['command']}` (pid {given['pid']} on {given['host']}, since {given['since']})"


def machine() -> str:
    """Return an id of this boot of the machine and its process namespace; empty where the system has none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _own_words(command: str) -> Words:
    pid = os.getpid()
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "since": iso(wall_ms(), "seconds"),
        "machine": machine(),
        "began": _began(pid),
        "command": command,
        "id": str(uuid.uuid4()),
    }


def _began(pid: Any) -> str:
    """Return the start of a process in the kernel's ticks; empty if there is none."""
    try:
        return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return ""


def _read_words(content: bytes) -> Words:
    """Return the record; an unreadable one counts as free."""
    try:
        words = json.loads(content)
    except ValueError:
        words = None
    return words if isinstance(words, dict) else {"free": True}
