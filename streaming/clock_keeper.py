"""Clock events for clusters that only agents feed: without them no time passes, and silence goes unseen.

The assignments query says which clusters have events, but no clock of their own (`clock_wanted` rows). A cluster
whose events are of now is given a tick every `clock.interval_seconds`, until a clock of its own is heard. After a
restart the query asks again as soon as an event arrives.
"""

import threading
import time
from typing import Any

import structlog

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.ingest.publisher import Publisher, PublishError
from streaming.queries.rows import Rows
from streaming.queries.shard import CLOCK_WANTED, RUN

LIVE_MS = 60_000
"""Events further than this from the wall clock are a replay, whose time is not ours to move."""

PATIENCE_SECONDS = 15.0
"""How long a cluster must have asked before we speak for it: its own clock may only be late."""

log = structlog.get_logger()


class ClockKeeper:
    """A thread that sends ticks. `listen` is told each batch's rows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked_at: dict[str, float] = {}
        self._brokers: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="clock-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def listen(self, rows: Rows) -> None:
        """Learn from a batch: who asks for a clock, who has one, and which brokers there are."""
        with self._lock:
            for row in rows.get(CLOCK_WANTED, ()):
                self._note(row)
            for table in ("broker_health", "memberships"):
                for row in rows.get(table, ()):
                    self._brokers.setdefault(row["cluster"], set()).add(row["broker_name"])

    def _note(self, row: dict[str, Any]) -> None:
        cluster = row["cluster"]
        if not row["is_wanted"]:
            self._asked_at.pop(cluster, None)
        elif abs(row["newest_ms"] - time.time() * 1000) < LIVE_MS:
            self._asked_at.setdefault(cluster, time.monotonic())

    def wanted(self, now: float) -> list[tuple[str, list[str]]]:
        """Clusters that have asked long enough, with their known brokers. `now` is monotonic seconds."""
        with self._lock:
            return [
                (cluster, sorted(self._brokers.get(cluster, ())))
                for cluster, asked_at in sorted(self._asked_at.items())
                if now - asked_at >= PATIENCE_SECONDS
            ]

    def _keep(self) -> None:
        publisher: Publisher | None = None
        while not self._stop.wait(self._settings.clock.interval_seconds):
            wanted = self.wanted(time.monotonic())
            if not wanted:
                continue
            try:
                publisher = publisher or Publisher(self._settings.kafka)
                for cluster, brokers in wanted:
                    publisher.publish(CLOCKS, clock_event(cluster, brokers, time.time_ns() // 1_000_000))
                publisher.flush()
            except PublishError as error:
                log.warning("no clock event sent", reason=str(error))
        if publisher is not None:
            publisher.close()


def clock_event(cluster: str, brokers: list[str], now_ms: int) -> dict[str, Any]:
    """A tick of ours: it speaks for the brokers that agents report, and takes them as heard."""
    return {
        "cluster": cluster,
        "source": RUN,
        "brokers_asked": brokers,
        "brokers_answered": brokers,
        "event_time_ms": now_ms,
    }
