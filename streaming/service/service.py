"""`balancewatch run`: one Spark session, the query, the clock publisher; until stopped, done, or failed."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from pyspark.sql import SparkSession

from conf.settings import Settings, SettingsError
from streaming.kafka_io.topics import create_topics
from streaming.logs.jvm_lines import JvmLines
from streaming.maintenance.table_keeper import TableKeeper
from streaming.metrics.instruments import Instruments
from streaming.metrics.spark_listener import listen
from streaming.quality.inspector import Inspector
from streaming.queries import balance
from streaming.queries.checkpoint import (
    Checkpoint,
    StateNote,
    app_id_of,
    checkpoint_of,
    recover,
    refuse_other_tasks,
    tasks_of,
)
from streaming.queries.running import RunningQuery, Sink, start_query
from streaming.queries.written_batch import BatchListener, WrittenBatch
from streaming.relay.canary import CanaryThread
from streaming.relay.relay import Relay
from streaming.self_monitoring.data_loss import DataLoss, refuse_losses
from streaming.self_monitoring.failure import full_disk, is_busy_machine, is_full_disk, reason
from streaming.service.clock_publisher import ClockPublisher
from streaming.service.settings_reload import SettingsReload, notification_settings
from streaming.spark.session import start_spark
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import StoppedError, run_unless_stopped
from streaming.text.times import wall_ms
from streaming.warehouse.writer import DeltalakeWriter
from udfs.alerts.self_kinds import LIMITS

BUSY_STARTS = 5
"""Restarts without `retries` and without a batch in between, on a machine too busy for the query's Python workers."""

RETRY_LEAST_SECONDS, RETRY_MOST_SECONDS = 1.0, 60.0
"""Pauses before Kafka, Spark or a failed query are tried again, doubled with each failure."""

Result = TypeVar("Result")

log = structlog.get_logger()


class ServiceError(BalancewatchError):
    """The query ended by itself. The message is its cause in a sentence."""


class Service:
    """The running query. Use as a context manager: leaving it stops all parts, the query after its batch in flight."""

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
        retries: bool = False,
    ) -> None:
        """Start all parts; with `notifies` also the relay, with `with_canary` also the canary.

        The relay starts first, before Kafka is asked, and ends after the query: it renews leases whatever happens.
        With `retries` a failure to reach Kafka or a bucket, to start Spark or to open the tables, and a failed query,
        are retried with backoff until `stop` is set; settings that are refused are not.

        `listeners` receive each batch after all parts of the service. The caller closes `instruments` and a given
        `spark` session. `past_ms` is the length of a simulated past that the caller plays, which makes its events late.
        Once `stop` is set, the service neither waits for Kafka nor starts Spark: StoppedError.

        Raises KafkaUnreachableError, JarsError or SourceError when a part cannot be had, DataLossError when Kafka
        lacks what the query wants next, SettingsError a receiver its secret or a checkpoint is of other settings or of
        another release, ServiceError when a disk is full.
        """
        self._settings, self._instruments = settings, instruments
        self._available_now, self._retries = available_now, retries
        self._stop = stop or threading.Event()
        self._progressed_at = time.monotonic()  # in the future during a rest
        self._failures = 0
        self._resumes_at: float | None = None
        self._failure, self._failing_since = "", 0.0
        self._has_progressed = self._has_ended = False
        self._sink: Sink | None = None
        has_canary = with_canary and not available_now
        checkpoint = checkpoint_of(balance.NAME, settings)
        with contextlib.ExitStack() as parts:  # ends in reverse order what was started, also if a later part fails
            self._relay: Relay | None = None
            if notifies:
                deliveries = instruments.deliveries if instruments is not None else None
                self._relay = Relay(settings, self._progress, has_canary=has_canary, listener=deliveries)
                self._relay.start()
                parts.push(self._end_relay)  # if a later part fails; a second stop does nothing
            state_note = StateNote(balance.NAME, checkpoint)
            self._persist(lambda: run_unless_stopped(partial(self._check, checkpoint, state_note), self._stop))
            if self._stop.is_set():  # a JVM that is started now would not be stopped
                raise StoppedError("stopped before Spark was started")
            if spark is None:
                spark = self._persist(lambda: start_spark(settings, jvm_log))
                parts.callback(spark.stop)
            self.spark = spark
            if self._relay is not None:
                self._relay.wait_until_up()  # it has created its tables, and takes the first batch
            self._writer = self._persist(self._open_tables)
            self._recover(checkpoint)
            self._start_query_and_threads(parts, [state_note, *listeners], past_ms, has_canary=has_canary)
            self._parts = parts.pop_all()

    def _start_query_and_threads(
        self, parts: contextlib.ExitStack, listeners: Sequence[BatchListener], past_ms: int, *, has_canary: bool
    ) -> None:
        settings, instruments, lasts = self._settings, self._instruments, not self._available_now
        losses = self._persist(self._report_losses)
        self._watch = SettingsReload(settings) if lasts else None
        if instruments is not None:
            instruments.begin(partial(listen, self.spark), notifies=self._relay is not None)
        clock = ClockPublisher(settings) if lasts else None
        inspector = self._persist(lambda: Inspector(settings, self._writer, self._on_alerts, past_ms))
        own: tuple[BatchListener | None, ...] = (self._relay, losses, clock, instruments, inspector)
        self._listeners = [*(part for part in own if part is not None), *listeners]
        self.running = self._persist(self._start_query)
        if settings.maintain.beside_seconds:
            self._start_thread(parts, "tables", TableKeeper(settings))
        if self._relay is not None:
            parts.push(self._end_relay)  # with the alerts of the last batch, before the tables are compacted
        parts.callback(self._stop_query)
        self._start_thread(parts, "quality", inspector)
        if has_canary and settings.canary.interval_seconds > 0:
            self._start_thread(parts, "canary", CanaryThread(settings))
        if clock is not None:
            self._start_thread(parts, "clock-keeper", clock)
        if instruments is not None:
            if self._relay is not None:
                instruments.liveness.watch("relay", self._relay.is_alive)
            parts.callback(instruments.liveness.stop)

    def _start_thread(self, parts: contextlib.ExitStack, name: str, thread: Any) -> None:
        thread.start()
        parts.callback(thread.stop)
        if self._instruments is not None:
            self._instruments.liveness.watch(name, thread.is_alive)

    def _persist(self, act: Callable[[], Result]) -> Result:
        """Return the result of `act`; with `retries` repeat it after a failure, until the service is stopped.

        Raises StoppedError.
        """
        pause = RETRY_LEAST_SECONDS
        while True:
            try:
                done = act()
                self._failure = ""
                return done
            except (SettingsError, StoppedError):
                raise
            except Exception as error:
                if not self._retries:
                    raise
                self._note_failure(str(error))
                log.error("query not started, retrying", reason=str(error)[:500], retry_in=pause)
            if self._stop.wait(pause):
                raise StoppedError("stopped before the query was started")
            pause = min(RETRY_MOST_SECONDS, 2 * pause)

    def _check(self, checkpoint: Checkpoint, state_note: StateNote) -> None:
        refuse_other_tasks(self._settings, checkpoint)
        state_note.refuse_other()
        create_topics(self._settings.kafka)
        refuse_losses(balance.NAME, self._settings)

    def _open_tables(self) -> DeltalakeWriter:
        try:
            return DeltalakeWriter(self._settings.paths.warehouse, is_synced=self._settings.queries.sync)
        except Exception as error:
            if is_full_disk(error):
                raise ServiceError(f"the tables cannot be opened: {full_disk(self._settings)}") from None
            raise

    def _recover(self, checkpoint: Checkpoint) -> None:
        """Remove what a power cut damaged of the checkpoint. Raises CheckpointError."""
        written = -1
        try:
            written = self._writer.newest_batch(app_id_of(balance.NAME, checkpoint))
        except FileNotFoundError:
            return  # it is new
        except (OSError, ValueError, KeyError) as error:
            log.error("checkpoint metadata not read", error=str(error))
        recover(checkpoint, written)

    def _report_losses(self) -> DataLoss:
        """Report damaged tables and lost messages, each once however often this is called."""
        losses = DataLoss(self._settings, self._writer, self._on_alerts)
        losses.look_at_tables(wall_ms())
        for loss in losses.look(balance.NAME, wall_ms()):
            log.warning("messages lost", query=balance.NAME, lost=str(loss))
        return losses

    def _start_query(self) -> RunningQuery:
        tasks = tasks_of(self._settings, self.spark, checkpoint_of(balance.NAME, self._settings))
        running = start_query(
            balance.NAME,
            balance.start_dataframe(self.spark, self._settings, tasks),
            self._settings,
            self._writer,
            available_now=self._available_now,
            on_batch=self._on_batch,
            rest_listener=self,
        )
        self._sink = running.sink
        return running

    def _stop_query(self) -> None:
        if self.running.query.isActive:
            self.running.stop()

    def _restart_failed_query(self) -> None:
        """Restart a failed query after a pause, with `retries` or if the machine was only too busy for it.

        Raises ServiceError.
        """
        failed = self.running.query
        if failed.isActive or (error := failed.exception()) is None:
            return
        if self._resumes_at is None:
            why = reason(balance.NAME, error, self._settings)
            if not (self._retries or (is_busy_machine(error) and self._failures < BUSY_STARTS)):
                raise ServiceError(why)
            pause = min(RETRY_MOST_SECONDS, RETRY_LEAST_SECONDS * 2 ** min(self._failures, 10))
            self._failures, self._resumes_at = self._failures + 1, time.monotonic() + pause
            self._note_failure(why)
            log.error("query failed, retrying", query=balance.NAME, reason=why, retry_in=pause)
        elif time.monotonic() >= self._resumes_at:
            self._resumes_at = None
            try:
                self.running = self._start_query()
            except Exception as again:  # such as Kafka, or the checkpoints' folder
                self._note_failure(str(again))
                log.error("query not started, retrying", query=balance.NAME, reason=str(again)[:500])

    def _take_changed_rules(self) -> None:
        """Restart the query between two batches if the rules changed; its state is kept.

        If notification settings changed, the relay resumes from the tables with the new ones.
        """
        settings = self._watch.look_now_and_then() if self._watch is not None else None
        if settings is None:
            return
        before, self._settings = self._settings, settings
        if settings.rules != before.rules:
            self._stop_query()
            self.running = self._start_query()
            log.info("rules reloaded")
        if self._relay is not None and notification_settings(settings) != notification_settings(before):
            self._relay.renew(settings)
        if self._instruments is not None:
            self._instruments.take_rules(settings)

    def _on_batch(self, batch: WrittenBatch) -> None:
        self._progressed_at = time.monotonic()
        self._failures, self._resumes_at = 0, None
        self._failure, self._has_progressed = "", True
        for listener in self._listeners:
            listener.on_batch(batch)

    def _on_alerts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Alerts are in the table that are in no batch."""
        if self._relay is not None:
            self._relay.look()

    def _progress(self) -> tuple[float, str | None]:
        """Return the seconds since the query wrote a batch and rested, or the service was started; and the failure."""
        return max(0.0, time.monotonic() - self._progressed_at), self.failure()

    def failure(self) -> str | None:
        """Return why no events are processed: what ended the service, or has failed for LIMITS.failing_ms.

        Empty while they are processed, None before the first batch.
        """
        if self._failure and (self._has_ended or time.monotonic() - self._failing_since >= LIMITS.failing_ms / 1000):
            return self._failure
        patience, since = self._settings.oncall.watchdog_seconds, self._sink and self._sink.busy_since
        if since and time.monotonic() - since > patience and not self._available_now:
            return self._failure or f"a micro-batch takes more than {patience:g} s"
        return "" if self._has_progressed and not self._failure else None

    def _note_failure(self, why: str) -> None:
        """Note the present failure."""
        if not self._failure:
            self._failing_since = time.monotonic()
        self._failure = why or "unknown failure"

    def _end_relay(self, _: object, error: BaseException | None, __: object) -> None:
        """Stop the relay, which first notifies its receivers of a failure that ends the service."""
        is_stopped = isinstance(error, StoppedError) or self._stop.is_set()
        is_notified = self._settings.oncall.has_receivers and not self._available_now
        if isinstance(error, Exception) and not is_stopped and is_notified:
            self._note_failure(str(error))
            self._has_ended = True
        if self._relay is not None:
            self._relay.stop()

    def rests(self, name: str, seconds: float) -> None:
        """Note a rest that begins, with its longest duration: a resting query does not hang."""
        self._progressed_at = time.monotonic() + seconds
        if self._instruments is not None:
            self._instruments.liveness.rests(seconds)

    def rested(self, name: str, batch_id: int, seconds: float) -> None:
        """Note the end and the duration of the rest after this batch."""
        self._progressed_at = time.monotonic()
        if self._instruments is not None:
            self._instruments.liveness.rested(batch_id, seconds)

    def wait(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Return when `stop` is set, `seconds` have passed, or the query is done; changed rules are reloaded meanwhile.

        Raises ServiceError.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(0.2):
            self._restart_failed_query()
            query = self.running.query
            if not self._failures and not (query.isActive or query.exception()):
                return
            if deadline is not None and time.monotonic() > deadline:
                return
            self._take_changed_rules()

    def close(self) -> None:
        self._parts.close()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *failure: Any) -> None:
        self._parts.__exit__(*failure)
