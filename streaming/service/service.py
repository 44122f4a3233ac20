"""`balancewatch run`: one Spark session, the query, the clock publisher; until stopped, done, or failed."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf.settings import Settings
from streaming.kafka_io.topics import create_topics
from streaming.logs.jvm_lines import JvmLines
from streaming.maintenance.table_keeper import TableKeeper
from streaming.metrics.instruments import Instruments
from streaming.oncall.canary import CanaryThread
from streaming.oncall.relay_thread import RelayThread
from streaming.quality.inspector import Inspector, end_open
from streaming.queries import balance
from streaming.queries.running import RunningQuery, start_query
from streaming.queries.state_version import StateNote
from streaming.queries.tasks import refuse_other_tasks, tasks_of
from streaming.queries.written_batch import BatchListener, WrittenBatch
from streaming.self_monitoring.data_loss import DataLoss, checkpoint_of, refuse_losses
from streaming.self_monitoring.failure import full_disk, is_busy_machine, is_full_disk, reason
from streaming.service.clock_publisher import ClockPublisher
from streaming.service.last_progress import LastProgress
from streaming.service.settings_reload import SettingsReload
from streaming.spark.session import start_spark
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import StoppedError, run_unless_stopped
from streaming.text.times import wall_ms
from streaming.warehouse.writer import DeltalakeWriter

QUERIES = (balance,)

BUSY_STARTS = 5
"""How often a query is started again, without a batch in between, on a machine too busy for its Python workers."""

log = structlog.get_logger()


class ServiceError(BalancewatchError):
    """A query ended by itself. The message is its cause in a sentence."""


class Service:
    """The running queries. Use as a context manager: leaving it stops them after their batch in flight."""

    def __init__(
        self,
        settings: Settings,
        *,
        available_now: bool = False,
        listeners: Sequence[BatchListener] = (),
        jvm_log: Path | JvmLines | None = None,
        notifies: bool = False,
        with_canary: bool = False,
        instruments: Instruments | None = None,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        past_ms: int = 0,
    ) -> None:
        """Start all parts; with `notifies` also the relay, with `with_canary` also the canary.

        `listeners` receive each batch after all parts of the service. The caller closes `instruments` and a given
        `spark` session. `past_ms` is the length of a simulated past that the caller plays, which makes its events late.
        Once `stop` is set, the service neither waits for Kafka nor starts Spark: StoppedError.

        Raises KafkaUnreachableError, JarsError or SourceError when a part cannot be had, DataLossError when Kafka
        lacks what a query wants next, SettingsError a receiver its secret or a checkpoint is of other settings or of
        another release, ServiceError when a disk is full.
        """
        self._settings, self._instruments = settings, instruments
        liveness = None if instruments is None else instruments.liveness
        self._progress = LastProgress([query.NAME for query in QUERIES], liveness)
        self._busy_starts: dict[str, int] = {query.NAME: 0 for query in QUERIES}
        has_canary = with_canary and not available_now
        self._relay = (
            RelayThread(
                settings,
                self._progress.age,
                expects_canary=has_canary,
                listener=instruments.deliveries if instruments is not None else None,
            )
            if notifies
            else None
        )
        stop = stop or threading.Event()
        notes = [StateNote(query.NAME, checkpoint_of(query.NAME, settings)) for query in QUERIES]
        for query, note in zip(QUERIES, notes, strict=True):
            refuse_other_tasks(settings, checkpoint_of(query.NAME, settings))
            note.refuse_other()
        run_unless_stopped(lambda: _look_at_kafka(settings), stop)
        if stop.is_set():  # a JVM that is started now would not hear of it
            raise StoppedError("stopped before Spark was started")
        self._is_guest = spark is not None
        self.spark: SparkSession = spark if spark is not None else start_spark(settings, jvm_log)
        self._keeper = None if available_now else ClockPublisher(settings)
        try:
            self._writer = DeltalakeWriter(settings.paths.warehouse)
        except Exception as error:
            if is_full_disk(error):
                raise ServiceError(f"the tables cannot be opened: {full_disk(settings)}") from None
            raise
        self._losses = DataLoss(settings, self._writer, self._on_alerts)
        for query in QUERIES:
            for loss in self._losses.look(query.NAME, wall_ms()):
                log.warning("messages lost", query=query.NAME, lost=str(loss))
        self._available_now = available_now
        self._watch = None if available_now else SettingsReload(settings)
        if instruments is not None:
            instruments.begin(self.spark, runs_queries=True, notifies=notifies)
        validates = settings.quality.every_batches > 0
        self._inspector = Inspector(settings, self._writer, self._on_alerts, past_ms) if validates else None
        if self._inspector is None:
            end_open(settings, self._writer, self._on_alerts)
        self._listeners: tuple[BatchListener, ...] = (
            *(
                part
                for part in (self._progress, self._relay, self._losses, self._keeper, instruments, self._inspector)
                if part is not None
            ),
            *notes,
            *listeners,
        )
        self._start_relay()
        self._running = self._start_queries(settings)
        if self._keeper is not None:
            self._keeper.start()
        self._canary = CanaryThread(settings) if has_canary and settings.canary.interval_seconds > 0 else None
        self._tables = TableKeeper(settings) if settings.maintain.beside_seconds else None
        for part in (self._canary, self._inspector, self._tables):
            if part is not None:
                part.start()
        if instruments is not None:
            self._show_parts(instruments)

    def _start_relay(self) -> None:
        """What a log that is read at once says is over before a relay hears it that is only starting."""
        if self._relay is not None:
            self._relay.start()
            if self._available_now:
                self._relay.wait_until_up()

    def _show_parts(self, instruments: Instruments) -> None:
        parts = {
            "relay": self._relay,
            "clock-keeper": self._keeper,
            "canary": self._canary,
            "quality": self._inspector,
            "tables": self._tables,
        }
        for name, part in parts.items():
            if part is not None:
                instruments.liveness.watch(name, part.is_alive)

    @property
    def queries(self) -> list[StreamingQuery]:
        """Spark's handles of the queries."""
        return [running.query for running in self._running]

    def _start_queries(self, settings: Settings) -> list[RunningQuery]:
        return [self._start(query, settings) for query in QUERIES]

    def _start(self, query: ModuleType, settings: Settings) -> RunningQuery:
        tasks = tasks_of(settings, self.spark, checkpoint_of(query.NAME, settings))
        return start_query(
            query.NAME,
            query.start_dataframe(self.spark, settings, tasks),
            settings,
            self._writer,
            available_now=self._available_now,
            on_batch=self._on_batch,
            hearer=self._progress,
        )

    def _look_at_failures(self) -> None:
        """Raise ServiceError for a query that failed; start it again if the machine was only too busy for it."""
        for place, query in enumerate(QUERIES):
            failed = self._running[place].query
            if failed.isActive or (error := failed.exception()) is None:
                continue
            if not is_busy_machine(error) or self._busy_starts[query.NAME] == BUSY_STARTS:
                raise ServiceError(reason(query.NAME, error, self._settings))
            self._busy_starts[query.NAME] += 1
            log.warning(
                "query restarted", query=query.NAME, reason="the machine is overloaded: Python workers timed out"
            )
            self._running[place] = self._start(query, self._settings)

    def _take_changed_rules(self) -> None:
        """Restart the queries between two batches if the rules changed; their state is kept.

        If notification settings changed, the relay resumes from the tables with the new ones.
        """
        settings = self._watch.look_now_and_then() if self._watch is not None else None
        if settings is None:
            return
        before, self._settings = self._settings, settings
        if settings.rules != before.rules:
            self._stop_queries()
            self._running = self._start_queries(settings)
            log.info("rules reloaded")
        if self._relay is not None and (settings.oncall, settings.mutes) != (before.oncall, before.mutes):
            self._relay.renew(settings)
        if self._instruments is not None:
            self._instruments.take_rules()

    def _stop_queries(self) -> None:
        for running in self._running:
            if running.query.isActive:
                running.stop()

    def _on_batch(self, batch: WrittenBatch) -> None:
        self._busy_starts[batch.query] = 0
        for listener in self._listeners:
            listener.on_batch(batch)

    def _on_alerts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Alerts are in the table that are in no batch."""
        if self._instruments is not None:
            self._instruments.verdicts.update_alerts(rows)
        if self._relay is not None:
            self._relay.look()

    def wait(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Return when `stop` is set, `seconds` have passed, or all queries are done; rules that change are taken.

        Raises ServiceError.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(0.2):
            self._look_at_failures()
            if not any(query.isActive or query.exception() for query in self.queries):
                return
            if deadline is not None and time.monotonic() > deadline:
                return
            self._take_changed_rules()

    def wait_until_idle(self, seconds: float = 120.0) -> None:
        """Return when each query has worked through all that is in Kafka now."""
        for running in self._running:
            running.sink.stay_awake()
        threads = [threading.Thread(target=query.processAllAvailable, daemon=True) for query in self.queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)
        for running in self._running:
            running.sink.may_rest()

    def close(self) -> None:
        with contextlib.ExitStack() as parts:  # the last is ended first, and each, whatever becomes of the others
            if not self._is_guest:
                parts.callback(self.spark.stop)
            if self._tables is not None:
                parts.callback(self._tables.stop)
            if self._relay is not None:
                parts.callback(self._relay.stop)
            parts.callback(self._stop_queries)
            for part in (self._inspector, self._canary, self._keeper):
                if part is not None:
                    parts.callback(part.stop)
            if self._instruments is not None:
                parts.callback(self._instruments.liveness.stop)

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _look_at_kafka(settings: Settings) -> None:
    create_topics(settings.kafka)
    refuse_losses([query.NAME for query in QUERIES], settings)
