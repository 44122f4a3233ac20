"""The relay at work: decide, write, send, take answers.

One thread decides. Each receiver has a thread for its calls, and each kind of access to the tables has one, so that
neither a slow receiver nor a table that is away delays anything else. What is due is in alert_deliveries before it
is sent, and each answer before the receiver is notified again: a crash repeats at most the call in flight at each
receiver. If a write fails or takes longer than LATE_MS, receivers are notified all the same.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from conf.oncall import CANARY, OnCall
from schemas.tables import ACKNOWLEDGEMENTS, SILENCES
from streaming.relay.notice import Acknowledgement, Clock, Now, Record, Transition
from streaming.relay.outbox import Outbox, Pace, Send
from streaming.relay.owed import Incident, Owed
from streaming.relay.own_alerts import watchdog
from streaming.relay.receivers import make_routes
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.posting import Answer, Receiver
from streaming.relay.silences import Mute
from streaming.relay.tables import TABLE_ERRORS, AlertLogError, RelayTables
from streaming.text.times import wall_ms
from streaming.warehouse.warehouse_error import TableAccessError
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


class Lane:
    """A thread that runs calls one after the other; it does not keep the process alive."""

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

    def __init__(
        self, event: str, submit: Callable[[Callable[[], Any]], Future[Any]], wake: Callable[[], None]
    ) -> None:
        self._event, self._submit, self._wake = event, submit, wake
        self.future: Future[Any] | None = None
        self._failures = 0
        self._began_at_ms = self._resumes_at_ms = 0

    def start(self, act: Callable[[], Any], pace_ms: int, *, is_last: bool = False) -> bool:
        """Begin, unless one is running or a failure was just before; the last one is not delayed."""
        if self.future is not None or (pace_ms < self._resumes_at_ms and not is_last):
            return False
        self._began_at_ms = pace_ms
        self.future = self._submit(act)
        self.future.add_done_callback(lambda _: self._wake())
        return True

    def late_at_ms(self) -> int | None:
        return None if self.future is None else self._began_at_ms + LATE_MS

    def is_failing(self, pace_ms: int) -> bool:
        """Return whether the last access failed, or the running one takes longer than LATE_MS."""
        if self.future is not None and pace_ms >= self._began_at_ms + LATE_MS and not self._failures:
            self._failures = 1
            log.error(self._event, error=f"not finished within {LATE_MS // 1000} s")
        return self._failures > 0

    def take(self, pace_ms: int, wait_seconds: float = 0) -> Any:
        """Return the result of an access that has ended, or the TABLE_ERRORS that it raised; None before that."""
        if self.future is not None and wait_seconds:
            wait([self.future], wait_seconds)
        if self.future is None or not self.future.done():
            return None
        future, self.future = self.future, None
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


def make_owed(
    settings: OnCall, receivers: Mapping[str, Receiver], mutes: Sequence[Mute] = (), lost_after_ms: int | None = None
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
    """Loads what is owed from the tables when it is made; then one `step` at a time, in one thread.

    It reads the alerts table at its start, at `look`, and with `follows_log` every poll_seconds. `on_read` is called
    whenever all new rows are taken; `on_lost` when the log no longer has them, and the relay must resume from the
    tables. `look`, `wake` and `observe` may be called from any thread.
    """

    def __init__(
        self,
        owed: Owed,
        tables: RelayTables,
        receivers: Mapping[str, Receiver],
        pace: Pace,
        *,
        now: Callable[[], Now] | None = None,
        follows_log: bool = False,
        on_read: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        progress_age: ProgressAge | None = None,
        listener: RelayListener | None = None,
    ) -> None:
        """Raises TableAccessError if a table that it must know cannot be read."""
        self.owed, self._tables, self._receivers, self._pace = owed, tables, receivers, pace
        self._now = now or Clock(wall_ms).now
        self._follows_log, self._on_read, self._on_lost = follows_log, on_read, on_lost
        self._progress_age, self._listener = progress_age, listener or RelayListener()
        self._inbox: queue.SimpleQueue[list[Transition] | Reply | None] = queue.SimpleQueue()
        self._unwritten: tuple[list[dict[str, Any]], list[Record]] = [], []
        self._unreadable: set[str] = set()
        self._counted_at_ms = 0
        now_ = self._now()
        self._started_at_ms, self._read_at_ms, self._followed_at_ms = now_.wall_ms, now_.pace_ms, now_.pace_ms
        history = tables.read_history(owed.outboxes, now_.wall_ms - pace.resolved_resend_ms, now_.wall_ms)
        self._history_until_ms = history.until_ms
        silences, acknowledgements = self._read_operator_input()
        owed.silences.replace(silences or [])
        owed.load(history, now_)
        owed.acknowledge(acknowledgements or [], now_)
        owed.advance(now_)
        self._lanes: dict[str, Lane] = {}
        self._write = self._access("*log", "delivery log not written, notifications continue")
        self._input = self._access("*silences", "silences and acknowledgements not read, retrying")
        self._rows = self._access("*alerts", "alerts table not read, retrying")
        self._wants_rows = True

    def observe(self, transitions: Sequence[Transition]) -> None:
        """Take rows of the alerts table, new or repeated."""
        self._inbox.put([*transitions])

    def look(self) -> None:
        """Read the alerts table: rows were written."""
        self._wants_rows = True
        self.wake()

    def wake(self) -> None:
        """End the wait of `step`: an access to the tables has ended, or there is another reason to look."""
        self._inbox.put(None)

    def step(self, wait_seconds: float | None = None) -> None:
        """Decide, write, send; then wait for news, at most until something is due."""
        now = self._now()
        self._read_rows(now)
        self.advance(now)
        self._take(self.wait_ms(now.pace_ms) / 1000 if wait_seconds is None else wait_seconds)

    def finish(self, seconds: float, stop: threading.Event | None = None) -> int:
        """Take all that the table has and try each due notification once, within the time; return how many are due."""
        deadline = time.monotonic() + seconds
        self._wants_rows = True
        self.step(LEAST_WAIT_SECONDS)
        while self._rows.future is not None and time.monotonic() < deadline:
            self.step()
        boxes = self.owed.outboxes.values()
        self.owed.advance(self._now(), is_ending=True)
        while time.monotonic() < deadline and not (stop and stop.is_set()):
            self.owed.advance(self._now())
            if not self._is_busy() and all(delivery.attempts for box in boxes for delivery in box.owed()):
                break
            self.step()
        return sum(box.count() for box in boxes)

    def quiesce(self) -> None:
        """Wait for the calls in flight, and write their answers."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._is_busy() and time.monotonic() < deadline:
            self._take(0.1)
        now, seconds = self._now(), max(LEAST_WAIT_SECONDS, deadline - time.monotonic())
        self._write.take(now.pace_ms, seconds)
        self.write(now, is_last=True)
        self._write.take(now.pace_ms, seconds)

    def close(self) -> None:
        """End the threads; answers that arrive in time are written."""
        for name in self._lanes.keys() & self._receivers.keys():
            self._submit(name, self._receivers[name].close)
        self.quiesce()
        for lane in self._lanes.values():
            lane.stop()

    def advance(self, now: Now) -> None:
        """Decide what is due by now, write it, and send what is written."""
        if now.pace_ms >= self._read_at_ms + self._pace.poll_ms:
            self.read_operator_input(now)
        self._take_operator_input(now)
        self.owed.advance(now)
        self._set_watchdog(now)
        self.write(now)
        recorded = self._recorded(now.pace_ms)
        for box in self.owed.outboxes.values():
            if (send := box.pick(now, recorded)) is not None:
                self._call(send)
        if now.pace_ms >= self._counted_at_ms + OWED_MS:
            self._counted_at_ms = now.pace_ms
            self._listener.owes({name: box.count() for name, box in self.owed.outboxes.items()})

    def handle(self, news: Sequence[Transition] | Reply, now: Now) -> None:
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
        return min(self._pace.poll_ms, max(0, min((at for at in times if at is not None), default=1 << 62) - pace_ms))

    def read_operator_input(self, now: Now) -> None:
        """Begin to read the silences and acknowledgements that are new."""
        if self._input.start(self._read_operator_input, now.pace_ms):
            self._read_at_ms = now.pace_ms
            self._take_operator_input(now)

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

    def _is_busy(self) -> bool:
        return any(box.flying for box in self.owed.outboxes.values())

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

    def _set_watchdog(self, now: Now) -> None:
        """Give the watchdog to the receivers that want it, and take it from them while the queries do not progress."""
        attests = "the queries progress and the relay works"
        if self._progress_age is None:
            attests = "the relay works; it does not cover the queries"
        is_on = self._progress_age is None or self._progress_age() * 1000 <= self._pace.watchdog_ms
        notice = watchdog(self._started_at_ms, now.wall_ms, attests) if is_on else None
        for name in self.owed.watchers:
            if name in self.owed.outboxes:
                self.owed.outboxes[name].watchdog = notice

    def _call(self, send: Send) -> None:
        answered = self._submit(send.receiver, partial(call, self._receivers[send.receiver], send, self._now()))
        answered.add_done_callback(lambda future: self._inbox.put(future.result()))

    def _access(self, lane: str, event: str) -> Access:
        return Access(event, partial(self._submit, lane), self.wake)

    def _submit(self, lane: str, act: Callable[[], Any]) -> Future[Any]:
        """Run a call of this receiver, or an access to the tables, after those before it."""
        if lane not in self._lanes:
            self._lanes[lane] = Lane(f"relay-{lane}")
        return self._lanes[lane].submit(act)

    def _take(self, wait_seconds: float) -> None:
        """Wait for the first news, then take all."""
        try:
            news = self._inbox.get(timeout=max(wait_seconds, LEAST_WAIT_SECONDS))
            while True:
                if news is not None:
                    self.handle(news, self._now())
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _read_rows(self, now: Now) -> None:
        """Take the rows that were read, and begin to read if there may be more."""
        if self._follows_log and now.pace_ms >= self._followed_at_ms + self._pace.poll_ms:
            self._wants_rows = True
        found = self._rows.take(now.pace_ms)
        if isinstance(found, list):
            self.handle(found, now)
            self._on_read()
        elif found is not None:
            self._wants_rows = True
            if isinstance(found, AlertLogError):
                self._on_lost()
        if self._wants_rows and self._rows.future is None:
            self._wants_rows = False  # before the read begins: a `look` meanwhile asks for another
            if not self._rows.start(self._tables.read_new_alerts, now.pace_ms):
                self._wants_rows = True
            self._followed_at_ms = now.pace_ms

    def _read_operator_input(self) -> tuple[list[Silence] | None, list[Acknowledgement] | None]:
        no_silences: list[Silence] = []
        silences = self._guard(SILENCES.name, self._tables.read_silences, no_silences)
        return silences, self._guard(ACKNOWLEDGEMENTS.name, self._tables.read_acknowledgements, None)

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

    def _take_operator_input(self, now: Now) -> None:
        found = self._input.take(now.pace_ms)
        if isinstance(found, tuple):
            silences, acknowledgements = found
            if silences is not None:
                self.owed.silences.replace(silences)
            if acknowledgements is not None:
                self.owed.acknowledge(acknowledgements, now)

    def _settle(self, reply: Reply, now: Now) -> None:
        self._listener.answered(reply)
        box, answer = self.owed.outboxes[reply.receiver], reply.answer
        records = box.settle(answer, now, reply.latency_ms)
        if records:
            self.owed.log(*records)
            box.answer_number = self.owed.decided
        if reply.receiver == CANARY and any(record.status == "firing" for record in records):
            self.owed.own_alerts.note_canary(now.pace_ms)
        if answer.verdict != "DELIVERED":
            log.warning(
                "notification not delivered",
                receiver=reply.receiver,
                verdict=answer.verdict,
                code=answer.code,
                reason=answer.reason,
            )


def call(receiver: Receiver, send: Send, now: Now) -> Reply:
    """Call a receiver. If it raises, which it must not, the call has failed."""
    began = time.monotonic()
    try:
        answer = receiver.send(send.notices, now.wall_ms)
    except Exception as error:
        log.error("receiver failed", receiver=send.receiver, error=type(error).__name__)
        answer = Answer("RETRY", None, f"internal error in the receiver: {type(error).__name__}")
    return Reply(send.receiver, answer, round((time.monotonic() - began) * 1000))
