"""The locks of a warehouse, in a folder or in a bucket: taken, refused, and held by another process."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.warehouse.occupancy import OccupiedError, Part, occupying

Place = Path | str

HOLD = """
import sys, time
from streaming.warehouse.occupancy import occupying
with occupying("run", "run", {"paths.warehouse": sys.argv[1]}):
    print("held", flush=True)
    time.sleep(120)
"""


def take(places: Place | Mapping[str, Place], part: Part = "run") -> None:
    """Take the lock of a warehouse, or those of folders by setting, and release them."""
    with occupying(part, part, places if isinstance(places, Mapping) else {"paths.warehouse": places}):
        pass


def refused(places: Place | Mapping[str, Place], match: str = "in use by") -> str:
    """Return the sentence that refuses the same."""
    with pytest.raises(OccupiedError, match=match) as said:
        take(places)
    return str(said.value)


@contextmanager
def holder(place: Place) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the warehouse, killed at the end."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            kill(process)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
