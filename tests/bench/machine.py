"""What a figure was measured on."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("pyspark", "delta-spark", "deltalake", "kafka-python", "pyarrow", "msgspec")


@dataclass(frozen=True)
class Machine:
    """`load` is the 1-minute load average before anything was measured: above 1, others shared the cores."""

    cores: int
    memory_gib: float
    cpu: str
    load: float
    python: str
    versions: dict[str, str]


def read_machine() -> Machine:
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30), 1),
        cpu=_cpu(),
        load=round(os.getloadavg()[0], 1),
        python=platform.python_version(),
        versions={name: version(name) for name in PACKAGES},
    )


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
