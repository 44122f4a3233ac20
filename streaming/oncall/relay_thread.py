"""The relay beside the query: a thread that never ends or slows it, and starts anew when it fails."""

import threading
import time
from collections.abc import Callable

import structlog
from pyspark.sql import SparkSession

from conf.settings import Settings, SettingsError
from streaming.oncall.alert_feed import AlertFeed
from streaming.oncall.canary import CanaryReceiver, lost_after_ms
from streaming.oncall.ears import Deaf, Ears
from streaming.oncall.ledger import Ledger, Words
from streaming.oncall.own_alerts import CANARY
from streaming.oncall.relay import ProgressAge, Relay
from streaming.oncall.switchboard import make_receivers

log = structlog.get_logger()

HEALTHY_SECONDS = 60.0
PAUSE_MOST_SECONDS = 60.0
DRAIN_SECONDS = 10.0


class RelayLostError(RuntimeError):
    """A relay of its own hears of new alerts no more. The message says why."""


class RelayThread:
    """`start` and `stop` it. Whatever goes wrong inside is logged, and after a pause it begins anew from the tables."""

    def __init__(
        self,
        settings: Settings,
        spark: Callable[[], SparkSession],
        progress_age: ProgressAge | None = None,
        *,
        expects_canary: bool = False,
        ears: Ears | None = None,
    ) -> None:
        """Raises SettingsError when a receiver's secret is missing. `spark` gives the session the stream runs in.

        With `expects_canary` the absence of the canary is an alert, where the settings have one. `ears` hear it all.
        """
        _check(settings)
        self._settings, self._spark, self._progress_age = settings, spark, progress_age
        self._expects_canary, self._ears = expects_canary, ears or Deaf()
        self._stop = threading.Event()
        self._end = threading.Event()
        self._is_up = threading.Event()
        self._feed: AlertFeed | None = None
        self._thread = threading.Thread(target=self._supervise, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_until_up(self) -> None:
        """Return when it hears of new alerts, or has had DRAIN_SECONDS to come so far."""
        if self._thread.is_alive():
            self._is_up.wait(DRAIN_SECONDS)

    def renew(self, settings: Settings) -> None:
        """Go on by other settings, from the tables; by the old ones where a receiver's secret is missing."""
        try:
            _check(settings)
        except SettingsError as error:
            log.error("whom to tell is not changed", reason=str(error))
            return
        self._settings = settings
        self._end.set()

    def stop(self) -> None:
        """Once it has taken in what the table holds, and tried each new notice once or for ten seconds."""
        self.wait_until_up()  # a short run may be over before the tables are read
        feed = self._feed
        if feed is not None:
            feed.drain(DRAIN_SECONDS)
        self._stop.set()
        self._end.set()
        self._thread.join(4 * DRAIN_SECONDS)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def lost(self) -> str | None:
        """Why it will hear of new alerts no more, or only from the table itself."""
        feed = self._feed
        return None if feed is None else feed.lost()

    def _supervise(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._relay()
            except Exception as error:
                if time.monotonic() - began >= HEALTHY_SECONDS:
                    pause = 1.0
                log.error("the relay failed and starts again", error=str(error)[:300], seconds=pause)
                self._ears.restarted()
                self._stop.wait(pause)
                pause = min(PAUSE_MOST_SECONDS, 2 * pause)

    def _relay(self) -> None:
        self._end = end = threading.Event()  # before the settings and `_stop` are looked at, which are set first
        if self._stop.is_set():
            return
        settings = self._settings
        warehouse = settings.paths.warehouse
        receivers = make_receivers(settings.oncall)
        has_canary = settings.canary.interval_seconds > 0
        if has_canary:
            receivers[CANARY] = CanaryReceiver()
        overdue_ms = lost_after_ms(settings) if has_canary else 0
        relay = Relay(
            settings.oncall,
            Ledger(warehouse),
            Words(warehouse),
            receivers,
            progress_age=self._progress_age,
            lost_after_ms=overdue_ms if self._expects_canary else None,
            ears=self._ears,
        )
        self._feed = feed = AlertFeed(self._spark, settings, relay.version, relay.observe, on_lost=end.set)
        feed.start()
        self._is_up.set()
        try:
            relay.run(end)
        finally:
            self._feed = None
            feed.stop()


def _check(settings: Settings) -> None:
    for receiver in make_receivers(settings.oncall).values():
        receiver.close()
