"""The relay beside the query: a thread that never ends or slows a batch, and starts anew when it fails.

The tables are what it begins from, at each start: what nobody handed over is found there.
"""

import threading
import time
from collections.abc import Callable

import structlog

from conf.oncall import CANARY
from conf.settings import Settings, SettingsError
from streaming.oncall.alert_feed import AlertFeed
from streaming.oncall.canary import CanaryReceiver, lost_after_ms
from streaming.oncall.delivery_log import DeliveryLog, OperatorInput
from streaming.oncall.mute import make_mutes
from streaming.oncall.relay import ProgressAge, Relay
from streaming.oncall.relay_listener import NullListener, RelayListener
from streaming.oncall.wiring import make_receivers
from streaming.queries.written_batch import WrittenBatch

log = structlog.get_logger()

HEALTHY_SECONDS = 60.0
PAUSE_MOST_SECONDS = 60.0
DRAIN_SECONDS = 10.0


class RelayThread:
    """`start` and `stop` it. Whatever goes wrong inside is logged, and after a pause it begins anew from the tables.

    A BatchListener: beside a query it is told of each batch, and of alerts that are in none by `look`.
    """

    def __init__(
        self,
        settings: Settings,
        progress_age: ProgressAge | None = None,
        *,
        follows_log: bool = False,
        expects_canary: bool = False,
        listener: RelayListener | None = None,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises SettingsError when a receiver's secret is missing.

        With `follows_log` it looks for new alerts in the table's log, every oncall.poll_seconds: no query of this
        process hands them over. With `expects_canary` the absence of the canary is an alert, where the settings have
        one. `listener` hears it all; `on_read` is called whenever all that was new was taken over.
        """
        _check(settings)
        self._settings, self._progress_age = settings, progress_age
        self._follows_log, self._expects_canary = follows_log, expects_canary
        self._listener, self._on_read = listener or NullListener(), on_read
        self._stop = threading.Event()
        self._end = threading.Event()
        self._is_up = threading.Event()
        self._feed: AlertFeed | None = None
        self._thread = threading.Thread(target=self._supervise, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def on_batch(self, batch: WrittenBatch) -> None:
        """Its alerts go to the policy. While there is none they are in the tables, which the next one begins from."""
        feed = self._feed
        if feed is not None:
            feed.on_batch(batch)

    def look(self) -> None:
        """Alerts were written that are in no batch."""
        feed = self._feed
        if feed is not None:
            feed.look()

    def wait_until_up(self) -> None:
        """Return when it hears of new alerts, or has had DRAIN_SECONDS to come so far."""
        if self._thread.is_alive():
            self._is_up.wait(DRAIN_SECONDS)

    def renew(self, settings: Settings) -> None:
        """Go on by other settings, from the tables; by the old ones where a receiver's secret is missing."""
        try:
            _check(settings)
        except SettingsError as error:
            log.error("notification settings invalid, keeping the previous ones", reason=str(error))
            return
        self._settings = settings
        self._end.set()

    def stop(self) -> None:
        """Once it has taken in what the table holds, and tried each new notice once or for ten seconds."""
        self.wait_until_up()  # a short run may be over before the tables are read
        feed = self._feed
        if feed is not None:
            feed.drain()
        self._stop.set()
        self._end.set()
        self._thread.join(4 * DRAIN_SECONDS)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _supervise(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._relay()
            except Exception as error:
                if time.monotonic() - began >= HEALTHY_SECONDS:
                    pause = 1.0
                log.error("relay restarted", error=str(error)[:300], retry_in=pause)
                self._listener.restarted()
                self._stop.wait(pause)
                pause = min(PAUSE_MOST_SECONDS, 2 * pause)

    def _relay(self) -> None:
        self._end = end = threading.Event()  # before the settings and `_stop` are looked at, which are set first
        if self._stop.is_set():
            return
        settings = self._settings
        warehouse = settings.paths.warehouse
        receivers = make_receivers(settings.oncall, settings.runbooks_url)
        has_canary = settings.canary.interval_seconds > 0
        if has_canary:
            receivers[CANARY] = CanaryReceiver()
        overdue_ms = lost_after_ms(settings) if has_canary else 0
        relay = Relay(
            settings.oncall,
            DeliveryLog(warehouse),
            OperatorInput(warehouse),
            receivers,
            progress_age=self._progress_age,
            lost_after_ms=overdue_ms if self._expects_canary else None,
            listener=self._listener,
            mutes=make_mutes(settings.mutes),
        )
        self._feed = feed = AlertFeed(
            settings,
            relay.version,
            relay.observe,
            follows_log=self._follows_log,
            on_lost=end.set,
            on_read=self._on_read,
        )
        feed.start()  # from here on: what was committed before, it reads itself
        self._is_up.set()
        try:
            relay.run(end)
        finally:
            self._feed = None
            feed.stop()


def _check(settings: Settings) -> None:
    for receiver in make_receivers(settings.oncall).values():
        receiver.close()
