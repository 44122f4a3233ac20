"""A process and all that it started, read from /proc: which is the driver, the JVM, a Python worker; CPU and memory."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")

DRIVER, JVM, DAEMON, WORKER, OTHER = "driver", "JVM", "Python daemon", "Python worker", "other"
ENDED = "ended"


@dataclass(frozen=True)
class Process:
    """One process now.

    cpu_seconds     its own, user and system
    ended_seconds   of its children that have ended and that it has waited for
    resident        bytes; pages that forked processes share count in each
    """

    pid: int
    name: str
    cpu_seconds: float
    ended_seconds: float
    resident: int


@dataclass(frozen=True)
class _Stat:
    pid: int
    command: str
    parent: int
    cpu_seconds: float
    ended_seconds: float
    resident: int
    is_ended: bool


def read_tree(root: int, left_out: frozenset[int] | set[int] = frozenset()) -> list[Process]:
    """`root` first, then its descendants; without those left out and what they started. Empty once it has ended."""
    stats = {stat.pid: stat for stat in _read_stats()}
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    kinds: dict[int, str] = {}
    numbers: dict[str, int] = {}
    tree: list[Process] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop(0)
        if pid in left_out or pid not in stats:
            continue
        stat = stats[pid]
        if stat.is_ended:
            tree.append(Process(pid, ENDED, stat.cpu_seconds, stat.ended_seconds, 0))
            continue
        kind = kinds[pid] = DRIVER if pid == root else _kind(stat, kinds.get(stat.parent, OTHER))
        numbers[kind] = numbers.get(kind, 0) + 1
        name = kind if kind == DRIVER or (kind in (JVM, DAEMON) and numbers[kind] == 1) else f"{kind} {numbers[kind]}"
        tree.append(Process(pid, name, stat.cpu_seconds, stat.ended_seconds, stat.resident))
        waiting += sorted(children.get(pid, []))
    return tree


def _kind(stat: _Stat, of_parent: str) -> str:
    """Spark's JVM starts one Python daemon, and that forks the workers."""
    if stat.command == "java":
        return JVM
    return {JVM: DAEMON, DAEMON: WORKER, WORKER: WORKER}.get(of_parent, OTHER)


def cpu_of(tree: list[Process]) -> float:
    """Seconds of all of them since they were started, those of ended children included."""
    return sum(process.cpu_seconds + process.ended_seconds for process in tree)


def resident_by_name(tree: list[Process]) -> dict[str, int]:
    """Bytes by name, the largest first."""
    sums: dict[str, int] = {}
    for process in tree:
        sums[process.name] = sums.get(process.name, 0) + process.resident
    return {name: size for name, size in sorted(sums.items(), key=lambda item: -item[1]) if size}


def cores_by_name(before: list[Process], after: list[Process], seconds: float) -> dict[str, float]:
    """Cores that each used in the span; what processes used that ended in it is ENDED."""
    known: Mapping[int, Process] = {process.pid: process for process in before}
    spent: dict[str, float] = {}
    for process in after:
        earlier = known.get(process.pid)
        spent[process.name] = (
            spent.get(process.name, 0.0) + process.cpu_seconds - (earlier.cpu_seconds if earlier else 0)
        )
    ended = cpu_of(after) - cpu_of(before) - sum(spent.values())
    spent[ENDED] = spent.get(ENDED, 0.0) + max(0.0, ended)
    return {name: cpu / seconds for name, cpu in sorted(spent.items(), key=lambda item: -item[1]) if cpu > 0}


def _read_stats() -> Iterator[_Stat]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _read_stat(folder)) is not None:
            yield stat


def _read_stat(folder: Path) -> _Stat | None:
    """None once the process is gone."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    head, _, tail = text.rpartition(")")  # a name may hold blanks and brackets
    fields = tail.split()
    user, system, ended_user, ended_system = (int(field) / _TICKS for field in fields[11:15])
    return _Stat(
        int(folder.name),
        head.partition("(")[2],
        int(fields[1]),
        user + system,
        ended_user + ended_system,
        int(fields[21]) * _PAGE,
        fields[0] == "Z",
    )
