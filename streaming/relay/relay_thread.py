"""The relay beside the query, or alone: a thread that never ends or slows a batch, and the dry run."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from conf.oncall import CANARY
from conf.settings import Settings, SettingsError
from schemas.tables import ALERTS
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.canary import CanaryReceiver, lost_after_ms
from streaming.relay.notice import EVERYBODY, Notice
from streaming.relay.outbox import Delivery, Pace
from streaming.relay.receivers import make_receivers
from streaming.relay.receivers.posting import Receiver
from streaming.relay.relay import DRAIN_SECONDS, ProgressAge, Relay, RelayListener, make_owed
from streaming.relay.silences import make_mutes
from streaming.relay.tables import RelayTables
from streaming.warehouse.readable_rows import open_written

log = structlog.get_logger()

HEALTHY_SECONDS = 60.0
PAUSE_MOST_SECONDS = 60.0
IDLE_SECONDS = 0.05

WITHHELD = {"SILENCED": "silenced by ", "INHIBITED": "inhibited by "}


def make_relay(
    settings: Settings, receivers: Mapping[str, Receiver], *, lost_after_ms: int | None = None, **options: Any
) -> Relay:
    """Return a relay of these receivers that has loaded the tables; `options` are those of Relay.

    Raises TableAccessError.
    """
    owed = make_owed(settings.oncall, receivers, make_mutes(settings.mutes), lost_after_ms)
    return Relay(owed, RelayTables(settings.paths.warehouse), receivers, Pace.of(settings.oncall), **options)


class RelayThread:
    """`start` and `stop` it. A failure is logged, and after a pause it resumes from the tables.

    As a BatchListener it reads the alerts table after each batch with alerts; `look` announces alerts of no batch. It
    keeps what it has in memory, renews leases and delivers, until the tables can be read for the next life.
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
        """With `follows_log` it reads the alerts table every oncall.poll_seconds: no query of this process announces
        its batches. With `expects_canary` a canary that does not arrive is an alert, if the settings inject one.
        `on_read` is called whenever all new rows are taken.

        Raises SettingsError if the secret of a receiver is missing.
        """
        make_receivers(settings.oncall)
        self._settings, self._progress_age = settings, progress_age
        self._follows_log, self._expects_canary = follows_log, expects_canary
        self._listener, self._on_read = listener or RelayListener(), on_read
        self._stop, self._is_stale, self._is_up = threading.Event(), threading.Event(), threading.Event()
        self._relay: Relay | None = None
        self._loaded_at, self._resumes_at, self._pause_seconds = time.monotonic(), 0.0, 1.0
        self._thread = threading.Thread(target=self._supervise, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def on_batch(self, batch: WrittenBatch) -> None:
        """Read the alerts that the batch has written."""
        if batch.rows.get(ALERTS.name):
            self.look()

    def look(self) -> None:
        """Read new alerts. A relay that has not loaded yet reads them then."""
        if (relay := self._relay) is not None:
            relay.look()

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
        self.look()

    def stop(self) -> None:
        """Stop once it has taken all that the table holds, and tried each new notification once or for ten seconds."""
        self.wait_until_up()  # a short run may be over before the tables are read
        self._stop.set()
        self.look()
        self._thread.join(4 * DRAIN_SECONDS)

    def _supervise(self) -> None:
        while not self._stop.is_set():
            if (self._relay is None or self._is_stale.is_set()) and time.monotonic() >= self._resumes_at:
                try:
                    self._resume()
                except Exception as error:
                    self._pause(error)
            relay = self._relay
            if relay is None:
                self._stop.wait(IDLE_SECONDS)
                continue
            try:
                relay.step()
            except Exception as error:
                self._relay = None
                self._pause(error)
                self._close(relay)
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.finish(DRAIN_SECONDS)
            self._close(relay)

    def _resume(self) -> None:
        """Load the tables into a new relay. If that fails the relay before continues from its memory."""
        before = self._relay
        if before is not None:
            before.quiesce()
        self._is_stale.clear()
        try:
            self._relay = self._make()  # from here on batches go to it; it first reads what was committed before
        except Exception:
            self._is_stale.set()
            raise
        self._loaded_at = time.monotonic()
        if before is not None:
            self._close(before)
        self._is_up.set()

    def _make(self) -> Relay:
        settings = self._settings
        receivers = make_receivers(settings.oncall, settings.runbooks_url)
        has_canary = settings.canary.interval_seconds > 0
        if has_canary:
            receivers[CANARY] = CanaryReceiver()
        overdue_ms = lost_after_ms(settings) if has_canary else 0
        return make_relay(
            settings,
            receivers,
            lost_after_ms=overdue_ms if self._expects_canary else None,
            follows_log=self._follows_log,
            on_read=self._on_read,
            on_lost=self._is_stale.set,
            progress_age=self._progress_age,
            listener=self._listener,
        )

    def _pause(self, error: Exception) -> None:
        if time.monotonic() - self._loaded_at >= HEALTHY_SECONDS:
            self._pause_seconds = 1.0
        self._resumes_at = time.monotonic() + self._pause_seconds
        event = "relay restarted" if self._relay is None else "relay continues from memory, tables not loaded"
        log.error(event, error=str(error)[:500], retry_in=self._pause_seconds)
        self._pause_seconds = min(PAUSE_MOST_SECONDS, 2 * self._pause_seconds)
        if self._relay is None:
            self._listener.restarted()

    @staticmethod
    def _close(relay: Relay) -> None:
        try:
            relay.close()
        except Exception as error:
            log.error("relay not closed", error=str(error)[:500])


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return what the relay would send: a row per notification and receiver, in sending order. Writes nothing.

    Raises NotWrittenError, TableAccessError, SettingsError.
    """
    open_written(settings.paths.warehouse, ALERTS)
    receivers = make_receivers(settings.oncall)
    owed = make_owed(settings.oncall, receivers, make_mutes(settings.mutes))
    tables = RelayTables(settings.paths.warehouse, may_write=False)
    Relay(owed, tables, receivers, Pace.of(settings.oncall))  # it loads what is owed, and is not started
    rows = []
    for name, box in owed.outboxes.items():
        rows += [_row(name, delivery.notice, delivery.route, _why(delivery)) for delivery in box.owed()]
        why = "repeated: the receiver would resolve it otherwise"
        rows += [_row(name, notice, "", why) for notice in box.renewed()]
    for notice, withheld in owed.withheld():
        why = f"not notified: {WITHHELD.get(withheld.outcome, '')}{withheld.reason}"
        rows.append(_row(EVERYBODY, notice, "", why))
    return rows


def _why(delivery: Delivery) -> str:
    if delivery.notice.status == "acknowledged":
        return delivery.notice.reason or ""
    if not delivery.attempts:
        return "pending"
    return f"pending after {delivery.attempts} failed {'call' if delivery.attempts == 1 else 'calls'}"


def _row(receiver: str, notice: Notice, route: str, why: str) -> dict[str, Any]:
    return {
        "receiver": receiver,
        "status": "resolved" if notice.status == "resolved" else "firing",
        "kind": notice.kind,
        "severity": notice.severity,
        "incident_id": notice.incident_id,
        "route": route,
        "why": why,
        "summary": notice.summary,
    }
