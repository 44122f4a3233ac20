"""The relay at work: ask the tables, decide, write, send, take answers.

One thread decides. Each call of a receiver and each access to a table has a thread, so that neither a slow receiver nor
a table that is away delays anything else. What is due is in alert_deliveries before it is sent, and each answer before
the receiver is notified again: a crash repeats at most the call in flight at each receiver. If a write fails or takes
longer than ten seconds, receivers are notified all the same.

A relay that fails, or whose settings change, resumes from the tables. Until they can be read, a relay with new settings
renews leases and delivers what it has in memory.
"""

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from conf.oncall import CANARY
from conf.settings import Settings, SettingsError
from schemas.tables import ACKNOWLEDGEMENTS, ALERTS, SILENCES
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.canary import CanaryReceiver, lost_after_ms
from streaming.relay.mutes import make_mutes
from streaming.relay.notice import EVERYBODY, Notice, Now, start_clock
from streaming.relay.outbox import Outbox, Send
from streaming.relay.owed import Owed
from streaming.relay.own_alerts import Progress, watchdog
from streaming.relay.receivers import make_receivers, make_routes
from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.posting import Answer, Receiver
from streaming.relay.tables import TABLE_ERRORS, AlertLogError, DeliveryLog, RelayTables
from streaming.text.times import wall_ms
from streaming.warehouse.readable_rows import Row, open_written
from udfs.alerts.phrase import phrase
from udfs.alerts.routing import Route
from udfs.alerts.silence import Quiet

log = structlog.get_logger()

LEAST_WAIT_SECONDS = 0.005
DRAIN_SECONDS = 10.0
"""How long a relay that stops waits for the calls in flight."""

OWED_MS = 1_000
"""Between two counts of pending notifications."""

HEALTHY_SECONDS, PAUSE_MOST_SECONDS = 60.0, 60.0
"""After a failure the pause is doubled, up to the most, unless the relay has worked for some time."""

IDLE_SECONDS = 0.05

WITHHELD = {"SILENCED": "silenced by ", "INHIBITED": "inhibited by "}


class RelayListener:
    """Receives what a relay does, such as its metrics; this one ignores it.

    Called from the relay's thread: be quick, and never raise.
    """

    def answered(self, receiver: str, answer: Answer, latency_ms: int) -> None:
        """A call was made; renewals too."""

    def decided(self, records: Sequence[Row]) -> None:
        """Rows of the delivery log, before they are written."""

    def owes(self, due: Mapping[str, int]) -> None:
        """Receiver → number of pending notifications, about once a second."""

    def restarted(self) -> None:
        """The relay failed and resumes from the tables."""


class Relay(threading.Thread):
    """`start` and `stop` it as a thread; or `load`, `finish` and `close` it in this one.

    As a BatchListener it reads the alerts table after each batch with alerts; at `look` it reads alerts of no batch.
    `on_batch`, `look` and `renew` may be called from any thread.
    """

    def __init__(
        self,
        settings: Settings,
        progress: Progress | None = None,
        *,
        has_canary: bool = False,
        listener: RelayListener | None = None,
        on_read: Callable[[], None] = lambda: None,
        now: Callable[[], Now] | None = None,
    ) -> None:
        """With `has_canary`, and if the settings inject one, it has the canary's receiver, and a canary that does not
        arrive is an alert. `on_read` is called whenever all new alerts are taken.

        Raises SettingsError if the secret of a receiver is missing.
        """
        super().__init__(name="relay", daemon=True)
        make_receivers(settings.oncall)
        self._settings, self._progress, self._now = settings, progress, now or start_clock(wall_ms)
        self._has_canary, self._listener, self._on_read = has_canary, listener or RelayListener(), on_read
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._receivers: Mapping[str, Receiver] = {}
        self._unreadable: set[str] = set()
        self._rng = random.Random()  # noqa: S311  # jitter
        covers = phrase("the relay works; it does not cover the queries")
        covers = covers if progress is None else phrase("the queries progress and the relay works")
        self._watchdog, self._counted_at_ms = watchdog(self._now().wall_ms, covers, settings.language), 0
        self._is_ending, self._is_stale, self._is_up = threading.Event(), threading.Event(), threading.Event()
        self._is_stale.set()
        self._works = False
        self._loaded_at, self._resumes_at, self._pause_seconds = time.monotonic(), 0.0, 1.0

    @classmethod
    def notify_failure(cls, settings: Settings, why: str) -> None:
        """Notify the receivers that `run` cannot start, and let no open alert end meanwhile."""
        relay = cls(settings, lambda: (math.inf, why), has_canary=True)
        relay.start()
        relay.stop()

    def wait_until_up(self) -> None:
        """Return when the relay takes new alerts, or after DRAIN_SECONDS."""
        if self.is_alive():
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
        self._inbox.put(None)

    def on_batch(self, batch: WrittenBatch) -> None:
        """Read the alerts that the batch has written."""
        if batch.rows.get(ALERTS.name):
            self.look()

    def look(self) -> None:
        """Read the alerts table: rows were written. A relay that has not loaded it reads them then."""
        self._wants_rows = True
        self._inbox.put(None)

    def stop(self) -> None:
        """Stop once it has taken all that the table holds, and tried each new notification once or for ten seconds."""
        self.wait_until_up()  # a short run may be over before the tables are read
        self._is_ending.set()
        self._inbox.put(None)
        if self.is_alive():
            self.join(4 * DRAIN_SECONDS)

    def run(self) -> None:
        while not self._is_ending.is_set():
            is_loading = self._is_stale.is_set() and time.monotonic() >= self._resumes_at
            try:
                if is_loading:
                    self._is_stale.clear()
                    if self._works:
                        self.quiesce()
                    self.load()
                elif self._works:
                    self.step()
                else:
                    self._is_ending.wait(IDLE_SECONDS)
            except Exception as error:
                self._works = self._works and is_loading
                self._pause(error)
                if not is_loading:
                    attempt(self.quiesce, "relay not closed")
        if self._works:
            self.finish(DRAIN_SECONDS)
        attempt(self.close, "relay not closed")

    def _pause(self, error: Exception) -> None:
        """Load the tables again after a pause."""
        self._is_stale.set()
        if time.monotonic() - self._loaded_at >= HEALTHY_SECONDS:
            self._pause_seconds = 1.0
        self._resumes_at = time.monotonic() + self._pause_seconds
        event = "relay continues from memory, tables not loaded" if self._works else "relay restarted"
        log.error(event, error=str(error)[:500], retry_in=self._pause_seconds)
        self._pause_seconds = min(PAUSE_MOST_SECONDS, 2 * self._pause_seconds)
        if not self._works:
            self._listener.restarted()

    def load(self, tables: RelayTables | None = None) -> None:
        """Load what is owed from the tables. Raises TableAccessError, and then keeps what it has in memory."""
        settings = self._settings
        receivers = make_receivers(settings.oncall, settings.runbooks_url, settings.language)
        if settings.canary.interval_seconds and self._has_canary:
            receivers[CANARY] = CanaryReceiver()
        routes, mutes = make_routes(settings.oncall), make_mutes(settings.mutes)
        self.resume(tables or RelayTables(settings.paths.warehouse), receivers, routes, mutes)

    def resume(
        self, tables: RelayTables, receivers: Mapping[str, Receiver], routes: Sequence[Route], mutes: Sequence[Quiet]
    ) -> None:
        """Load these tables, and continue with them and these receivers. Raises TableAccessError before that."""
        settings, oncall, now = self._settings, self._settings.oncall, self._now()
        boxes = {name: Outbox(name, receiver.traits, oncall, self._rng) for name, receiver in receivers.items()}
        decisions = DeliveryLog(tables, self._listener.decided)
        overdue_ms = lost_after_ms(settings) if self._has_canary else None
        rules, language = settings.label_rules, settings.language
        owed, reading = Owed(routes, boxes, oncall, decisions, mutes, overdue_ms, rules, language), set[str]()
        history = tables.read_history(boxes, now.wall_ms - round(1000 * oncall.resolved_resend_seconds), now.wall_ms)
        self._take_read(owed, reading, SILENCES.name, attempt(tables.read_silences))
        owed.load(history, now)
        self._take_read(owed, reading, ACKNOWLEDGEMENTS.name, attempt(tables.read_acknowledgements))
        owed.advance(now)
        self._close_receivers()
        self.owed, self._receivers, self._watchdog = owed, receivers, owed.label(self._watchdog)
        self._reads = {
            SILENCES.name: tables.read_silences,
            ACKNOWLEDGEMENTS.name: tables.read_acknowledgements,
            ALERTS.name: tables.read_new_alerts,
        }
        self._poll_ms, self._watchdog_ms = 1000 * oncall.poll_seconds, 1000 * oncall.watchdog_seconds
        self._reading, self._read_at_ms = reading, now.pace_ms
        self._wants_rows = self._works = True
        self._loaded_at = time.monotonic()
        self._is_up.set()

    def step(self, wait_seconds: float | None = None) -> None:
        """Ask the tables, decide, write, send; then wait for news, at most until something is due."""
        now = self._now()
        self.advance(now)
        self._take(self.wait_ms(now.pace_ms) / 1000 if wait_seconds is None else wait_seconds)

    def finish(self, seconds: float, stop: threading.Event | None = None) -> int:
        """Take all that the table has and try each due notification once, within the time; return how many are due.

        If `run` has failed, leases are renewed so that no alert ends while it is away.
        """
        deadline = time.monotonic() + seconds
        self._wants_rows = True
        self.step(LEAST_WAIT_SECONDS)
        while (self._wants_rows or ALERTS.name in self._reading) and time.monotonic() < deadline:
            self.step()
        boxes = self.owed.outboxes.values()
        self.owed.advance(self._now(), is_ending=True)
        for name, receiver in self._receivers.items() if self.owed.own_alerts.failure else ():
            if isinstance(receiver, Alertmanager):
                receiver.hold()
                self.owed.outboxes[name].hold()
        while time.monotonic() < deadline and not (stop and stop.is_set()):
            self.owed.advance(self._now())
            is_tried = all(delivery.attempts for box in boxes for delivery in box.owed())
            if is_tried and all(box.holds() and not box.flying for box in boxes):
                break
            self.step()
        return sum(box.count() for box in boxes)

    def quiesce(self) -> None:
        """Wait for the calls in flight, and write their answers."""
        deadline, written = time.monotonic() + DRAIN_SECONDS, self.owed.log
        boxes = self.owed.outboxes.values()
        self._take_while(lambda: any(box.flying for box in boxes), deadline)
        self._take_while(lambda: written.late_at_ms is not None, deadline)
        self._write(self._now(), is_last=True)
        self._take_while(lambda: written.late_at_ms is not None, deadline)

    def close(self) -> None:
        """Close the receivers; answers that arrive in time are written."""
        if self._works:
            self.quiesce()
        self._close_receivers()

    def _close_receivers(self) -> None:
        """Close each receiver after the call that it is in."""
        for name, receiver in self._receivers.items():
            self._start(name, receiver.close, lambda _: None)

    def advance(self, now: Now) -> None:
        """Ask the tables, decide what is due by now, write it, and send what is written."""
        owed = self.owed
        self._read(now)
        age, owed.own_alerts.failure = (0.0, None) if self._progress is None else self._progress()
        owed.advance(now)
        for name in owed.watchers.keys() & owed.outboxes.keys():
            owed.outboxes[name].watchdog = self._watchdog if age * 1000 <= self._watchdog_ms else None
        self._write(now)
        is_recorded = owed.log.is_recorded(now.pace_ms)
        for box in owed.outboxes.values():
            if (send := box.pick(now, is_recorded=is_recorded)) is not None:
                act = partial(call, self._receivers[send.receiver], send, now)
                self._start(send.receiver, act, partial(self.settle, send))
        if now.pace_ms >= self._counted_at_ms + OWED_MS:
            self._counted_at_ms = now.pace_ms
            self._listener.owes({name: box.count() for name, box in owed.outboxes.items()})

    def wait_ms(self, pace_ms: int) -> float:
        """Return the time until something is due, or the tables are read again."""
        is_recorded = self.owed.log.is_recorded(pace_ms)
        times = [box.wake_at_ms(is_recorded=is_recorded) for box in self.owed.outboxes.values()]
        if not is_recorded:
            times.append(self.owed.log.late_at_ms)
        return min(self._poll_ms, max(0, min((at for at in times if at is not None), default=1 << 62) - pace_ms))

    def _write(self, now: Now, *, is_last: bool = False) -> None:
        """Begin to append the decisions, unless a write is under way or failed just before."""
        written = self.owed.log
        if written.begin(now.pace_ms, is_last=is_last):
            self._start("log", written.append, lambda error: written.end(error, self._now().pace_ms))

    def _read(self, now: Now) -> None:
        """Begin to read the alerts if there may be more, and all tables every oncall.poll_seconds."""
        is_due = now.pace_ms >= self._read_at_ms + self._poll_ms
        self._read_at_ms = now.pace_ms if is_due else self._read_at_ms
        for name, read in self._reads.items():
            if name not in self._reading and (is_due or (self._wants_rows and name == ALERTS.name)):
                if name == ALERTS.name:
                    self._wants_rows = False  # before the read begins: a `look` meanwhile asks for another
                self._reading.add(name)
                self._start(name, read, partial(self._take_read, self.owed, self._reading, name))

    def _take_read(self, owed: Owed, reading: set[str], name: str, found: Any) -> None:
        """Take what was read of a table, or the error. What was begun before the tables were loaded again is lost."""
        reading.discard(name)
        if isinstance(found, TABLE_ERRORS):
            file = getattr(found, "file", None)
            if name not in self._unreadable:
                self._unreadable.add(name)
                log.error("table not read, retrying", table=name, file=file, error=str(found)[:500])
            if name == SILENCES.name and file is not None:
                owed.silence([])  # a damaged table silences nothing; of one that is away the known ones stay
            elif isinstance(found, AlertLogError):
                self._is_stale.set()  # the log no longer says what is new
            return
        if isinstance(found, Exception):
            raise found
        self._unreadable.discard(name)
        if name == ALERTS.name:
            owed.observe(found, self._now())
            self._on_read()
        elif name == SILENCES.name and found is not None:
            owed.silence(found)
        elif found is not None:
            owed.acknowledge(found, self._now())

    def _start(self, name: str, act: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run `act` in a thread; `then` takes its result, or its error, in the relay's."""

        def work() -> None:
            self._inbox.put(partial(then, attempt(act)))

        threading.Thread(target=work, name=f"relay-{name}", daemon=True).start()

    def _take(self, wait_seconds: float) -> None:
        """Wait for the first news, then take all."""
        try:
            news = self._inbox.get(timeout=max(wait_seconds, LEAST_WAIT_SECONDS))
            while True:
                if news is not None:
                    news()
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _take_while(self, is_waiting: Callable[[], bool], deadline: float) -> None:
        while is_waiting() and time.monotonic() < deadline:
            self._take(0.1)

    def settle(self, send: Send, reply: tuple[Answer, int]) -> None:
        """Take the answer to a call, and its duration, ms."""
        now, name, (answer, latency_ms) = self._now(), send.receiver, reply
        self._listener.answered(name, answer, latency_ms)
        box = self.owed.outboxes.get(name)
        if box is None or box.flying is not send:
            return  # of a call from before the tables were loaded again
        records = box.settle(answer, now, latency_ms)
        self.owed.log.add(*records)
        if name == CANARY and any(record["status"] == "firing" for record in records):
            self.owed.own_alerts.note_canary(now.pace_ms)
        if answer.verdict != "DELIVERED":
            said = {"verdict": answer.verdict, "code": answer.code, "reason": answer.reason}
            log.warning("notification not delivered", receiver=name, **said)


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return what the relay would send now, in order, and what it withholds: a row per notification and receiver.

    Writes nothing. Raises NotWrittenError, TableAccessError, SettingsError.
    """
    open_written(settings.paths.warehouse, ALERTS)
    relay = Relay(settings)  # it is not started
    relay.load(RelayTables(settings.paths.warehouse, may_write=False))
    planned: list[tuple[str, Notice, str, str]] = []
    for name, box in relay.owed.outboxes.items():
        planned += [(name, delivery.notice, delivery.route, delivery.why()) for delivery in box.owed()]
        planned += [(name, notice, "", "repeated: the receiver would resolve it otherwise") for notice in box.renewed()]
    for incident in relay.owed.incidents.values():
        if (withheld := incident.withheld) and incident.newest and incident.is_news(incident.newest):
            why = f"not notified: {WITHHELD.get(withheld['outcome'], '')}{withheld['reason']}"
            planned.append((EVERYBODY, incident.newest, "", why))
    return [
        {
            "receiver": receiver,
            "status": "resolved" if notice.status == "resolved" else "firing",
            **{name: getattr(notice, name) for name in ("kind", "severity", "incident_id")},
            "route": route,
            "why": why,
            "summary": notice.summary,
        }
        for receiver, notice, route, why in planned
    ]


def attempt(act: Callable[[], Any], failed: str = "") -> Any:
    """Return the result, or the error that it raised, which is logged as `failed`."""
    try:
        return act()
    except Exception as error:
        if failed:
            log.error(failed, error=str(error)[:500])
        return error


def call(receiver: Receiver, send: Send, now: Now) -> tuple[Answer, int]:
    """Call a receiver; return its answer and the duration, ms. If it raises, which it must not, the call has failed."""
    began = time.monotonic()
    try:
        answer = receiver.send(send.notices, now.wall_ms)
    except Exception as error:
        log.error("receiver failed", receiver=send.receiver, error=type(error).__name__)
        answer = Answer("RETRY", None, f"internal error in the receiver: {type(error).__name__}")
    return answer, round((time.monotonic() - began) * 1000)
