"""`run` keeps its own tables: small files taken together and the log's checkpoints written, beside the batches.

In tiers, so that a row is written anew a few times in its life and not at each turn: many tiny files become one small
one, many small ones a medium one. The rest is `maintain`'s. Readers that follow the log are not concerned: what is
taken together is marked as no change of data.
"""

import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import BaseError

from conf.settings import Settings
from schemas.tables import TABLES
from streaming.maintenance.files import MB, drop_expired, last_checkpoint, make_checkpoint
from streaming.maintenance.small_files import SmallFiles
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.tables import open_delta, table_path

TIERS = ((1 * MB, 64), (16 * MB, 16))
"""(bytes, files): that number of files below that size, without those of the tier below, is compacted to that size."""

CHECKPOINT_COMMITS = 100
"""Commits since the last checkpoint, each a file that a new reader of the log has to read."""

ACTIONS_A_COMMIT = 50
"""A checkpoint lists each file compacted in the last hours: the larger it is, the rarer it is written."""

OPEN_SECONDS = 3_600.0
"""After which a table is opened anew, because the log may have been shortened before all of it was read, and the log is
shortened. It is also shortened when a tenth of `reader_commits` are new."""

LAST_SECONDS = 10.0
"""For the tables after the last batch; a table that was begun is finished."""

ERRORS = (DeltaError, BaseError, OSError, ValueError, pa.ArrowException, BalancewatchError)
"""What a table that is damaged, away, full, or altered by others raises."""

log = structlog.get_logger()


def due_tier(sizes: Sequence[int]) -> int | None:
    """Bytes of the files to be made, of the largest tier that is full; None while none is."""
    floor, due = 0, None
    for size, files in TIERS:
        if sum(floor <= one < size for one in sizes) >= files:
            due = size
        floor = size
    return due


class TableKeeper:
    """Keeps all tables in a thread. A table that fails is logged once and retried."""

    def __init__(self, settings: Settings) -> None:
        self._every_seconds = settings.maintain.beside_seconds
        self._tables = [_KeptTable(settings, name) for name in TABLES]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="table-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the current table, then keep the tables once more after the last batch.

        A store that is away costs each table two minutes: none is begun after LAST_SECONDS.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        until = time.monotonic() + LAST_SECONDS
        self.keep(lambda: time.monotonic() > until)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def keep(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Keep each table, unless `is_over` before it is begun."""
        for table in self._tables:
            if is_over():
                return
            table.keep()

    def _keep(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self.keep(self._stop.is_set)


class _KeptTable:
    """One table, whose new commits are read in each turn."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._wish, self._path, self._name = settings.maintain, table_path(settings.paths.warehouse, name), name
        self._files: SmallFiles | None = None
        self._opened_at = 0.0
        self._seen = self._shortened = -1
        """Versions: of the last turn, and when the log was last shortened."""
        self._reported = ""

    def keep(self) -> None:
        try:
            self._tidy()
            self._reported = ""
        except TableNotFoundError:
            pass
        except ERRORS as error:
            said = in_one_line(error)
            if said != self._reported:
                log.warning("compaction postponed", table=self._name, reason=said)
            self._reported = said

    def _tidy(self) -> None:
        now = time.monotonic()
        if self._files is None or now - self._opened_at >= OPEN_SECONDS:
            self._files, self._opened_at = SmallFiles(self._path, TIERS[-1][0]), now
        files, wish = self._files, self._wish
        files.follow()
        if files.version == self._seen:
            return
        while (size := due_tier(tuple(files.sizes.values()))) is not None and all(map(files.compact, files.bins(size))):
            pass
        checkpointed, actions = last_checkpoint(self._path)
        if files.version - checkpointed >= max(CHECKPOINT_COMMITS, actions // ACTIONS_A_COMMIT):
            make_checkpoint(open_delta(self._path), self._path)
        if now == self._opened_at or files.version - self._shortened >= wish.reader_commits // 10:
            drop_expired(self._path, wish)
            self._shortened = files.version
        self._seen = files.version
