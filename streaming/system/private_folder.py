"""Folders with client names and quarantined bytes: created for their owner alone.

An existing folder keeps its mode. To let others read the tables, create it first:
`install -d -m 2750 -g monitoring /var/lib/balancewatch/warehouse`.
"""

from pathlib import Path

from conf.location import Location, is_store
from conf.settings import Settings


def make_private(folder: Path) -> Path:
    """Create the folder and its missing parents, each for its owner alone; return it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    return folder


def make_checkpoints(settings: Settings) -> Location:
    """Create and return the checkpoint folder, or return its URL.

    On a cluster, whose executors may be other users, the umask decides.
    """
    place = settings.paths.checkpoints
    if is_store(place):
        return place
    folder = Path(place).expanduser().resolve()
    return make_private(folder) if settings.spark.master.startswith("local") else folder
