"""A disk without room: the run ends with one sentence, and goes on when there is room again."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tests.lab.chaos.history import History, Outcome
from tests.lab.chaos.place import Place
from tests.support.laboratory import say

DISK_BYTES = 64 << 20
LEFT_BYTES = 96 << 10
"""Room for a few commits: the disk fills while the service works."""

Folder = Literal["warehouse", "checkpoints"]


class CannotMountError(RuntimeError):
    """This machine, or this user, may not mount a small disk."""


@contextlib.contextmanager
def small_disk(path: Path, size: int = DISK_BYTES) -> Iterator[None]:
    """A tmpfs of `size` bytes at `path`. Raises CannotMountError."""
    path.mkdir(parents=True)
    if os.geteuid():
        raise CannotMountError("only root may mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise CannotMountError(mounted.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def full_disk(place: Place, folder: Folder, reference: History) -> Outcome:
    """The disk of `paths.<folder>` fills up in the middle of a run. Raises CannotMountError."""
    run = f"full_disk_{folder}"
    settings = place.settings(run)
    path: Path = getattr(settings.paths, folder)
    with small_disk(path):
        ballast = path / "ballast"
        free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize
        with ballast.open("wb") as file:
            for _ in range((free - LEFT_BYTES) // 4096):
                file.write(b"x" * 4096)
        victim = place.live(run)
        code, errors = victim.wait(), victim.errors()
        say(f"{run}: {' '.join(errors)}")
        wanted = ("no space left", f"paths.{folder} = {path}")
        is_reported = code == 1 and len(errors) == 1 and all(part in errors[0] for part in wanted)
        remark = "" if is_reported else f"it ended with {code} and said {errors or victim.printed()[-600:]}"
        ballast.unlink()
        comparison = place.finish(run, reference)
    return Outcome(f"full disk, {folder}", 0, 1, comparison, remark)
