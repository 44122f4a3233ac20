"""New rows of the alerts table for a relay: Spark's stream brings them, and while it is away Delta itself is read.

In an object store, for which our Spark has no jars, they are always read so.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import structlog
from pyarrow.dataset import FileSystemDataset
from pyspark.sql import SparkSession

from conf.location import Location, is_store
from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.oncall.alert_stream import AlertStream, AnotherTableError, Observe, discard_checkpoint
from streaming.oncall.transition import read_transition
from streaming.queries.delta_log import read_commit
from streaming.queries.warehouse import table_path
from streaming.readable_rows import read_rows
from streaming.warehouse.opening import catch_up, open_delta

log = structlog.get_logger()

CHECK_SECONDS = 0.5
HEALTHY_SECONDS = 60.0
"""A stream that has run so long has not failed in a row."""

PAUSE_MOST_SECONDS = 60.0
MOST_FAILURES = 5


class AlertLogError(RuntimeError):
    """What is new cannot be told: the log was cleaned away meanwhile, which takes maintain.reader_hours."""


class NewFiles:
    """The files that were appended to the alerts table after `version`, as its log says.

    What maintenance wrote anew, compacting the table or dropping old rows, is not new.
    """

    def __init__(self, warehouse: Location, version: int) -> None:
        self._path = table_path(warehouse, ALERTS.name)
        self._table = open_delta(self._path)
        self.version = self._before = version

    def read_to(self, observe: Observe) -> None:
        """Hand over the rows of the new files; from then on they are known.

        Raises AlertLogError when the log no longer says which they are.
        """
        catch_up(self._table)
        newest = int(self._table.version())
        new = [file for version in range(self.version + 1, newest + 1) for file in self._appended(version)]
        if new:
            dataset = self._table.to_pyarrow_dataset()
            fragments = [dataset.format.make_fragment(file, dataset.filesystem) for file in new]
            rows = FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem).to_table()
            observe(read_rows(ALERTS.name, rows, read_transition))
        self.version = self._before = newest

    def skip(self) -> None:
        """Somebody else has handed over what was there when this was called last."""
        self.version = self._before
        catch_up(self._table)
        self._before = int(self._table.version())

    def _appended(self, version: int) -> tuple[str, ...]:
        commit = read_commit(self._path, version)
        if commit is None:
            raise AlertLogError(f"version {version} of the alerts table is no longer in its log")
        return commit.appended


class AlertFeed:
    """`start` and `stop` it. A stream that ends or cannot be built is built again, ever less often."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        settings: Settings,
        version: int,
        observe: Observe,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`version` is of the alerts table, as the relay has read it. `observe` is called from another thread.

        `on_lost` is called when the log no longer says what is new since then: the relay is to begin from the tables.
        """
        self._spark, self._settings, self._observe, self._on_lost = spark, settings, observe, on_lost
        self._has_stream = not is_store(settings.paths.warehouse)
        self._new = NewFiles(settings.paths.warehouse, version)
        self._reading = threading.Lock()
        self._stop = threading.Event()
        self._stream: AlertStream | None = None
        self._failures = 0
        self._failed = ""
        self._thread = threading.Thread(target=self._feed, name="relay-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self, seconds: float) -> None:
        """Return when all rows that are in the table now are handed over, or the seconds are over."""
        stream = self._stream
        if stream is not None:
            stream.drain(seconds)
        else:
            self._read_new()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PAUSE_MOST_SECONDS)

    def lost(self) -> str | None:
        """Why no stream can be hoped for any more: Spark is gone, or it failed too often in a row."""
        if self._failures and is_gone(self._spark):
            return f"the Spark session is gone ({self._failed})"
        if self._failures >= MOST_FAILURES:
            return f"the stream of the alerts failed {self._failures} times in a row ({self._failed})"
        return None

    def _feed(self) -> None:
        while not self._stop.is_set():
            if not self._has_stream:
                self._bridge(PAUSE_MOST_SECONDS)
                continue
            try:
                self._follow_stream()
            except Exception as error:
                if isinstance(error, AnotherTableError):
                    self._discard_checkpoint()
                self._failures += 1
                self._failed = (str(error).splitlines() or [type(error).__name__])[0][:300]
                pause = min(PAUSE_MOST_SECONDS, 2.0 ** (self._failures - 1))
                log.error("no stream of the alerts; the table is read itself", error=self._failed, seconds=pause)
                self._bridge(pause)

    def _discard_checkpoint(self) -> None:
        try:
            log.warning(
                "the relay's checkpoint is of another alerts table", moved_to=discard_checkpoint(self._settings)
            )
        except OSError as error:
            log.error("the relay's checkpoint is of another alerts table; move it away", error=str(error))

    def _follow_stream(self) -> None:
        """Until it fails, or all is to stop. The checkpoint knows where it was; a new one begins where we were."""
        stream = AlertStream(self._spark(), self._settings, self._new.version, self._observe)
        self._stream, healthy_at = stream, time.monotonic() + HEALTHY_SECONDS
        try:
            while not self._stop.wait(CHECK_SECONDS):
                stream.check()
                if time.monotonic() >= healthy_at:
                    healthy_at += HEALTHY_SECONDS
                    self._failures = 0
                    with self._reading:
                        self._new.skip()
        finally:
            self._stream = None
            with suppress(Exception):
                stream.stop()

    def _bridge(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self._read_new()
            left = until - time.monotonic()
            if left <= 0 or self._stop.wait(min(left, self._settings.oncall.poll_seconds)):
                return

    def _read_new(self) -> None:
        try:
            with self._reading:
                self._new.read_to(self._observe)
        except AlertLogError as error:
            log.warning("the relay begins anew, from the tables", reason=str(error))
            self._on_lost()
        except Exception as error:
            log.error("the alerts table cannot be read", error=str(error)[:300])


def is_gone(spark: Callable[[], SparkSession]) -> bool:
    """Whether the session was stopped, or its JVM is no longer there."""
    try:
        return bool(spark().sparkContext._jsc.sc().isStopped())
    except Exception:
        return True
