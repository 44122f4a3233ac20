"""The relay at work: decide, write, send, take answers.

One thread decides. Each receiver has a thread for its calls, and each kind of access to the tables has one, so that
neither a slow receiver nor a table that is away delays anything else. What is due is in alert_deliveries before it
is sent, and each answer before the receiver is notified again: a crash repeats at most the call in flight at each
receiver. If a write fails or takes longer than LATE_MS, receivers are notified all the same.

A relay that fails, or whose settings change, resumes from the tables. Until they can be read, a relay with new settings
renews leases and delivers what it has in memory.
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
from conf.settings import Settings, SettingsError
from schemas.tables import ACKNOWLEDGEMENTS, ALERTS, SILENCES
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.canary import CanaryReceiver, lost_after_ms
from streaming.relay.notice import Acknowledgement, Clock, Now, Record
from streaming.relay.outbox import Outbox, Pace, Send
from streaming.relay.owed import Owed
from streaming.relay.own_alerts import Ended, Progress, watchdog
from streaming.relay.receivers import make_receivers, make_routes
from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.posting import Answer, Receiver
from streaming.relay.silences import Mute, make_mutes
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

HEALTHY_SECONDS, PAUSE_MOST_SECONDS = 60.0, 60.0
"""After a failure the pause is doubled, up to the most, unless the relay has worked for some time."""

IDLE_SECONDS = 0.05

Result = TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """The answer to a call, its duration, ms, and the call."""

    receiver: str
    answer: Answer
    latency_ms: int
    send: Send | None = None


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
    """`start` and `stop` its thread; or `load`, `finish` and `close` it in this one.

    As a BatchListener it reads the alerts table after each batch with alerts; at `look` it reads alerts of no batch.
    `on_batch`, `look`, `wake` and `renew` may be called from any thread.
    """

    def __init__(
        self,
        settings: Settings,
        progress: Progress | None = None,
        *,
        follows_log: bool = False,
        takes_canary: bool = True,
        expects_canary: bool = False,
        listener: RelayListener | None = None,
        on_read: Callable[[], None] = lambda: None,
        now: Callable[[], Now] | None = None,
    ) -> None:
        """With `follows_log` it reads the alerts table every oncall.poll_seconds: no query of this process announces
        batches. With `takes_canary` it has the canary's receiver; with `expects_canary` a canary that does not
        arrive is an alert; both if the settings inject one. `on_read` is called whenever all new rows are taken.

        Raises SettingsError if the secret of a receiver is missing.
        """
        make_receivers(settings.oncall)
        self._settings, self._progress, self._now = settings, progress, now or Clock(wall_ms).now
        self._follows_log, self._takes_canary, self._expects_canary = follows_log, takes_canary, expects_canary
        self._listener, self._on_read = listener or RelayListener(), on_read
        self._inbox: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._lanes: dict[str, Lane] = {}
        self._receivers: Mapping[str, Receiver] = {}
        self._unreadable: set[str] = set()
        self._started_at_ms, self._counted_at_ms = self._now().wall_ms, 0
        self._stop, self._is_stale, self._is_up = threading.Event(), threading.Event(), threading.Event()
        self._is_stale.set()
        self._works = False
        self._loaded_at, self._resumes_at, self._pause_seconds = time.monotonic(), 0.0, 1.0
        self._thread = threading.Thread(target=self._work, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @classmethod
    def notify_failure(cls, settings: Settings, why: str) -> None:
        """Notify the receivers that `run` cannot start, and let no open alert end meanwhile."""
        relay = cls(settings, Ended(why), expects_canary=True)
        relay.start()
        relay.stop()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wait_until_up(self) -> None:
        """Return when the relay takes new alerts, or after DRAIN_SECONDS."""
        if self._thread.is_alive():
            self._is_up.wait(DRAIN_SECONDS)

    def renew(self, settings: Settings) -> None:
        """Resume with other settings; keep the old ones if the secret of a receiver is missing."""
        try:
            make_receivers(settings.oncall)
        except SettingsError as error:
            log.error("notification settings invalid, keeping the previous ones", reason=str(error))
            return
        self._settings = settings
        self._is_stale.set()
        self.wake()

    def stop(self) -> None:
        """Stop once it has taken all that the table holds, and tried each new notification once or for ten seconds."""
        self.wait_until_up()  # a short run may be over before the tables are read
        self._stop.set()
        self.wake()
        self._thread.join(4 * DRAIN_SECONDS)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                if self._is_stale.is_set() and time.monotonic() >= self._resumes_at:
                    self._reload()
            except Exception as error:
                self._pause(error)
            if not self._works:
                self._stop.wait(IDLE_SECONDS)
                continue
            try:
                self.step()
            except Exception as error:
                self._works = False
                self._is_stale.set()
                self._pause(error)
                self._try(self.quiesce)
        if self._works:
            self.finish(DRAIN_SECONDS)
        self._try(self.close)

    def _reload(self) -> None:
        if self._works:
            self.quiesce()
        self._is_stale.clear()
        try:
            self.load()
        except Exception:
            self._is_stale.set()
            raise
        self._loaded_at = time.monotonic()
        self._is_up.set()

    def _pause(self, error: Exception) -> None:
        if time.monotonic() - self._loaded_at >= HEALTHY_SECONDS:
            self._pause_seconds = 1.0
        self._resumes_at = time.monotonic() + self._pause_seconds
        event = "relay continues from memory, tables not loaded" if self._works else "relay restarted"
        log.error(event, error=str(error)[:500], retry_in=self._pause_seconds)
        self._pause_seconds = min(PAUSE_MOST_SECONDS, 2 * self._pause_seconds)
        if not self._works:
            self._listener.restarted()

    @staticmethod
    def _try(act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            log.error("relay not closed", error=str(error)[:500])

    def load(self) -> None:
        """Load what is owed from the tables. Raises TableAccessError, and then keeps what it has in memory."""
        settings = self._settings
        receivers = make_receivers(settings.oncall, settings.runbooks_url)
        has_canary = settings.canary.interval_seconds > 0
        if has_canary and self._takes_canary:
            receivers[CANARY] = CanaryReceiver()
        overdue_ms = (lost_after_ms(settings) if has_canary else 0) if self._expects_canary else None
        owed = make_owed(settings.oncall, receivers, make_mutes(settings.mutes), overdue_ms)
        self.resume(owed, RelayTables(settings.paths.warehouse), receivers, Pace.of(settings.oncall))

    def resume(self, owed: Owed, tables: RelayTables, receivers: Mapping[str, Receiver], pace: Pace) -> None:
        """Load these tables, and continue with them and these receivers. Raises TableAccessError before that."""
        now = self._now()
        history = tables.read_history(owed.outboxes, now.wall_ms - pace.resolved_resend_ms, now.wall_ms)
        silences, acknowledgements = self._read_operator_input(tables)
        owed.silences.replace(silences or [])
        owed.load(history, now)
        owed.acknowledge(acknowledgements or [], now)
        owed.advance(now)
        self._end_lanes()
        self.owed, self._tables, self._receivers, self._pace = owed, tables, receivers, pace
        self._read_at_ms = self._followed_at_ms = now.pace_ms
        self._unwritten: tuple[list[dict[str, Any]], list[Record]] = [], []
        self._write = self._access("*log", "delivery log not written, notifications continue")
        self._input = self._access("*silences", "silences and acknowledgements not read, retrying")
        self._rows = self._access("*alerts", "alerts table not read, retrying")
        self._wants_rows = self._works = True

    def on_batch(self, batch: WrittenBatch) -> None:
        """Read the alerts that the batch has written."""
        if batch.rows.get(ALERTS.name):
            self.look()

    def look(self) -> None:
        """Read the alerts table: rows were written. A relay that has not loaded it reads them then."""
        self._wants_rows = True
        self._inbox.put(None)

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
        held = self._hold_leases() if self.owed.own_alerts.failure else []
        while time.monotonic() < deadline and not (stop and stop.is_set()):
            self.owed.advance(self._now())
            is_tried = all(delivery.attempts for box in boxes for delivery in box.owed())
            if not self._is_busy() and is_tried and not any(box.has_late_leases() for box in held):
                break
            self.step()
        return sum(box.count() for box in boxes)

    def _hold_leases(self) -> list[Outbox]:
        """Let no alert end while `run` is away; return the outboxes whose leases are renewed for that."""
        self.quiesce()
        held = {name: receiver for name, receiver in self._receivers.items() if isinstance(receiver, Alertmanager)}
        for name, receiver in held.items():
            receiver.hold()
            self.owed.outboxes[name].end_leases()
        return [self.owed.outboxes[name] for name in held]

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
        if self._works:
            self.quiesce()
        self._end_lanes()

    def _end_lanes(self) -> None:
        """End the threads of calls and accesses after what they have begun."""
        for name, lane in self._lanes.items():
            if name in self._receivers:
                lane.submit(self._receivers[name].close)
            lane.stop()
        self._lanes = {}

    def advance(self, now: Now) -> None:
        """Decide what is due by now, write it, and send what is written."""
        if now.pace_ms >= self._read_at_ms + self._pace.poll_ms:
            self.read_operator_input(now)
        self._take_operator_input(now)
        if self._progress is not None:
            self.owed.own_alerts.failure = self._progress.failure()
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

    def wait_ms(self, pace_ms: int) -> float:
        """Return the time until something is due, or the tables are read again."""
        recorded = self._recorded(pace_ms)
        times = [box.wake_at_ms(recorded) for box in self.owed.outboxes.values()]
        if recorded < self.owed.decided:
            times.append(self._write.late_at_ms())
        return min(self._pace.poll_ms, max(0, min((at for at in times if at is not None), default=1 << 62) - pace_ms))

    def read_operator_input(self, now: Now) -> None:
        """Begin to read the silences and acknowledgements that are new."""
        if self._input.start(partial(self._read_operator_input, self._tables), now.pace_ms):
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
        tables, unwritten = self._tables, self._unwritten
        alerts, records = ([*rows] for rows in unwritten)
        if alerts:
            tables.append_alerts(alerts)
            del unwritten[0][: len(alerts)]
        if records:
            tables.append(records)
            del unwritten[1][: len(records)]

    def _set_watchdog(self, now: Now) -> None:
        """Give the watchdog to the receivers that want it, and take it from them while the queries do not progress."""
        attests = "the queries progress and the relay works"
        if self._progress is None:
            attests = "the relay works; it does not cover the queries"
        is_on = self._progress is None or self._progress.age() * 1000 <= self._pace.watchdog_ms
        for name in self.owed.watchers:
            if name in self.owed.outboxes:
                notice = watchdog(self._started_at_ms, now.wall_ms, attests) if is_on else None
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
                    self.settle(news, self._now())
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _read_rows(self, now: Now) -> None:
        """Take the rows that were read, and begin to read if there may be more."""
        if self._follows_log and now.pace_ms >= self._followed_at_ms + self._pace.poll_ms:
            self._wants_rows = True
        found = self._rows.take(now.pace_ms)
        if isinstance(found, list):
            self.owed.observe(found, now)
            self._on_read()
        elif found is not None:
            self._wants_rows = True
            if isinstance(found, AlertLogError):
                self._is_stale.set()  # the log no longer says what is new
        if self._wants_rows and self._rows.future is None:
            self._wants_rows = False  # before the read begins: a `look` meanwhile asks for another
            if not self._rows.start(self._tables.read_new_alerts, now.pace_ms):
                self._wants_rows = True
            self._followed_at_ms = now.pace_ms

    def _read_operator_input(self, tables: RelayTables) -> tuple[list[Silence] | None, list[Acknowledgement] | None]:
        no_silences: list[Silence] = []
        silences = self._guard(SILENCES.name, tables.read_silences, no_silences)
        return silences, self._guard(ACKNOWLEDGEMENTS.name, tables.read_acknowledgements, None)

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

    def settle(self, reply: Reply, now: Now) -> None:
        """Take the answer to a call."""
        self._listener.answered(reply)
        box, answer = self.owed.outboxes.get(reply.receiver), reply.answer
        if box is None or box.flying is not reply.send:
            return  # of a call from before the tables were loaded again
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
    return Reply(send.receiver, answer, round((time.monotonic() - began) * 1000), send)
