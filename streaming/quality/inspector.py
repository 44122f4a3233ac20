"""The quality part of `run`: a thread that validates samples of what the queries have just read, beside them.

A query only tells that a batch is done, which costs it nothing. The thread finds in the query's checkpoint how far it
has read, takes a sample of those messages from Kafka, and writes `quality` and, when it comes to that, `data_quality`.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from conf.settings import Settings
from schemas.events import CLOCKS
from schemas.tables import ALERTS, QUALITY
from streaming.checkpoint_offsets import Offsets, read_position
from streaming.data_loss import checkpoint_of
from streaming.quality.quality_alert import Kept, QualityAlerts, read_open
from streaming.queries import assignments, fault_items
from streaming.queries.rows import Rows, arrow_table
from streaming.queries.warehouse import Writer

TOPICS = {
    fault_items.NAME: [topic for topic in fault_items.TOPICS if topic != CLOCKS],  # the other query reads them too
    assignments.NAME: list(assignments.TOPICS),
}

APP_ID = "balancewatch-quality"

OnAlerts = Callable[[list[dict[str, Any]]], None]

log = structlog.get_logger()


class Inspector:
    """`start`, `hear` after each batch, `stop`. What goes wrong in it costs a look, never the queries."""

    def __init__(self, settings: Settings, writer: Writer, on_alerts: OnAlerts | None = None) -> None:
        """`on_alerts` is told the rows of `alerts` that it writes."""
        self._settings, self._writer, self._on_alerts = settings, writer, on_alerts
        self._batches: Counter[str] = Counter()
        self._quarantined: Counter[str] = Counter()
        self._due: set[str] = set()
        self._heard = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="quality", daemon=True)
        self._inspection: Any = None
        self._alerts = QualityAlerts(settings.quality, read_open(settings.paths.warehouse))
        positions = [read_position(checkpoint_of(name, settings)) for name in TOPICS]
        self._ends: Offsets = {place: end for one in positions if one is not None for place, end in one.wanted.items()}
        self._written_ms = 0

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """A look under way is waited for, ten seconds at the most."""
        with self._heard:
            self._is_stopping = True
            self._heard.notify()
        self._thread.join(timeout=10)

    def hear(self, name: str, rows: Rows) -> None:
        """After each batch of a query."""
        with self._heard:
            for row in rows.get("quarantine", ()):
                self._quarantined[row["topic"]] += 1
            self._batches[name] += 1
            if self._batches[name] % self._settings.quality.every_batches == 0:
                self._due.add(name)
                self._heard.notify()

    def _work(self) -> None:
        looked_at: dict[str, float] = {}
        pause = self._settings.quality.pause_seconds
        while True:
            with self._heard:
                ready = None
                while not self._is_stopping and ready is None:
                    now = time.monotonic()
                    waits = {name: looked_at.get(name, -math.inf) + pause - now for name in self._due}
                    ready = min(waits, key=lambda name: waits[name], default=None)  # whose turn is longest overdue
                    if ready is None or waits[ready] > 0:
                        self._heard.wait(None if ready is None else waits[ready])
                        ready = None
                if ready is None:
                    break
                self._due.discard(ready)
            looked_at[ready] = time.monotonic()
            try:
                self.look(ready, time.time_ns() // 1_000_000)
            except Exception as error:  # whatever it is, the queries go on
                log.warning("events were not validated", query=ready, reason=f"{type(error).__name__}: {error}"[:500])
                self._forget()
        if self._inspection is not None:
            self._inspection.close()

    def _forget(self) -> None:
        """Connect anew; what is open is what the table says, for a row may not have been written."""
        if self._inspection is not None:
            self._inspection.close()
        with suppress(Exception):  # the table may be what went wrong
            self._alerts = QualityAlerts(self._settings.quality, read_open(self._settings.paths.warehouse))

    def look(self, name: str, now_ms: int) -> None:
        """Validate what the query has read last, topic by topic; those without anything new are left out."""
        from streaming.quality.inspection import Inspection  # noqa: PLC0415  # brings Great Expectations, which is large

        position = read_position(checkpoint_of(name, self._settings))
        if position is None:
            return
        self._inspection = self._inspection or Inspection(self._settings)
        quality, alerts = [], []
        for topic in TOPICS[name]:
            ends = {place: offset for place, offset in position.wanted.items() if place[0] == topic}
            kept = self._kept_since(topic, ends)
            if kept.read <= 0:
                alerts += self._alerts.rest(topic, now_ms)
                continue
            inspected = self._inspection.look(topic, {partition: offset for (_, partition), offset in ends.items()})
            quality += inspected.rows(name, now_ms)
            alerts += self._alerts.judge(topic, inspected.outcomes, kept, now_ms)
        self._write(quality, alerts, now_ms)

    def _kept_since(self, topic: str, ends: Offsets) -> Kept:
        """What was read of the topic since the last call."""
        read = sum(offset - self._ends.get(place, 0) for place, offset in ends.items())
        with self._heard:
            quarantined = self._quarantined.pop(topic, 0)
        self._ends |= ends
        return Kept(read, quarantined)

    def _write(self, quality: list[dict[str, Any]], alerts: list[dict[str, Any]], now_ms: int) -> None:
        self._written_ms = batch_id = max(now_ms, self._written_ms + 1)
        for table, rows in ((QUALITY, quality), (ALERTS, alerts)):
            if rows:
                self._writer.append(table, arrow_table(rows, table, batch_id), APP_ID, batch_id)
        if alerts and self._on_alerts is not None:
            self._on_alerts(alerts)
        for row in alerts:
            log.warning("data quality", state=row["state"], topic=row["topic"], summary=row["summary"])
