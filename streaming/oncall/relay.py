"""The relay at work: rows in, calls out, answers in, and each step in the delivery log before the next.

One thread decides; a thread a receiver calls. What is due is in the log before it is sent, and an answer before the
receiver is called again, so a crash repeats at most the one call that was in flight at each receiver. When the log
cannot be written, people are told all the same.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import structlog
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError as StoreCallError

from conf.oncall import OnCall
from streaming.oncall.duty import Duty
from streaming.oncall.ears import Deaf, Ears
from streaming.oncall.ledger import Ledger, Words
from streaming.oncall.notice import Notice
from streaming.oncall.now import Clock, Now
from streaming.oncall.own_alerts import CANARY, watchdog
from streaming.oncall.receiver import Receiver
from streaming.oncall.record import Record
from streaming.oncall.restore import restore
from streaming.oncall.switchboard import make_desk, make_routes
from streaming.oncall.transition import Transition
from streaming.oncall.worker import Reply, Worker
from udfs.routing import pick_watchdog_receivers

log = structlog.get_logger()

LEAST_WAIT_SECONDS = 0.005
OWED_MS = 1_000
"""Between two counts of what is due."""

DRAIN_SECONDS = 10.0
"""How long a relay that stops waits for the calls in flight."""

ProgressAge = Callable[[], float]
"""Seconds since the queries last made progress."""


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Relay:
    """Restores itself from the tables when made. `observe` may be called from any thread."""

    def __init__(
        self,
        settings: OnCall,
        ledger: Ledger,
        words: Words,
        receivers: Mapping[str, Receiver],
        *,
        progress_age: ProgressAge | None = None,
        lost_after_ms: int | None = None,
        ears: Ears | None = None,
        now_ms: Callable[[], int] = clock_ms,
    ) -> None:
        self._settings, self._ledger, self._words, self._wall_ms = settings, ledger, words, now_ms
        self._clock = Clock(now_ms)
        now = self._clock.now()
        self._progress_age, self._ears = progress_age, ears or Deaf()
        self._told_owed_ms = 0
        self._started_at_ms = now.wall_ms
        routes = make_routes(settings, receivers)
        self._watchers = pick_watchdog_receivers(routes)
        dice = random.Random()  # noqa: S311  # jitter
        self.desk = make_desk(settings, receivers, routes, dice, lost_after_ms)
        self._inbox: queue.SimpleQueue[list[Transition] | Reply] = queue.SimpleQueue()
        self._unwritten: list[Record] = []
        self._unwritten_alerts: list[dict[str, Any]] = []
        self._receivers = receivers
        self._workers: dict[str, Worker] = {}
        self._read_at_ms = now.pace_ms
        self.version = self._restore()

    def observe(self, transitions: Iterable[Transition]) -> None:
        """Rows of the alerts table, new or not."""
        self._inbox.put(list(transitions))

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set, then what is new once."""
        try:
            while not stop.is_set():
                self.step()
            self.finish(DRAIN_SECONDS)
        finally:
            self.close()

    def finish(self, seconds: float, stop: threading.Event | None = None) -> int:
        """Go on until each notice that is due was tried, the seconds are over, or `stop`; how many are still due."""
        deadline = time.monotonic() + seconds
        self.step(LEAST_WAIT_SECONDS)
        self.desk.flush(self._clock.now())
        while time.monotonic() < deadline and not (stop and stop.is_set()) and self._has_news():
            self.step()
        return sum(1 for _ in self.owed())

    def _has_news(self) -> bool:
        """Whether a call is in flight, or something is due that was never tried; an answer may bring that about."""
        self.desk.advance(self._clock.now())
        return self.is_busy() or any(not duty.attempts for duty in self.owed())

    def owed(self) -> Iterator[Duty]:
        """All that is due to anybody."""
        return (duty for box in self.desk.outboxes.values() for duty in box.owed())

    def step(self, wait_seconds: float | None = None) -> None:
        """Decide, write, send; then wait for news, at most until something is due."""
        now = self._clock.now()
        self._look(now)
        self._write()
        self._send(now)
        self._tell_owed(now.pace_ms)
        self._take(self._wait_seconds(now.pace_ms) if wait_seconds is None else wait_seconds)

    def is_busy(self) -> bool:
        """Whether a call is in flight."""
        return any(box.is_flying() for box in self.desk.outboxes.values())

    def close(self) -> None:
        """End the workers; answers that come in time are written."""
        for worker in self._workers.values():
            worker.stop()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.is_busy() and time.monotonic() < deadline:
            self._take(0.1)
        self._write()

    def _restore(self) -> int:
        """The version of the alerts table that was read."""
        now = self._clock.now()
        renewed_since_ms = now.wall_ms - round(self._settings.resolved_resend_seconds * 1000)
        history = self._ledger.read_history(self._receivers, renewed_since_ms, now.wall_ms)
        self._history_until_ms = history.until_ms
        for incident_id in history.settled:
            self.desk.settle(incident_id)
        self.desk.set_silences(self._words.read_silences() or [])
        restore(self.desk, history.stories, history.pasts, now)
        self.desk.acknowledge(self._words.read_acknowledgements() or [], now)
        self.desk.advance(now)
        return history.version

    def _look(self, now: Now) -> None:
        """Read what people said, every poll_seconds, and do what time brings."""
        if now.pace_ms >= self._read_at_ms + self._settings.poll_seconds * 1000:
            self._read_at_ms = now.pace_ms
            self._read_words(now)
        self.desk.advance(now)
        for name in self._watchers:
            if name in self.desk.outboxes:
                self.desk.outboxes[name].watchdog = self._watchdog(now.wall_ms)

    def _read_words(self, now: Now) -> None:
        silences = self._words.read_silences()
        if silences is not None:
            self.desk.set_silences(silences)
        words = self._words.read_acknowledgements()
        if words is not None:
            self.desk.acknowledge(words, now)

    def _watchdog(self, now_ms: int) -> Notice | None:
        if self._progress_age is None:
            return watchdog(self._started_at_ms, now_ms, "the relay works; it cannot say whether the queries do")
        if self._progress_age() > self._settings.watchdog_seconds:
            return None
        return watchdog(self._started_at_ms, now_ms, "the queries make progress and the relay works")

    def _write(self) -> None:
        """Alerts of our own first: the log's rows are about them."""
        if self.desk.records or self.desk.own_rows:
            self._ears.decided(self.desk.records, self.desk.own_rows)
        self._unwritten_alerts += self.desk.own_rows
        self._unwritten += self.desk.records
        self.desk.own_rows, self.desk.records = [], []
        try:
            if self._unwritten_alerts:
                self._ledger.append_alerts(self._unwritten_alerts)
                self._unwritten_alerts = []
            if self._unwritten:
                self._ledger.append(self._unwritten)
                self._unwritten = []
        except (DeltaError, StoreCallError, OSError) as error:
            log.error("the delivery log cannot be written; people are told all the same", error=str(error)[:300])

    def _send(self, now: Now) -> None:
        for name, box in self.desk.outboxes.items():
            send = box.pick(now)
            if send is not None:
                if name not in self._workers:
                    self._workers[name] = Worker(self._receivers[name], self._inbox.put, self._wall_ms)
                self._workers[name].call(send)

    def _tell_owed(self, pace_ms: int) -> None:
        if pace_ms >= self._told_owed_ms + OWED_MS:
            self._told_owed_ms = pace_ms
            self._ears.owes({name: sum(1 for _ in box.owed()) for name, box in self.desk.outboxes.items()})

    def _take(self, wait_seconds: float) -> None:
        """Wait for the first news, then take all there is."""
        try:
            news = self._inbox.get(timeout=max(wait_seconds, LEAST_WAIT_SECONDS))
            while True:
                self._hear(news)
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _hear(self, news: list[Transition] | Reply) -> None:
        now = self._clock.now()
        if isinstance(news, Reply):
            self._ears.answered(news)
            box = self.desk.outboxes[news.receiver]
            records = box.settle(news.answer, now, news.latency_ms)
            self.desk.records += records
            if news.receiver == CANARY and any(record.status == "firing" for record in records):
                self.desk.hear_canary(now)
            if news.answer.verdict != "DELIVERED":
                log.warning(
                    "not delivered",
                    receiver=news.receiver,
                    verdict=news.answer.verdict,
                    code=news.answer.code,
                    reason=news.answer.reason,
                )
        else:
            self.desk.observe(self._without_history(news), now)

    def _without_history(self, transitions: list[Transition]) -> list[Transition]:
        """Of what was over before a relay first looked, and was not told, only the end."""
        ends = [one for one in transitions if one.state == "RESOLVED" and one.at_ms <= self._history_until_ms]
        old = {one.incident_id for one in ends if not self._is_known(one.incident_id)}
        return [one for one in transitions if one.state == "RESOLVED" or one.incident_id not in old]

    def _is_known(self, incident_id: str) -> bool:
        story = self.desk.stories.get(incident_id)
        return story is not None and (story.told is not None or story.hold is not None)

    def _wait_seconds(self, pace_ms: int) -> float:
        times = [at for box in self.desk.outboxes.values() if (at := box.wake_at_ms()) is not None]
        until_ms = min(times, default=pace_ms + 3_600_000) - pace_ms
        return min(self._settings.poll_seconds, max(0, until_ms) / 1000)
