"""Loaded by every Python process of a storm: records what it syncs to the disk, and can set its wall clock.

STORM_SYNCED names a file that gets a line per fsync: kind (f or d), inode, size, time of writing and of the sync, ns.
STORM_CLOCK names a file with the seconds by which the process's wall clock is ahead; the kernel's clock is untouched.
"""

import os
import stat
import time

SYNCED, CLOCK = os.environ.get("STORM_SYNCED", ""), os.environ.get("STORM_CLOCK", "")
_fsync, _time, _time_ns = os.fsync, time.time, time.time_ns


def _recorded_fsync(descriptor: int) -> None:
    _fsync(descriptor)
    status = os.fstat(descriptor)
    kind = "d" if stat.S_ISDIR(status.st_mode) else "f"
    line = f"{kind} {status.st_ino} {status.st_size} {status.st_mtime_ns} {_time_ns()}\n"
    log = os.open(SYNCED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, line.encode())
    os.close(log)


_known = [0.0, 0.0]  # monotonic time of the last reading, seconds ahead


def _ahead() -> float:
    now = time.monotonic()
    if now - _known[0] > 0.2:
        try:
            with open(CLOCK) as file:  # noqa: PTH123  # pathlib is not loaded for every process
                _known[1] = float(file.read() or 0)
        except (OSError, ValueError):
            _known[1] = 0.0
        _known[0] = now
    return _known[1]


if SYNCED:
    os.fsync = _recorded_fsync  # type: ignore[assignment]  # every caller passes a descriptor
if CLOCK:
    time.time = lambda: _time() + _ahead()
    time.time_ns = lambda: _time_ns() + int(_ahead() * 1_000_000_000)
