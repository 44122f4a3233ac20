"""New rows of the alerts table for a relay: handed over by the query beside it, or read from the table's log.

What counts is the log. Rows that are handed over are taken where they are the table's next version. In any other case,
for another has written in between or a batch ran again, the log says what is new.
"""

import queue
import threading
from collections.abc import Callable

import structlog
from pyarrow.dataset import FileSystemDataset

from conf.location import Location
from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.oncall.transition import Transition, read_transition
from streaming.queries.written_batch import WrittenBatch
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.opening import catch_up, open_delta
from streaming.warehouse.readable_rows import read_rows
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path

log = structlog.get_logger()

STOP_SECONDS = 60.0

Observe = Callable[[list[Transition]], None]


class AlertLogError(BalancewatchError):
    """What is new cannot be told: the log or a file was cleaned away meanwhile, which takes maintain.reader_hours."""


class NewRows:
    """The rows that were appended to the alerts table after `version`.

    What maintenance wrote anew, compacting the table or dropping old rows, is not new.
    """

    def __init__(self, warehouse: Location, version: int) -> None:
        self._path = table_path(warehouse, ALERTS.name)
        self._table = open_delta(self._path)
        self.version = version

    def take(self, batch: WrittenBatch, observe: Observe) -> None:
        """Hand over the batch's rows if they are the next version's; else, unless it is known, what the log has."""
        version = batch.versions.get(ALERTS.name)
        if version == self.version + 1:
            rows = arrow_table(batch.rows[ALERTS.name], ALERTS, batch.batch_id)  # as the table has them
            observe(read_rows(ALERTS.name, rows, read_transition))
            self.version = version
        elif version is None or version > self.version:
            self.read_to(observe)

    def read_to(self, observe: Observe) -> None:
        """Hand over the rows of the new files; from then on they are known.

        Raises AlertLogError when the log no longer says which they are, or one is gone.
        """
        catch_up(self._table)
        newest = int(self._table.version())
        new = [file for version in range(self.version + 1, newest + 1) for file in self._appended(version)]
        if new:
            dataset = self._table.to_pyarrow_dataset()
            fragments = [dataset.format.make_fragment(file, dataset.filesystem) for file in new]
            try:
                rows = FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem).to_table()
            except FileNotFoundError as error:
                raise AlertLogError(f"a new file of the alerts table is missing: {error}"[:300]) from None
            observe(read_rows(ALERTS.name, rows, read_transition))
        self.version = newest

    def _appended(self, version: int) -> tuple[str, ...]:
        commit = read_commit(self._path, version)
        if commit is None:
            raise AlertLogError(f"version {version} of the alerts table is no longer in its log")
        return commit.appended


class AlertFeed:
    """`start` and `stop` it. A thread of its own, so that no batch waits for the relay.

    It reads the log as it starts, where a batch's rows are not all that is new, and when it is told to `look`; with
    `follows_log` every poll_seconds too, for then nobody hands anything over.
    """

    def __init__(
        self,
        settings: Settings,
        version: int,
        observe: Observe,
        *,
        follows_log: bool = False,
        on_lost: Callable[[], None] = lambda: None,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        """`version` is of the alerts table, as the relay has read it. `observe` is called from another thread.

        `on_lost` is called when the log no longer says what is new since then: the relay is to begin from the tables.
        `on_read` is called whenever all that was new is handed over.
        """
        self._poll_seconds, self._follows_log = settings.oncall.poll_seconds, follows_log
        self._observe, self._on_lost, self._on_read = observe, on_lost, on_read
        self._new = NewRows(settings.paths.warehouse, version)
        self._reading = threading.Lock()
        self._news: queue.SimpleQueue[WrittenBatch | None] = queue.SimpleQueue()
        self._is_behind = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="relay-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def on_batch(self, batch: WrittenBatch) -> None:
        """Take over its alerts. One that comes before `start` is not lost."""
        if batch.rows.get(ALERTS.name):
            self._news.put(batch)

    def look(self) -> None:
        """Somebody has written alerts that are in no batch."""
        self._news.put(None)

    def drain(self) -> None:
        """Return when all rows that are in the table now are handed over, or cannot be read."""
        self._take(None)

    def stop(self) -> None:
        self._stop.set()
        self._news.put(None)
        self._thread.join(STOP_SECONDS)

    def _feed(self) -> None:
        news: WrittenBatch | None = None  # what was committed before anybody could hand it over is in the log
        while not self._stop.is_set():
            self._take(news)
            news = self._next()

    def _next(self) -> WrittenBatch | None:
        try:
            return self._news.get(timeout=self._poll_seconds if self._follows_log or self._is_behind else None)
        except queue.Empty:
            return None

    def _take(self, news: WrittenBatch | None) -> None:
        """With None what the log has."""
        try:
            with self._reading:
                if news is None:
                    self._new.read_to(self._observe)
                else:
                    self._new.take(news, self._observe)
        except AlertLogError as error:
            log.warning("relay reloaded from the tables", reason=str(error))
            self._on_lost()
        except Exception as error:  # whatever it is, it is tried again
            self._is_behind = True
            log.error("alerts table not read, retrying", error=str(error)[:300])
        else:
            self._is_behind = False
            self._on_read()
