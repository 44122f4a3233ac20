"""What holds a process whatever the library in it does: a deadline, a limit of memory, and the files that it may open.

All of it is the kernel's, ends only with the process, and is there from when it is called. Off Linux some of it is not
there, and the library's own limits are what is left.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROJECT = Path(__file__).parents[2]
_ROOMS = ("conf", "schemas", "streaming", "udfs")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/localtime")
_OWN_SIZE = "/proc/self/statm"
_OWN_SHARE = ("/proc/self/cgroup", "/sys/fs/cgroup", "/sys/devices/system/cpu")

_SIGNAL_WHEN_PARENT_ENDS, _NO_NEW_PRIVILEGES = 1, 38  # prctl's, of linux/prctl.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, the same on every architecture
_GET_VERSION, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8  # of linux/landlock.h
_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""From which version of Landlock on so many rights to files are known."""
_NETWORK_SINCE, _NETWORK = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11


def end_with_parent(parent: int) -> None:
    """This process is killed when the one that started it ends, by whatever; it ends now if that is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_WHEN_PARENT_ENDS, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_after(seconds: float) -> None:
    """SIGALRM ends this process then, without asking it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def hold_memory(more_bytes: int) -> None:
    """This process gets `more_bytes` of addresses over what it has; beyond that memory is refused it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if Path(_OWN_SIZE).exists():
        pages = int(Path(_OWN_SIZE).read_text().split()[0])
        most = pages * resource.getpagesize() + more_bytes
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def hold_files(paths: Iterable[str]) -> bool:
    """From here on this thread, and those that it starts, can open these files and Python's own alone, and write none.

    What is open stays open; folders can be listed. False where the kernel has no Landlock (Linux before 5.13).
    Raises FileNotFoundError when one of them is not there.
    """
    if sys.platform != "linux":
        return False
    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(_CREATE_RULESET, None, 0, _GET_VERSION)
    if version < 1:
        return False
    rights = (1 << max(number for since, number in _RIGHTS if since <= version)) - 1
    network = _NETWORK if version >= _NETWORK_SINCE else 0
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    handled = struct.pack("QQQ", rights & ~_READ_DIR, network, scopes)
    size = 24 if scopes else 16 if network else 8
    ruleset = kernel.syscall(_CREATE_RULESET, handled, size, 0)
    if ruleset < 0:
        return False
    try:
        for path, may in _readable(paths):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", may, place), 0)
            os.close(place)
        kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(kernel.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _readable(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    for path in paths:
        yield path, _READ_FILE
    ours = (str(_PROJECT / room) for room in _ROOMS)
    python = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    for place in dict.fromkeys((*ours, *python, *_LIBRARIES, *_OWN_SHARE, _OWN_SIZE)):
        if Path(place).exists():
            yield place, _READ_FILE
