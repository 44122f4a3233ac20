"""The state version of a checkpoint, saved beside it, so that a release that cannot read the state refuses to start.

A checkpoint without this file has no batch yet.
"""

import json
from importlib.metadata import version
from pathlib import Path

import structlog

from conf.section import SettingsError
from streaming.queries.shard_values import ShardIndex
from streaming.queries.written_batch import WrittenBatch

NOTE = "balancewatch.json"

log = structlog.get_logger()


class StateNote:
    """The state version of one query's checkpoint. A BatchListener: it is saved after the first batch."""

    def __init__(self, query: str, checkpoint: Path) -> None:
        self._query, self._file = query, checkpoint / NOTE
        self._is_noted = False

    def refuse_other(self) -> None:
        """Raise SettingsError if this release cannot read the state."""
        try:
            words = json.loads(self._file.read_text())
            held, release = int(words["state_version"]), str(words["release"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        if held != ShardIndex().version:
            raise SettingsError(
                f"the checkpoint {self._file.parent} has state of version {held}, written by balancewatch {release}; "
                f"this release, {version('balancewatch')}, reads version {ShardIndex().version}. Nothing was changed: "
                "reinstall that release, or rewind (checkpoints/README.md)"
            )

    def on_batch(self, batch: WrittenBatch) -> None:
        if self._is_noted or batch.query != self._query or not self._file.parent.is_dir():
            return
        scratch = self._file.with_suffix(".new")
        words = {"state_version": ShardIndex().version, "release": version("balancewatch")}
        try:
            scratch.write_text(json.dumps(words))
            scratch.replace(self._file)
        except OSError as error:  # the next batch tries again
            log.warning("state version not saved, retrying", checkpoint=str(self._file.parent), reason=error.strerror)
        else:
            self._is_noted = True
