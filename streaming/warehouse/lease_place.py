"""Where a lease is written, an object of a store or a file in a folder; and which process of which machine wrote it."""

import json
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from streaming.text.times import iso, wall_ms
from streaming.warehouse.table_store import ObjectStore, impatient_store

PATIENCE = timedelta(seconds=10)

_REFUSED = (AlreadyExistsError, PreconditionError, FileNotFoundError)


@dataclass(frozen=True)
class Seen:
    """What was found there. `tag` is another one after every write."""

    tag: str | None
    words: dict[str, Any]


class LeasePlace(Protocol):
    """`look` gives None where nobody ever wrote; `write` the new tag, None where it is no longer as it was seen."""

    is_turned: bool
    """Whether a holder must show by writing anew that it lives."""
    settle_seconds: float
    """So long after a write another's may come that did not know of it; 0 where the place refuses such a one."""

    def look(self) -> Seen | None: ...

    def write(self, words: dict[str, Any], over: Seen | None) -> str | None: ...

    def is_over(self, words: dict[str, Any]) -> bool:
        """Whether it is known for sure that who wrote this holds nothing any more."""


class ObjectPlace:
    """One object of a store, which refuses a write that does not know the one before."""

    is_turned = True
    settle_seconds = 0.0

    def __init__(self, address: str, name: str) -> None:
        self._address, self._name = address, name

    def look(self) -> Seen | None:
        try:
            found = obstore.get(self._store(), self._name)
            content = bytes(found.bytes())
        except FileNotFoundError:
            return None
        return Seen(found.meta["e_tag"], read_words(content))

    def write(self, words: dict[str, Any], over: Seen | None) -> str | None:
        mode: Any = "create" if over is None else {"e_tag": over.tag}
        try:
            tag: str | None = obstore.put(self._store(), self._name, json.dumps(words).encode(), mode=mode)["e_tag"]
        except _REFUSED:
            return None
        return tag

    def is_over(self, words: dict[str, Any]) -> bool:
        """It was released, or its holder was a process here that is gone, which the kernel knows for sure."""
        return bool(words.get("free")) or is_gone(words)

    def _store(self) -> ObjectStore:
        return impatient_store(self._address, PATIENCE)


def read_words(content: bytes) -> dict[str, Any]:
    """What nobody can read is free."""
    try:
        words = json.loads(content)
    except ValueError:
        words = None
    return words if isinstance(words, dict) else {"free": True}


def who() -> dict[str, Any]:
    """This process, as others read of it."""
    pid = os.getpid()
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "since": iso(wall_ms(), "seconds"),
        "machine": machine(),
        "began": began(pid),
    }


def is_gone(words: dict[str, Any]) -> bool:
    """Whether it was a process of this machine that has ended."""
    is_here = words.get("machine") not in (None, "") and words["machine"] == machine()
    return is_here and began(words.get("pid")) != words.get("began")


def machine() -> str:
    """This run of this machine and these processes' numbers; empty where the system does not tell."""
    try:
        return boot() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def boot() -> str:
    """This run of this machine's kernel; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def began(pid: Any) -> str:
    """When that process was started, by the kernel's ticks; empty where there is none."""
    try:
        return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return ""


def described(words: dict[str, Any]) -> str:
    """Who that is, in a sentence's place."""
    if "pid" not in words:
        return "another process"
    given = {name: str(words.get(name, "?"))[:100] for name in ("command", "pid", "host", "since")}
    return f"`balancewatch {given['command']}` (pid {given['pid']} on {given['host']}, since {given['since']})"
