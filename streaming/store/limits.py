"""Limits of a query, and the errors when it exceeds them."""

from contextlib import suppress
from pathlib import Path

MOST_BYTES = 2 << 30


def memory_bytes(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the limit of a query: 2 GiB, or half of the limit of a container or a systemd unit if that is less."""
    name = own.read_text().rpartition("::")[2].strip().lstrip("/") if own.exists() else ""
    limits = [MOST_BYTES]
    for file in (cgroups / name / "memory.max", cgroups / "memory.max", cgroups / "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # no such file; "max" is no limit
            limits.append(int(file.read_text()) // 2)
    return min(limits)


MEMORY_BYTES = memory_bytes()
"""Limit of DuckDB's buffers, and of the entire process that answers SQL of the user."""

MEMORY_LIMIT = "2GB" if MEMORY_BYTES == MOST_BYTES else f"{MEMORY_BYTES >> 20}MiB"

TOO_MUCH = f"the query needs more than {MEMORY_LIMIT} of memory; select less"
