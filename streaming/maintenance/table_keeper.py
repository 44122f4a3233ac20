"""`run` keeps its own tables: small files taken together and the log's checkpoints written, beside the batches.

In tiers, so that a row is written anew a few times in its life and not at each turn: many tiny files become one small
one, many small ones a medium one. The rest is `maintain`'s. Readers that follow the log are not concerned: what is
taken together is marked as no change of data."""

import math
import threading
import time
from collections.abc import Callable, Sequence

import obstore
import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import BaseError

from conf.settings import Settings
from schemas.tables import TABLES
from streaming.maintenance.files import MB, drop_expired, last_checkpoint, make_checkpoint
from streaming.maintenance.small_files import SmallFiles
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import in_one_line, log_name
from streaming.warehouse.table_store import store_of
from streaming.warehouse.tables import open_delta, table_path

TIERS = ((1 * MB, 64), (16 * MB, 16))
"""(bytes, files): that number of files below that size, without those of the tier below, is compacted to that size."""

CHECKPOINT_COMMITS = 100
"""Commits since the last checkpoint, each a file that a new reader of the log has to read."""

ACTIONS_A_COMMIT = 50
"""A checkpoint lists each file compacted in the last hours: the larger it is, the rarer it is written."""

LOOK_COMMITS = 16
"""Fewer new ones are not worth opening a table."""

SHORTEN_SECONDS = 3_600.0
"""Between two looks for commits that are too old, or a tenth too many."""

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
    """One table, whose log is read only when it has grown: a single request for a file shows that."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._wish, self._path, self._name = settings.maintain, table_path(settings.paths.warehouse, name), name
        self._files: SmallFiles | None = None
        self._seen = -LOOK_COMMITS
        self._shortened_at, self._shortened = -math.inf, 0
        """When the log was last shortened, and the version then."""
        self._reported = ""

    def keep(self) -> None:
        try:
            if self._has_grown():
                self._tidy()
            self._reported = ""
        except TableNotFoundError:
            pass
        except ERRORS as error:  # a disk is full, or a store away
            said = in_one_line(error)
            if said != self._reported:
                log.warning("compaction postponed", table=self._name, reason=said)
            self._reported = said

    def _has_grown(self) -> bool:
        try:
            if self._seen >= 0:
                obstore.head(store_of(self._path), log_name(self._seen + LOOK_COMMITS))
        except FileNotFoundError:
            return False
        return True

    def _tidy(self) -> None:
        files = self._follow()
        while (size := due_tier(tuple(files.sizes.values()))) is not None and all(map(files.compact, files.bins(size))):
            pass
        self._seen = files.version
        checkpointed, actions = last_checkpoint(self._path)
        if self._seen - checkpointed >= max(CHECKPOINT_COMMITS, actions // ACTIONS_A_COMMIT):
            make_checkpoint(open_delta(self._path), self._path)
        is_much = self._seen - self._shortened >= self._wish.reader_commits // 10
        if is_much or time.monotonic() - self._shortened_at >= SHORTEN_SECONDS:
            drop_expired(self._path, self._wish)
            self._shortened_at, self._shortened = time.monotonic(), self._seen

    def _follow(self) -> SmallFiles:
        """Read the table at first, and where its log lacks the next commit although it has grown; else new commits."""
        if self._files is None:
            self._files = SmallFiles(self._path, TIERS[-1][0])
            return self._files
        before = self._files.version
        self._files.follow()
        if self._files.version == before:
            self._files.open()
        return self._files
