"""The relay beside the queries: a thread that never ends or slows them, and starts anew when it fails."""

import threading
from collections.abc import Callable

import structlog
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.oncall.alert_stream import AlertStream
from streaming.oncall.canary import CanaryReceiver, lost_after_ms
from streaming.oncall.ledger import Ledger, Words
from streaming.oncall.own_alerts import CANARY
from streaming.oncall.relay import ProgressAge, Relay
from streaming.oncall.switchboard import make_receivers

log = structlog.get_logger()

PAUSE_MOST_SECONDS = 60.0
DRAIN_SECONDS = 10.0


class RelayThread:
    """`start` and `stop` it. Whatever goes wrong inside is logged, and after a pause it begins anew from the tables."""

    def __init__(
        self, settings: Settings, spark: Callable[[], SparkSession], progress_age: ProgressAge | None = None
    ) -> None:
        """Raises SettingsError when a receiver's secret is missing. `spark` gives the session the stream runs in."""
        for receiver in make_receivers(settings.oncall).values():
            receiver.close()
        self._settings, self._spark, self._progress_age = settings, spark, progress_age
        self._stop = threading.Event()
        self._stream: AlertStream | None = None
        self._thread = threading.Thread(target=self._supervise, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Once it has taken in what the table holds, and tried each new notice once or for ten seconds."""
        stream = self._stream
        if stream is not None:
            stream.drain(DRAIN_SECONDS)
        self._stop.set()
        self._thread.join(4 * DRAIN_SECONDS)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _supervise(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            try:
                self._relay()
                pause = 1.0
            except Exception as error:
                log.error("the relay failed and starts again", error=str(error)[:300], seconds=pause)
                self._stop.wait(pause)
                pause = min(PAUSE_MOST_SECONDS, 2 * pause)

    def _relay(self) -> None:
        settings = self._settings
        warehouse = settings.paths.warehouse
        receivers = make_receivers(settings.oncall)
        has_canary = settings.canary.interval_seconds > 0
        if has_canary:
            receivers[CANARY] = CanaryReceiver()
        relay = Relay(
            settings.oncall,
            Ledger(warehouse),
            Words(warehouse),
            receivers,
            progress_age=self._progress_age,
            lost_after_ms=lost_after_ms(settings) if has_canary else None,
        )
        self._stream = stream = AlertStream(self._spark(), settings, relay.version, relay.observe)
        try:
            relay.run(self._stop, stream.check)
        finally:
            self._stream = None
            stream.stop()
