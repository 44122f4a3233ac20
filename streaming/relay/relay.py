"""The relay at work: decide, write, send, take answers.

One thread decides. Each receiver has a thread for its calls, and the tables have one for their accesses, so that
neither a slow receiver nor a table that is away delays anything else. What is due is in alert_deliveries before it is
sent, and each answer before the receiver is notified again: a crash repeats at most the call in flight at each
receiver. If a write fails or takes longer than LATE_MS, receivers are notified all the same.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from conf.oncall import CANARY, OnCall
from schemas.tables import ACKNOWLEDGEMENTS, ALERTS, SILENCES
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.notice import Clock, Notice, Now, Transition
from streaming.relay.outbox import Acknowledgement, Outbox, Pace, Record, Send
from streaming.relay.owed import Incident, Owed
from streaming.relay.own_alerts import watchdog
from streaming.relay.receivers import make_routes
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.posting import Answer, Receiver
from streaming.relay.silences import Mute
from streaming.relay.tables import TABLE_ERRORS, AlertLogError, AlertRows, DeliveryLog, OperatorInput
from streaming.text.times import wall_ms
from streaming.warehouse.warehouse_error import TableAccessError
from udfs.alerts.routing import pick_watchdog_receivers
from udfs.alerts.silence import Silence

log = structlog.get_logger()

LEAST_WAIT_SECONDS = 0.005
DRAIN_SECONDS = 10.0
"""How long a relay that stops waits for the calls in flight."""

LATE_MS = 10_000
"""How long notifications wait for the log; then they continue without it."""

OWED_MS = 1_000
"""Between two counts of pending notifications."""

ACCESS_PAUSE_MS, ACCESS_PAUSE_MOST_MS = 1_000, 30_000
"""After a failed access to a table, doubled with each failure."""

Result = TypeVar("Result")
ProgressAge = Callable[[], float]
"""Seconds since the queries last made progress."""


@dataclass(frozen=True)
class Reply:
    """The answer to a call, and its duration, ms."""

    receiver: str
    answer: Answer
    latency_ms: int


class RelayListener:
    """Receives what a relay does, such as its metrics; this one ignores it.

    Called from the relay's thread: be quick, and never raise.
    """

    def answered(self, reply: Reply) -> None:
        """A call was made; renewals too."""

    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the delivery log, and of the alerts table about the relay, before they are written."""

    def owes(self, due: Mapping[str, int]) -> None:
        """Receiver → number of pending notifications, about once a second."""

    def restarted(self) -> None:
        """The relay failed and resumes from the tables."""


Submit = Callable[[Callable[[], Any]], "Future[Any]"]
"""Runs a table access, at once or in another thread."""


def _run(future: Future[Any], act: Callable[[], Any]) -> None:
    try:
        future.set_result(act())
    except Exception as error:
        future.set_exception(error)


def run_now(act: Callable[[], Any]) -> Future[Any]:
    """Run in this thread."""
    future: Future[Any] = Future()
    _run(future, act)
    return future


class Lane:
    """A thread that runs calls one after the other."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, act: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, act))
        return future

    def stop(self) -> None:
        """End the thread after the calls that are submitted."""
        self._calls.put(None)

    def _work(self) -> None:
        while (given := self._calls.get()) is not None:
            _run(*given)


class Access:
    """One kind of access to the tables, one at a time. A failure is logged once, and the next access is later."""

    def __init__(self, event: str, submit: Submit, news: Callable[[], None]) -> None:
        self._event, self._submit, self._news = event, submit, news
        self._future: Future[Any] | None = None
        self._failures = 0
        self._began_at_ms = self._resumes_at_ms = 0

    def start(self, act: Callable[[], Any], pace_ms: int, *, is_last: bool = False) -> bool:
        """Begin, unless one is running or a failure was just before; the last one is not delayed."""
        if self._future is not None or (pace_ms < self._resumes_at_ms and not is_last):
            return False
        self._began_at_ms = pace_ms
        self._future = self._submit(act)
        self._future.add_done_callback(lambda _: self._news())
        return True

    def is_running(self) -> bool:
        return self._future is not None

    def late_at_ms(self) -> int | None:
        return None if self._future is None else self._began_at_ms + LATE_MS

    def is_failing(self, pace_ms: int) -> bool:
        """Return whether the last access failed, or the running one takes longer than LATE_MS."""
        if self._future is not None and pace_ms >= self._began_at_ms + LATE_MS and not self._failures:
            self._failures = 1
            log.error(self._event, error=f"not finished within {LATE_MS // 1000} s")
        return self._failures > 0

    def wait(self, seconds: float) -> None:
        if self._future is not None:
            wait([self._future], seconds)

    def take(self, pace_ms: int) -> Any:
        """Return the result of an access that has ended, or the TABLE_ERRORS that it raised; None before that."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        error = future.exception()
        if error is None:
            self._failures = self._resumes_at_ms = 0
            return future.result()
        if not isinstance(error, TABLE_ERRORS):
            raise error
        if not self._failures:
            log.error(self._event, error=str(error)[:500])
        pause_ms = min(ACCESS_PAUSE_MOST_MS, ACCESS_PAUSE_MS << min(self._failures, 10))
        self._failures, self._resumes_at_ms = self._failures + 1, pace_ms + pause_ms
        return error


class RelayLoop:
    """Loads what is owed from the tables when it is made; then one `step` at a time, without a thread of its own.

    `call` makes a call, whose Reply goes to `handle`. `watchdog` returns the notice for the receivers in `watchers`, or
    None while it is silent. `submit` runs the accesses to the tables. Raises TableAccessError.
    """

    def __init__(
        self,
        owed: Owed,
        tables: DeliveryLog,
        operator_input: OperatorInput,
        now: Now,
        pace: Pace,
        *,
        call: Callable[[Send], object] = lambda _: None,
        poll_ms: float = 0,
        watchers: Collection[str] = (),
        watchdog: Callable[[int], Notice | None] = lambda _: None,
        listener: RelayListener | None = None,
        submit: Submit = run_now,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self.owed, self._tables, self._operator_input = owed, tables, operator_input
        self._call, self._listener = call, listener or RelayListener()
        self._watchers, self._watchdog, self._poll_ms = watchers, watchdog, poll_ms
        self._counted_at_ms = 0
        self._read_at_ms = now.pace_ms
        self._unwritten: tuple[list[dict[str, Any]], list[Record]] = [], []
        self._write = Access("delivery log not written, notifications continue", submit, news)
        self._input = Access("silences and acknowledgements not read, retrying", submit, news)
        self._unreadable: set[str] = set()
        history = tables.read_history(owed.outboxes, now.wall_ms - pace.resolved_resend_ms, now.wall_ms)
        self.version, self._history_until_ms = history.version, history.until_ms
        silences, acknowledgements = self._read_input()
        owed.set_silences(silences or [])
        owed.load(history.rows, history.pasts, history.completed, now)
        owed.acknowledge(acknowledgements or [], now)
        owed.advance(now)

    def step(self, now: Now) -> None:
        """Decide, write, send."""
        if now.pace_ms >= self._read_at_ms + self._poll_ms:
            self.read_input(now)
        self._take_input(now)
        self.owed.advance(now)
        attested = self._watchdog(now.wall_ms) if self._watchers else None
        for name in self._watchers:
            if name in self.owed.outboxes:
                self.owed.outboxes[name].watchdog = attested
        self.write(now)
        recorded = self._recorded(now.pace_ms)
        for box in self.owed.outboxes.values():
            if (send := box.pick(now, recorded)) is not None:
                self._call(send)
        if now.pace_ms >= self._counted_at_ms + OWED_MS:
            self._counted_at_ms = now.pace_ms
            self._listener.owes({name: box.count() for name, box in self.owed.outboxes.items()})

    def handle(self, news: list[Transition] | Reply, now: Now) -> None:
        """Take rows of the alerts table, new or repeated, or the answer to a call."""
        if isinstance(news, Reply):
            self._settle(news, now)
            return
        ended = {row.incident_id for row in news if row.state == "RESOLVED" and row.at_ms <= self._history_until_ms}
        old = {name for name in ended if not self.owed.incidents.get(name, Incident()).is_decided()}
        # Of incidents that were over before the first relay, and not notified, only the end is taken.
        self.owed.observe([row for row in news if row.state == "RESOLVED" or row.incident_id not in old], now)

    def wait_ms(self, pace_ms: int) -> float:
        """Return the time until something is due, or the tables are read again."""
        recorded = self._recorded(pace_ms)
        times = [box.wake_at_ms(recorded) for box in self.owed.outboxes.values()]
        if recorded < self.owed.decided:
            times.append(self._write.late_at_ms())
        return min(self._poll_ms, max(0, min((at for at in times if at is not None), default=1 << 62) - pace_ms))

    def read_input(self, now: Now) -> None:
        """Begin to read the silences and acknowledgements that are new."""
        if self._input.start(self._read_input, now.pace_ms):
            self._read_at_ms = now.pace_ms
            self._take_input(now)

    def write(self, now: Now, *, is_last: bool = False) -> None:
        """Append the decisions; the alerts about the relay first, which the log's rows refer to."""
        if self.owed.records or self.owed.own_rows:
            self._listener.decided(self.owed.records, self.owed.own_rows)
            self._unwritten[0].extend(self.owed.own_rows)
            self._unwritten[1].extend(self.owed.records)
            self.owed.own_rows, self.owed.records = [], []
        self._write.take(now.pace_ms)
        if any(self._unwritten) and self._write.start(self._append, now.pace_ms, is_last=is_last):
            self._write.take(now.pace_ms)

    def finish(self, now: Now, seconds: float) -> None:
        """Write all that is decided, within the time for each of two writes."""
        self._write.wait(seconds)
        self.write(now, is_last=True)
        self._write.wait(seconds)
        self._write.take(now.pace_ms)

    def _recorded(self, pace_ms: int) -> int:
        """Return the number of records after which notifications are sent: those in the log; all if it fails."""
        decided = self.owed.decided
        return decided if self._write.is_failing(pace_ms) else decided - len(self._unwritten[1])

    def _append(self) -> None:
        """Append what is unwritten at this moment. What is appended is taken off, also if the second append fails."""
        alerts, records = ([*rows] for rows in self._unwritten)
        if alerts:
            self._tables.append_alerts(alerts)
            del self._unwritten[0][: len(alerts)]
        if records:
            self._tables.append(records)
            del self._unwritten[1][: len(records)]

    def _read_input(self) -> tuple[list[Silence] | None, list[Acknowledgement] | None]:
        read = self._operator_input
        no_silences: list[Silence] = []
        silences = self._guard(SILENCES.name, read.read_silences, no_silences)
        return silences, self._guard(ACKNOWLEDGEMENTS.name, read.read_acknowledgements, None)

    def _guard(self, table: str, read: Callable[[], Result | None], if_damaged: Result | None) -> Result | None:
        """Return the result; `if_damaged` of a damaged table; None, which changes nothing, of one that is away."""
        try:
            found = read()
        except TableAccessError as error:
            if table not in self._unreadable:
                self._unreadable.add(table)
                log.error("table not read, retrying", table=table, file=error.file, error=str(error)[:500])
            return if_damaged if error.file is not None else None
        self._unreadable.discard(table)
        return found

    def _take_input(self, now: Now) -> None:
        found = self._input.take(now.pace_ms)
        if isinstance(found, tuple):
            silences, acknowledgements = found
            if silences is not None:
                self.owed.set_silences(silences)
            if acknowledgements is not None:
                self.owed.acknowledge(acknowledgements, now)

    def _settle(self, reply: Reply, now: Now) -> None:
        self._listener.answered(reply)
        box, answer = self.owed.outboxes[reply.receiver], reply.answer
        records = box.settle(answer, now, reply.latency_ms)
        if records:
            self.owed.log(records)
            box.answer_number = self.owed.decided
        if reply.receiver == CANARY and any(record.status == "firing" for record in records):
            self.owed.note_canary(now)
        if answer.verdict != "DELIVERED":
            log.warning(
                "notification not delivered",
                receiver=reply.receiver,
                verdict=answer.verdict,
                code=answer.code,
                reason=answer.reason,
            )


def make_owed(
    settings: OnCall, receivers: Mapping[str, Receiver], mutes: Sequence[Mute], lost_after_ms: int | None = None
) -> Owed:
    """Return what the receivers are owed, before the tables are read."""
    pace = Pace.of(settings)
    rng = random.Random()  # noqa: S311  # jitter
    return Owed(
        make_routes(settings, receivers),
        {name: Outbox(name, receiver.traits, pace, rng) for name, receiver in receivers.items()},
        limit=settings.max_firing_per_kind,
        resend_ms=pace.resend_ms,
        quiet=[name for name, receiver in receivers.items() if isinstance(receiver, LogReceiver)],
        lost_after_ms=lost_after_ms,
        mutes=mutes,
    )


class Relay:
    """Resumes from the tables when it is made. `observe`, `on_batch` and `look` may be called from any thread.

    With `make_rows`, a cursor in the log of the alerts table, it reads new alerts itself: at its start, when a batch's
    rows are not all that is new, at `look`, and with `follows_log` every poll_seconds. `on_read` is called whenever all
    new rows are taken; `on_lost` when the log no longer has them, and the relay must resume from the tables.
    """

    def __init__(
        self,
        settings: OnCall,
        delivery_log: DeliveryLog,
        operator_input: OperatorInput,
        receivers: Mapping[str, Receiver],
        *,
        make_rows: Callable[[int], AlertRows] | None = None,
        follows_log: bool = False,
        on_read: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        progress_age: ProgressAge | None = None,
        lost_after_ms: int | None = None,
        listener: RelayListener | None = None,
        mutes: Sequence[Mute] = (),
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """Raises TableAccessError if a table that it must know cannot be read."""
        self._settings, self._delivery_log, self._wall_ms = settings, delivery_log, now_ms
        self._clock, self._progress_age = Clock(now_ms), progress_age
        now = self._clock.now()
        self._started_at_ms, self._followed_at_ms = now.wall_ms, now.pace_ms
        self._receivers = receivers
        self._follows_log, self._on_read, self._on_lost = follows_log, on_read, on_lost
        self._inbox: queue.SimpleQueue[list[Transition] | Reply | WrittenBatch | None] = queue.SimpleQueue()
        self._lanes: dict[str, Lane] = {}
        self.owed = make_owed(settings, receivers, mutes, lost_after_ms)
        self._tables = Lane("relay-tables")
        self._reading = Access("alerts table not read, retrying", self._tables.submit, self.wake)
        try:
            self._loop = RelayLoop(
                self.owed,
                delivery_log,
                operator_input,
                now,
                Pace.of(settings),
                call=self._call,
                poll_ms=settings.poll_seconds * 1000,
                watchers=pick_watchdog_receivers(make_routes(settings, receivers)),
                watchdog=self._watchdog,
                listener=listener,
                submit=self._tables.submit,
                news=self.wake,
            )
            self._rows = make_rows(self._loop.version) if make_rows is not None else None
        except BaseException:
            self._tables.stop()
            raise
        self._wants_rows = self._rows is not None

    def observe(self, transitions: Iterable[Transition]) -> None:
        """Take rows of the alerts table, new or repeated."""
        self._inbox.put(list(transitions))

    def on_batch(self, batch: WrittenBatch) -> None:
        """Take a batch with alerts."""
        self._inbox.put(batch)

    def look(self) -> None:
        """Read the alerts table: rows were written that are in no batch."""
        self._wants_rows = self._rows is not None
        self.wake()

    def wake(self) -> None:
        """End the wait of `step`: an access to the tables has ended, or there is another reason to look."""
        self._inbox.put(None)

    def finish(self, seconds: float, stop: threading.Event | None = None) -> int:
        """Take all that the table has and try each due notification once, within the time; return how many are due."""
        deadline = time.monotonic() + seconds
        self._wants_rows = self._rows is not None
        self.step(LEAST_WAIT_SECONDS)
        while self._reading.is_running() and time.monotonic() < deadline:
            self.step()
        self.owed.flush(self._clock.now())
        while time.monotonic() < deadline and not (stop and stop.is_set()):
            self.owed.advance(self._clock.now())
            boxes = self.owed.outboxes.values()
            if not self._is_busy() and all(delivery.attempts for box in boxes for delivery in box.owed()):
                break
            self.step()
        return sum(box.count() for box in self.owed.outboxes.values())

    def step(self, wait_seconds: float | None = None) -> None:
        """Decide, write, send; then wait for news, at most until something is due."""
        now = self._clock.now()
        self._read_rows(now)
        self._loop.step(now)
        self._take(self._loop.wait_ms(now.pace_ms) / 1000 if wait_seconds is None else wait_seconds)

    def quiesce(self) -> None:
        """Wait for the calls in flight, and write their answers."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._is_busy() and time.monotonic() < deadline:
            self._take(0.1)
        self._loop.finish(self._clock.now(), max(LEAST_WAIT_SECONDS, deadline - time.monotonic()))

    def close(self) -> None:
        """End the threads; answers that arrive in time are written."""
        for name, lane in self._lanes.items():
            lane.submit(self._receivers[name].close)
            lane.stop()
        self.quiesce()
        self._tables.stop()

    def _is_busy(self) -> bool:
        return any(box.flying for box in self.owed.outboxes.values())

    def _watchdog(self, now_ms: int) -> Notice | None:
        if self._progress_age is None:
            return watchdog(self._started_at_ms, now_ms, "the relay works; it does not cover the queries")
        if self._progress_age() > self._settings.watchdog_seconds:
            return None
        return watchdog(self._started_at_ms, now_ms, "the queries progress and the relay works")

    def _call(self, send: Send) -> None:
        if send.receiver not in self._lanes:
            self._lanes[send.receiver] = Lane(f"relay-{send.receiver}")
        self._lanes[send.receiver].submit(lambda: self._inbox.put(call(self._receivers, send, self._wall_ms())))

    def _take(self, wait_seconds: float) -> None:
        """Wait for the first news, then take all."""
        try:
            news = self._inbox.get(timeout=max(wait_seconds, LEAST_WAIT_SECONDS))
            while True:
                now = self._clock.now()
                if isinstance(news, WrittenBatch):
                    self._take_batch(news, now)
                elif news is not None:
                    self._loop.handle(news, now)
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _take_batch(self, batch: WrittenBatch, now: Now) -> None:
        rows = batch.rows.get(ALERTS.name)
        if not rows or self._rows is None:
            return
        found = None
        if not self._reading.is_running() and not self._wants_rows:
            found = self._rows.take(rows, batch.batch_id, batch.versions.get(ALERTS.name))
        if found is None:
            self._wants_rows = True
            return
        self._loop.handle(found, now)
        self._on_read()

    def _read_rows(self, now: Now) -> None:
        """Take the rows that were read, and begin to read if there may be more."""
        if self._rows is None:
            return
        if self._follows_log and now.pace_ms >= self._followed_at_ms + self._settings.poll_seconds * 1000:
            self._wants_rows = True
        found = self._reading.take(now.pace_ms)
        if isinstance(found, list):
            self._loop.handle(found, now)
            self._on_read()
        elif found is not None:
            self._wants_rows = True
            if isinstance(found, AlertLogError):
                self._on_lost()
        if self._wants_rows and not self._reading.is_running():
            self._wants_rows = False  # before the read begins: a `look` meanwhile asks for another
            if not self._reading.start(self._rows.read, now.pace_ms):
                self._wants_rows = True
            self._followed_at_ms = now.pace_ms


def call(receivers: Mapping[str, Receiver], send: Send, now_ms: int) -> Reply:
    """Call a receiver. If it raises, which it must not, the call has failed."""
    began = time.monotonic()
    try:
        answer = receivers[send.receiver].send(send.notices, now_ms)
    except Exception as error:
        log.error("receiver failed", receiver=send.receiver, error=type(error).__name__)
        answer = Answer("RETRY", None, f"internal error in the receiver: {type(error).__name__}")
    return Reply(send.receiver, answer, round((time.monotonic() - began) * 1000))
