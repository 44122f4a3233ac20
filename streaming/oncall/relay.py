"""The relay at work: rows in, calls out, answers in, by the loop of relay_loop.

One thread decides; a thread a receiver calls.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from conf.oncall import OnCall
from streaming.oncall.delivery import Delivery, Send
from streaming.oncall.delivery_log import DeliveryLog, OperatorInput
from streaming.oncall.mute import Mute
from streaming.oncall.notice import Notice
from streaming.oncall.now import Clock
from streaming.oncall.receiver import Receiver
from streaming.oncall.relay_alerts import watchdog
from streaming.oncall.relay_listener import NullListener, RelayListener
from streaming.oncall.relay_loop import RelayLoop
from streaming.oncall.transition import Transition
from streaming.oncall.wiring import make_desk, make_routes
from streaming.oncall.worker import Reply, Worker
from streaming.text.times import wall_ms
from udfs.alerts.routing import pick_watchdog_receivers

log = structlog.get_logger()

LEAST_WAIT_SECONDS = 0.005
DRAIN_SECONDS = 10.0
"""How long a relay that stops waits for the calls in flight."""

ProgressAge = Callable[[], float]
"""Seconds since the queries last made progress."""


class Relay:
    """Restores itself from the tables when made. `observe` may be called from any thread."""

    def __init__(
        self,
        settings: OnCall,
        delivery_log: DeliveryLog,
        operator_input: OperatorInput,
        receivers: Mapping[str, Receiver],
        *,
        progress_age: ProgressAge | None = None,
        lost_after_ms: int | None = None,
        listener: RelayListener | None = None,
        mutes: Sequence[Mute] = (),
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._settings, self._delivery_log, self._wall_ms = settings, delivery_log, now_ms
        self._clock = Clock(now_ms)
        now = self._clock.now()
        self._progress_age = progress_age
        self._started_at_ms = now.wall_ms
        routes = make_routes(settings, receivers)
        rng = random.Random()  # noqa: S311  # jitter
        self.policy = make_desk(settings, receivers, routes, rng, lost_after_ms, mutes)
        self._inbox: queue.SimpleQueue[list[Transition] | Reply] = queue.SimpleQueue()
        self._receivers = receivers
        self._workers: dict[str, Worker] = {}
        self._loop = RelayLoop(
            self.policy,
            delivery_log,
            operator_input,
            self._call,
            listener or NullListener(),
            now,
            watchers=pick_watchdog_receivers(routes),
            watchdog=self._watchdog,
            poll_ms=settings.poll_seconds * 1000,
            resolved_resend_ms=round(settings.resolved_resend_seconds * 1000),
        )
        self.version = self._loop.version

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
        self.policy.flush(self._clock.now())
        while time.monotonic() < deadline and not (stop and stop.is_set()) and self._has_news():
            self.step()
        return sum(1 for _ in self.owed())

    def _has_news(self) -> bool:
        """Whether a call is in flight, or something is due that was never tried; an answer may bring that about."""
        self.policy.advance(self._clock.now())
        return self.is_busy() or any(not delivery.attempts for delivery in self.owed())

    def owed(self) -> Iterator[Delivery]:
        """All that is due to anybody."""
        return (delivery for box in self.policy.outboxes.values() for delivery in box.owed())

    def step(self, wait_seconds: float | None = None) -> None:
        """Decide, write, send; then wait for news, at most until something is due."""
        now = self._clock.now()
        self._loop.step(now)
        self._take(self._loop.wait_ms(now.pace_ms) / 1000 if wait_seconds is None else wait_seconds)

    def is_busy(self) -> bool:
        """Whether a call is in flight."""
        return any(box.is_flying() for box in self.policy.outboxes.values())

    def close(self) -> None:
        """End the workers; answers that come in time are written."""
        for worker in self._workers.values():
            worker.stop()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.is_busy() and time.monotonic() < deadline:
            self._take(0.1)
        self._loop.write()

    def _watchdog(self, now_ms: int) -> Notice | None:
        if self._progress_age is None:
            return watchdog(self._started_at_ms, now_ms, "the relay works; it does not cover the queries")
        if self._progress_age() > self._settings.watchdog_seconds:
            return None
        return watchdog(self._started_at_ms, now_ms, "the queries progress and the relay works")

    def _call(self, send: Send) -> None:
        name = send.receiver
        if name not in self._workers:
            self._workers[name] = Worker(self._receivers[name], self._inbox.put, self._wall_ms)
        self._workers[name].call(send)

    def _take(self, wait_seconds: float) -> None:
        """Wait for the first news, then take all there is."""
        try:
            news = self._inbox.get(timeout=max(wait_seconds, LEAST_WAIT_SECONDS))
            while True:
                self._loop.handle(news, self._clock.now())
                news = self._inbox.get_nowait()
        except queue.Empty:
            return
