"""A lease's file in a folder, and the kernel's lock on it.

The kernel lets go of a lock when the process is gone, however it died, and knows the locks of one machine, containers
included, without fail. Where the folder is shared between machines (NFS, SMB, a cluster's file system) its locks may
reach the others or may not: there a holder is known by a file that changes, too, as in an object store.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import structlog

from streaming.warehouse.lease_place import Seen, boot, is_gone, read_words

HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
MOST_BYTES, PADDED_BYTES = 4_000, 1_000
SETTLE_SECONDS = 1.0

OF_ONE_MACHINE = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "jfs", "zfs", "tmpfs", "ramfs", "overlay", "aufs"}
)
"""File systems that no other machine writes to meanwhile; of one that is not here nothing is assumed."""

_MOUNT = re.compile(r"\S+ \S+ \S+ \S+ (?P<place>\S+) .*? - (?P<kind>\S+) ")
_OCTAL = re.compile(r"\\([0-7]{3})")

log = structlog.get_logger()


class FolderPlace:
    """One lock file. One that another user made may only be read: its lock can be had, and nothing be written there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_writable = True
        try:
            self._number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError:
            self._number = os.open(path, os.O_RDONLY)
            self.is_writable = False
        self._is_locked = False
        self.is_turned = is_shared(path.parent)
        self.settle_seconds = SETTLE_SECONDS if self.is_turned else 0.0

    def lock(self) -> bool:
        """False where another process has the lock. Without locks at all the file alone tells who is there."""
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:
                return False
            log.warning("file locks unsupported, using a lease file only", folder=str(self._path.parent))
            self.is_turned, self.settle_seconds = True, SETTLE_SECONDS
        else:
            self._is_locked = True
        return True

    def look(self) -> Seen | None:
        """Opened anew each time: only then a network's file system asks its server."""
        try:
            content = self._path.read_bytes()[:MOST_BYTES]
        except FileNotFoundError:
            return None
        return Seen(_tag(content), read_words(content)) if content else None

    def write(self, words: dict[str, Any], over: Seen | None) -> str | None:
        seen = self.look()
        if (None if seen is None else seen.tag) != (None if over is None else over.tag):
            return None
        content = json.dumps(words).encode().ljust(PADDED_BYTES)  # one length, so that nobody reads half of each
        os.pwrite(self._number, content, 0)
        os.ftruncate(self._number, len(content))
        os.fsync(self._number)
        return _tag(content)

    def is_over(self, words: dict[str, Any]) -> bool:
        """Whoever had the lock has let go of it; where locks may not reach, only a machine's own kernel knows."""
        if words.get("free") or "id" not in words or is_gone(words):
            return True
        is_of_this_kernel = bool(boot()) and str(words.get("machine", "")).startswith(boot())
        return self._is_locked and (is_of_this_kernel or not self.is_turned)

    def close(self) -> None:
        os.close(self._number)


def is_shared(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether other machines may write to it; where the system does not tell, no."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return False
    found = [match for line in lines if (match := _MOUNT.match(line))]
    kinds = {_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), one["place"]): one["kind"] for one in found}
    at = folder.resolve()
    kind = next((kinds[str(place)] for place in (at, *at.parents) if str(place) in kinds), "")
    return bool(kind) and kind not in OF_ONE_MACHINE


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
