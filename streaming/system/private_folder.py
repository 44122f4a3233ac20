"""Folders that hold clients' names and quarantined bytes: made for our own user alone.

One that is there stays as it is, so who wants others to read the tables makes the folder first:
`install -d -m 2750 -g monitoring /var/lib/balancewatch/warehouse`.
"""

from pathlib import Path

from conf.settings import Settings

PRIVATE = 0o700


def make_private(folder: Path) -> Path:
    """The folder; made with those above it where they are missing, each for its owner alone."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE, exist_ok=True)
    return folder


def make_checkpoints(settings: Settings) -> Path:
    """The folder of the checkpoints. Left to the umask on a cluster, whose executors may be other users."""
    folder = settings.paths.checkpoints.expanduser().resolve()
    return make_private(folder) if settings.spark.master.startswith("local") else folder
