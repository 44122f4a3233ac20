"""One holder of a name in an object store, where no kernel keeps locks: an object that its holder writes anew.

Who finds it watches it: an object that changes has a holder who lives; one that stays as it is for LEASE_SECONDS is
taken over. No clock of two machines is compared. Each write is conditional on the one before, so two who take it over
at once are told apart by the store.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import structlog
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from streaming.warehouse.table_store import ObjectStore, impatient_store

RENEW_SECONDS = 5.0
LEASE_SECONDS = 30.0
LOOK_SECONDS = 0.5
PATIENCE = timedelta(seconds=10)

_REFUSED = (AlreadyExistsError, PreconditionError, FileNotFoundError)

log = structlog.get_logger()


class LeaseHeldError(RuntimeError):
    """Somebody else has it, and lives; the message says who."""


@dataclass(frozen=True)
class _Seen:
    tag: str | None
    words: dict[str, Any]


class Lease:
    """`take` it, `release` it. In between a thread renews it, and calls `on_lost` once where another has taken it."""

    def __init__(self, address: str, name: str, command: str, on_lost: Callable[[str], None]) -> None:
        self._address, self._name, self._on_lost = address, name, on_lost
        self._words = {**_who(), "command": command, "id": str(uuid.uuid4())}
        self._tag: str | None = None
        self._turn = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{name}", daemon=True)

    def take(self) -> None:
        """Returns when it is ours, after LEASE_SECONDS where its holder died elsewhere. Raises LeaseHeldError."""
        seen, since = self._look(), time.monotonic()
        if seen is not None and not _is_over(seen.words):
            log.info("somebody has this, or had it and died: it is watched", holder=_told(seen.words), name=self._name)
        while True:
            is_free = seen is None or _is_over(seen.words) or time.monotonic() - since >= LEASE_SECONDS
            if is_free and self._write(self._turned(), seen):
                break
            time.sleep(0 if is_free else LOOK_SECONDS)
            before, seen = seen, self._look()
            if seen is not None and seen.words.get("id") == self._words["id"]:
                self._tag = seen.tag  # ours: its answer was lost
                break
            if seen is None or before is None or seen.tag != before.tag:
                if seen is not None and not _is_over(seen.words):
                    raise LeaseHeldError(_told(seen.words))
                since = time.monotonic()
        self._thread.start()

    def release(self) -> None:
        """It stays, free for whoever comes."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE.total_seconds())
        try:
            self._write({"free": True}, _Seen(self._tag, {}))
        except (BaseError, OSError) as error:
            log.warning("a lock in the store is left behind", name=self._name, reason=type(error).__name__)

    def _keep(self) -> None:
        while not self._end.wait(RENEW_SECONDS):
            try:
                if self._write(self._turned(), _Seen(self._tag, {})):
                    continue
                seen = self._look()
            except (BaseError, OSError) as error:
                log.warning("a lock in the store is not renewed", name=self._name, reason=type(error).__name__)
                continue
            if seen is not None and seen.words.get("id") == self._words["id"]:
                self._tag = seen.tag  # ours: its answer was lost
                continue
            self._on_lost("somebody else" if seen is None else _told(seen.words))
            return

    def _turned(self) -> dict[str, Any]:
        self._turn += 1
        return {**self._words, "turn": self._turn}

    def _write(self, words: dict[str, Any], over: _Seen | None) -> bool:
        """False where it is no longer as it was seen."""
        mode: Any = "create" if over is None else {"e_tag": over.tag}
        try:
            done = obstore.put(self._store(), self._name, json.dumps(words).encode(), mode=mode)
        except _REFUSED:
            return False
        self._tag = done["e_tag"]
        return True

    def _look(self) -> _Seen | None:
        """None where nobody ever had it."""
        try:
            found = obstore.get(self._store(), self._name)
            content = bytes(found.bytes())
        except FileNotFoundError:
            return None
        try:
            words = json.loads(content)
        except ValueError:
            words = None
        return _Seen(found.meta["e_tag"], words if isinstance(words, dict) else {"free": True})

    def _store(self) -> ObjectStore:
        return impatient_store(self._address, PATIENCE)


def _who() -> dict[str, Any]:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pid = os.getpid()
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "since": since,
        "machine": _machine(),
        "began": _began(pid),
    }


def _is_over(words: dict[str, Any]) -> bool:
    """It was released, or its holder was a process here that is gone, which the kernel knows for sure."""
    if words.get("free"):
        return True
    is_here = words.get("machine") not in (None, "") and words["machine"] == _machine()
    return is_here and _began(words.get("pid")) != words.get("began")


def _machine() -> str:
    """This run of this machine and these processes' numbers; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _began(pid: Any) -> str:
    """When that process was started, by the kernel's ticks; empty where there is none."""
    try:
        return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return ""


def _told(words: dict[str, Any]) -> str:
    told = {name: str(words.get(name, "?"))[:100] for name in ("command", "pid", "host", "since")}
    return f"`balancewatch {told['command']}` (pid {told['pid']} on {told['host']}, since {told['since']})"
