"""The relay at work: decide, write, send, take answers.

One thread decides. Each receiver has a thread for its calls, and the tables have one for their accesses, so that
neither a slow receiver nor a table that is away delays anything else. What is due is in alert_deliveries before it is
sent, and each answer before the receiver is called again: a crash repeats at most the call in flight at each receiver.
If the log cannot be written, receivers are notified all the same.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog

from conf.oncall import CANARY, OnCall
from schemas.tables import ACKNOWLEDGEMENTS, ALERTS, SILENCES
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.notice import Clock, Notice, Now, Transition
from streaming.relay.outbox import Acknowledgement, Outbox, Pace, Record, Send, traits_of
from streaming.relay.owed import Owed
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

WRITE_SECONDS = 2.0
"""How long notifications wait for the log; a slower write continues beside them."""

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


class RelayListener(Protocol):
    """Receives what a relay does, such as its metrics. Called from the relay's thread: be quick, and never raise."""

    def answered(self, reply: Reply) -> None:
        """A call was made; renewals too."""

    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the delivery log, and of the alerts table about the relay, before they are written."""

    def owes(self, due: Mapping[str, int]) -> None:
        """Receiver → number of pending notifications, about once a second."""

    def restarted(self) -> None:
        """The relay failed and resumes from the tables."""


class NullListener:
    """Ignores everything."""

    def answered(self, reply: Reply) -> None: ...
    def decided(self, records: Sequence[Record], self_alerts: Sequence[Mapping[str, Any]]) -> None: ...
    def owes(self, due: Mapping[str, int]) -> None: ...
    def restarted(self) -> None: ...


Submit = Callable[[Callable[[], Any]], "Future[Any]"]
"""Runs a table access, at once or in another thread."""


def run_now(act: Callable[[], Any]) -> Future[Any]:
    """Run in this thread."""
    future: Future[Any] = Future()
    try:
        future.set_result(act())
    except Exception as error:
        future.set_exception(error)
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
            future, act = given
            try:
                future.set_result(act())
            except Exception as error:
                future.set_exception(error)


class Access:
    """One kind of access to the tables, one at a time. A failure is logged once, and the next access is later."""

    def __init__(self, event: str, submit: Submit, news: Callable[[], None]) -> None:
        self._event, self._submit, self._news = event, submit, news
        self._future: Future[Any] | None = None
        self._failures = 0
        self._resumes_at_ms = 0

    def start(self, act: Callable[[], Any], pace_ms: int, *, is_last: bool = False) -> bool:
        """Begin, unless one is running or a failure was just before; the last one is not delayed."""
        if self._future is not None or (pace_ms < self._resumes_at_ms and not is_last):
            return False
        self._future = self._submit(act)
        self._future.add_done_callback(lambda _: self._news())
        return True

    def is_running(self) -> bool:
        return self._future is not None

    def take(self, pace_ms: int, wait_seconds: float = 0.0) -> tuple[bool, Any]:
        """Return whether the access ended, and its result: an exception if it failed."""
        if self._future is None:
            return False, None
        try:
            result = self._future.result(wait_seconds)
        except FutureTimeoutError as error:
            if not self._future.done():
                return False, None
            result = error
        except TABLE_ERRORS as error:
            result = error
        except Exception:
            self._future = None
            raise
        self._future = None
        if isinstance(result, Exception):
            if not self._failures:
                log.error(self._event, error=str(result)[:500])
            pause_ms = min(ACCESS_PAUSE_MOST_MS, ACCESS_PAUSE_MS << min(self._failures, 10))
            self._failures, self._resumes_at_ms = self._failures + 1, pace_ms + pause_ms
        else:
            self._failures = self._resumes_at_ms = 0
        return True, result


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
        call: Callable[[Send], None],
        listener: RelayListener,
        now: Now,
        *,
        watchers: Collection[str],
        watchdog: Callable[[int], Notice | None],
        poll_ms: float,
        resolved_resend_ms: int,
        submit: Submit = run_now,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self.owed, self._tables, self._operator_input = owed, tables, operator_input
        self._call, self._listener = call, listener
        self._watchers, self._watchdog, self._poll_ms = watchers, watchdog, poll_ms
        self._counted_at_ms = 0
        self._read_at_ms = now.pace_ms
        self._unwritten: tuple[list[dict[str, Any]], list[Record]] = [], []
        self._write = Access("delivery log not written, notifications continue", submit, news)
        self._input = Access("silences and acknowledgements not read, retrying", submit, news)
        self._unreadable: set[str] = set()
        history = tables.read_history(owed.outboxes, now.wall_ms - resolved_resend_ms, now.wall_ms)
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
        for box in self.owed.outboxes.values():
            if (send := box.pick(now)) is not None:
                self._call(send)
        if now.pace_ms >= self._counted_at_ms + OWED_MS:
            self._counted_at_ms = now.pace_ms
            self._listener.owes({name: box.count() for name, box in self.owed.outboxes.items()})

    def handle(self, news: list[Transition] | Reply, now: Now) -> None:
        """Take rows of the alerts table, new or repeated, or the answer to a call."""
        if isinstance(news, Reply):
            self._settle(news, now)
        else:
            self.owed.observe(self._without_history(news), now)

    def wait_ms(self, pace_ms: int) -> float:
        """Return the time until something is due, or the tables are read again."""
        times = [at for box in self.owed.outboxes.values() if (at := box.wake_at_ms()) is not None]
        return min(self._poll_ms, max(0, min(times, default=pace_ms + 3_600_000) - pace_ms))

    def read_input(self, now: Now) -> None:
        """Begin to read the silences and acknowledgements that are new."""
        if self._input.start(self._read_input, now.pace_ms):
            self._read_at_ms = now.pace_ms
            self._take_input(now)

    def write(self, now: Now, wait_seconds: float = WRITE_SECONDS, *, is_last: bool = False) -> None:
        """Append the decisions; the alerts about the relay first, which the log's rows refer to."""
        if self.owed.records or self.owed.own_rows:
            self._listener.decided(self.owed.records, self.owed.own_rows)
            self._unwritten[0].extend(self.owed.own_rows)
            self._unwritten[1].extend(self.owed.records)
            self.owed.own_rows, self.owed.records = [], []
        self._write.take(now.pace_ms, wait_seconds if is_last else 0.0)
        if any(self._unwritten) and self._write.start(self._append, now.pace_ms, is_last=is_last):
            self._write.take(now.pace_ms, wait_seconds)

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
        has_ended, found = self._input.take(now.pace_ms)
        if has_ended and not isinstance(found, Exception):
            silences, acknowledgements = found
            if silences is not None:
                self.owed.set_silences(silences)
            if acknowledgements is not None:
                self.owed.acknowledge(acknowledgements, now)

    def _settle(self, reply: Reply, now: Now) -> None:
        self._listener.answered(reply)
        records = self.owed.outboxes[reply.receiver].settle(reply.answer, now, reply.latency_ms)
        self.owed.records += records
        if reply.receiver == CANARY and any(record.status == "firing" for record in records):
            self.owed.note_canary(now)
        if reply.answer.verdict != "DELIVERED":
            log.warning(
                "notification not delivered",
                receiver=reply.receiver,
                verdict=reply.answer.verdict,
                code=reply.answer.code,
                reason=reply.answer.reason,
            )

    def _without_history(self, transitions: list[Transition]) -> list[Transition]:
        """Keep only the end of incidents that were over before the first relay and not notified."""
        ends = [row for row in transitions if row.state == "RESOLVED" and row.at_ms <= self._history_until_ms]
        known = self.owed.incidents
        old = {
            row.incident_id for row in ends if not (row.incident_id in known and known[row.incident_id].is_decided())
        }
        return [row for row in transitions if row.state == "RESOLVED" or row.incident_id not in old]


class Relay:
    """Resumes from the tables when it is made. `observe`, `on_batch` and `look` may be called from any thread.

    With `rows`, a cursor in the log of the alerts table, it reads new alerts itself: at its start, when a batch's rows
    are not all that is new, at `look`, and with `follows_log` every poll_seconds. `on_read` is called whenever all new
    rows are taken; `on_lost` when the log no longer has them, and the relay must resume from the tables.
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
        self._started_at_ms = now.wall_ms
        self._receivers = receivers
        self._inbox: queue.SimpleQueue[list[Transition] | Reply | WrittenBatch | None] = queue.SimpleQueue()
        self._lanes: dict[str, Lane] = {}
        self._tables = Lane("relay-tables")
        routes = make_routes(settings, receivers)
        pace = _pace(settings)
        rng = random.Random()  # noqa: S311  # jitter
        self.owed = Owed(
            routes,
            {name: Outbox(name, traits_of(receiver), pace, rng) for name, receiver in receivers.items()},
            limit=settings.max_firing_per_kind,
            resend_ms=pace.resend_ms,
            quiet=[name for name, receiver in receivers.items() if isinstance(receiver, LogReceiver)],
            lost_after_ms=lost_after_ms,
            mutes=mutes,
        )
        try:
            self._loop = RelayLoop(
                self.owed,
                delivery_log,
                operator_input,
                self._call,
                listener or NullListener(),
                now,
                watchers=pick_watchdog_receivers(routes),
                watchdog=self._watchdog,
                poll_ms=settings.poll_seconds * 1000,
                resolved_resend_ms=pace.resolved_resend_ms,
                submit=self._tables.submit,
                news=self.look_up,
            )
            self.version = self._loop.version
            self._rows = make_rows(self.version) if make_rows is not None else None
        except BaseException:
            self._tables.stop()
            raise
        self._follows_log, self._on_read, self._on_lost = follows_log, on_read, on_lost
        self._reading = Access("alerts table not read, retrying", self._tables.submit, self.look_up)
        self._wants_rows = self._rows is not None
        self._followed_at_ms = now.pace_ms

    def observe(self, transitions: Iterable[Transition]) -> None:
        """Take rows of the alerts table, new or repeated."""
        self._inbox.put(list(transitions))

    def on_batch(self, batch: WrittenBatch) -> None:
        """Take a batch with alerts."""
        self._inbox.put(batch)

    def look(self) -> None:
        """Read the alerts table: rows were written that are in no batch."""
        self._wants_rows = self._rows is not None
        self._inbox.put(None)

    def look_up(self) -> None:
        """Wake the relay: an access to the tables has ended."""
        self._inbox.put(None)

    def finish(self, seconds: float, stop: threading.Event | None = None) -> int:
        """Take all that the table has and try each due notification once, within the time; return how many are due."""
        deadline = time.monotonic() + seconds
        self._wants_rows = self._rows is not None
        self.step(LEAST_WAIT_SECONDS)
        while self._reading.is_running() and time.monotonic() < deadline:
            self.step()
        self.owed.flush(self._clock.now())
        while time.monotonic() < deadline and not (stop and stop.is_set()) and self._has_news():
            self.step()
        return sum(box.count() for box in self.owed.outboxes.values())

    def _has_news(self) -> bool:
        """Return whether a call is in flight, or something is due that was never tried."""
        self.owed.advance(self._clock.now())
        boxes = self.owed.outboxes.values()
        return self.is_busy() or any(not delivery.attempts for box in boxes for delivery in box.owed())

    def step(self, wait_seconds: float | None = None) -> None:
        """Decide, write, send; then wait for news, at most until something is due."""
        now = self._clock.now()
        self._read_rows(now)
        self._loop.step(now)
        self._take(self._loop.wait_ms(now.pace_ms) / 1000 if wait_seconds is None else wait_seconds)

    def is_busy(self) -> bool:
        """Return whether a call is in flight."""
        return any(box.is_flying() for box in self.owed.outboxes.values())

    def quiesce(self) -> None:
        """Wait for the calls in flight, and write their answers."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.is_busy() and time.monotonic() < deadline:
            self._take(0.1)
        self._loop.write(self._clock.now(), max(LEAST_WAIT_SECONDS, deadline - time.monotonic()), is_last=True)

    def close(self) -> None:
        """End the threads; answers that arrive in time are written."""
        for name, lane in self._lanes.items():
            lane.submit(self._receivers[name].close)
            lane.stop()
        self.quiesce()
        self._tables.stop()

    def _watchdog(self, now_ms: int) -> Notice | None:
        if self._progress_age is None:
            return watchdog(self._started_at_ms, now_ms, "the relay works; it does not cover the queries")
        if self._progress_age() > self._settings.watchdog_seconds:
            return None
        return watchdog(self._started_at_ms, now_ms, "the queries progress and the relay works")

    def _call(self, send: Send) -> None:
        lane = self._lanes.get(send.receiver)
        if lane is None:
            lane = self._lanes[send.receiver] = Lane(f"relay-{send.receiver}")
        lane.submit(lambda: self._inbox.put(self._post(send)))

    def _post(self, send: Send) -> Reply:
        began = time.monotonic()
        answer = call(self._receivers[send.receiver], send, self._wall_ms())
        return Reply(send.receiver, answer, round((time.monotonic() - began) * 1000))

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
        self._take_rows(now)
        if self._wants_rows and not self._reading.is_running():
            self._wants_rows = False  # before the read begins: a `look` meanwhile asks for another
            if not self._reading.start(self._rows.read, now.pace_ms):
                self._wants_rows = True
            self._followed_at_ms = now.pace_ms
            self._take_rows(now)

    def _take_rows(self, now: Now) -> None:
        has_ended, found = self._reading.take(now.pace_ms)
        if not has_ended:
            return
        if isinstance(found, Exception):
            self._wants_rows = True
            if isinstance(found, AlertLogError):
                self._on_lost()
            return
        self._loop.handle(found, now)
        self._on_read()


def call(receiver: Receiver, send: Send, now_ms: int) -> Answer:
    """Call a receiver. If it raises, which it must not, the call has failed."""
    to_call: Any = receiver
    try:
        if send.acknowledgement is not None:
            answer: Answer = to_call.acknowledge(send.notices[0], now_ms)
        else:
            answer = receiver.send(send.notices, now_ms)
    except Exception as error:
        log.error("receiver failed", receiver=send.receiver, error=type(error).__name__)
        return Answer("RETRY", None, f"internal error in the receiver: {type(error).__name__}")
    return answer


def _pace(settings: OnCall) -> Pace:
    return Pace(
        *(
            round(seconds * 1000)
            for seconds in (
                settings.resend_seconds,
                settings.resolved_resend_seconds,
                settings.backoff_min_seconds,
                settings.backoff_max_seconds,
                settings.auth_retry_seconds,
                settings.delivery_failed_after_seconds,
                settings.digest_seconds,
            )
        )
    )
