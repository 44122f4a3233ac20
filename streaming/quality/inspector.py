"""The quality part of `run`: a thread that validates samples of the messages that the query has just read.

A query only notes that a batch is done. The thread reads the position of the query from its checkpoint, takes a sample
of those messages from Kafka, and writes `quality` and, if needed, `data_quality`.
"""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.settings import Settings
from schemas.tables import ALERTS, QUALITY
from streaming.quality.inspection import Inspection
from streaming.quality.quality_alert import QualityAlerts, QuarantineShare, read_open_topics
from streaming.queries import balance
from streaming.queries.checkpoint import Offsets, Position, checkpoint_of, read_beginning, read_position
from streaming.queries.written_batch import WrittenBatch
from streaming.text.times import wall_ms
from streaming.warehouse.rows import Rows, arrow_table
from streaming.warehouse.writer import Writer

TOPICS = {balance.NAME: balance.TOPICS}

APP_ID = "balancewatch-quality"

OnAlerts = Callable[[list[dict[str, Any]]], None]

log = structlog.get_logger()


MOST_BATCHES = 1_000
"""Limit on batches of a query that are counted separately; of older ones the sum is kept."""


class ReadProgress:
    """Messages of each topic that the query read since the last look, and how many it quarantined. Not thread-safe.

    A batch's quarantined rows are noted before Spark commits the batch: they count with its messages, later. Nothing
    is forgotten before `settle`.
    """

    def __init__(self, checkpoints: Mapping[str, Path]) -> None:
        """`checkpoints` by query. Messages that were read before are not counted. Raises OSError or ValueError."""
        self._checkpoints = checkpoints
        self._ends: dict[str, Offsets] = {}
        self._quarantined: dict[str, dict[int, Counter[str]]] = defaultdict(dict)
        for name, checkpoint in checkpoints.items():
            position = read_position(checkpoint)
            if position is not None:
                self._ends[name] = dict(position.wanted)

    def note(self, name: str, batch_id: int, rows: Rows) -> None:
        """Note the quarantined rows of a batch; the same batch again counts once."""
        batches = self._quarantined[name]
        batches[batch_id] = Counter(row["topic"] for row in rows.get("quarantine", ()))
        if len(batches) > MOST_BATCHES:
            oldest, next_, *_ = sorted(batches)
            batches[next_] += batches.pop(oldest)

    def since_last(self, name: str, topic: str, position: Position) -> QuarantineShare:
        """Return the counts of the batches that are done at this position. A recreated partition counts from 0."""
        ends = self._ends.get(name)
        if ends is None:
            ends = self._ends[name] = read_beginning(self._checkpoints[name])
        read = 0
        for place, end in position.wanted.items():
            if place[0] == topic:
                begin = ends.get(place, 0)
                read += end - begin if end >= begin else end
        done = _done(position)
        return QuarantineShare(
            read, sum(of[topic] for batch_id, of in self._quarantined[name].items() if batch_id <= done)
        )

    def settle(self, name: str, topic: str, position: Position) -> None:
        """Forget the topic's counts up to this position, whose outcomes are written."""
        ends = self._ends.setdefault(name, {})
        ends |= {place: end for place, end in position.wanted.items() if place[0] == topic}
        batches, done = self._quarantined[name], _done(position)
        for batch_id in [one for one in batches if one <= done]:
            del batches[batch_id][topic]
            if not batches[batch_id]:
                del batches[batch_id]


def _done(position: Position) -> int:
    return position.batch_id if position.is_committed else position.batch_id - 1


class Inspector:
    """A BatchListener with a thread: `start` and `stop` it. A failure costs a look, never the query."""

    def __init__(self, settings: Settings, writer: Writer, on_alerts: OnAlerts | None = None, past_ms: int = 0) -> None:
        """`on_alerts` receives the rows of `alerts` that it writes; `past_ms` is as in Inspection."""
        self._past_ms = past_ms
        self._settings, self._writer, self._on_alerts = settings, writer, on_alerts
        self._batches: Counter[str] = Counter()
        self._due: set[str] = set()
        self._heard = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="quality", daemon=True)
        self._inspection: Any = None
        self._alerts = QualityAlerts(settings.quality, read_open_topics(settings.paths.warehouse))
        self._intake = ReadProgress({name: checkpoint_of(name, settings) for name in TOPICS})
        self._written_ms = 0

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Interrupt a validation, and wait for the thread, ten seconds at most."""
        with self._heard:
            self._is_stopping = True
            self._heard.notify()
        if self._inspection is not None:
            self._inspection.stop()
        self._thread.join(timeout=10)

    def on_batch(self, batch: WrittenBatch) -> None:
        self.note_batch(batch.query, batch.batch_id, batch.rows)

    def note_batch(self, name: str, batch_id: int, rows: Rows) -> None:
        """Note a batch of a query; every few batches lead to a look."""
        with self._heard:
            self._intake.note(name, batch_id, rows)
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
                    ready = min(waits, key=lambda name: waits[name], default=None)  # the most overdue
                    if ready is None or waits[ready] > 0:
                        self._heard.wait(None if ready is None else waits[ready])
                        ready = None
                if ready is None:
                    break
                self._due.discard(ready)
            looked_at[ready] = time.monotonic()
            try:
                self.look(ready, wall_ms())
            except Exception as error:  # the query continues in any case
                _warn(error, query=ready)
                self._forget()
        if self._inspection is not None:
            self._inspection.close()

    def _forget(self) -> None:
        """Reconnect, and read the open alerts from the table: a row may not have been written."""
        if self._inspection is not None:
            self._inspection.close()
        with suppress(Exception):  # the table may be the cause
            self._alerts = QualityAlerts(self._settings.quality, read_open_topics(self._settings.paths.warehouse))

    def look(self, name: str, now_ms: int) -> None:
        """Validate the messages that the query read last, topic by topic; topics without new messages are skipped.

        A topic that cannot be validated is logged and validated at the next look; the other topics continue.
        """
        position = read_position(checkpoint_of(name, self._settings))
        if position is None:
            return
        self._inspection = self._inspection or Inspection(self._settings, past_ms=self._past_ms)
        quality, alerts, looked_at = [], [], []
        for topic in TOPICS[name]:
            with self._heard:
                kept = self._intake.since_last(name, topic, position)
            if kept.read <= 0:
                alerts += self._alerts.rest(topic, now_ms)
                continue
            ends = {partition: offset for (of, partition), offset in position.wanted.items() if of == topic}
            try:
                inspected = self._inspection.look(topic, ends)
            except Exception as error:  # other topics continue in any case
                if self._is_stopping:
                    break
                _warn(error, query=name, topic=topic)
                self._inspection.close()
                if isinstance(error, KafkaError):
                    break  # each of the others would wait as long for Kafka
                continue
            quality += inspected.rows(name, now_ms)
            alerts += self._alerts.judge(topic, inspected.outcomes, kept, now_ms)
            looked_at.append(topic)
        self._inspection.end_look()
        self._write(quality, alerts, now_ms)
        with self._heard:
            for topic in looked_at:
                self._intake.settle(name, topic, position)

    def _write(self, quality: list[dict[str, Any]], alerts: list[dict[str, Any]], now_ms: int) -> None:
        self._written_ms = batch_id = max(now_ms, self._written_ms + 1)
        for table, rows in ((QUALITY, quality), (ALERTS, alerts)):
            if rows:
                self._writer.append(table, arrow_table(rows, table, batch_id), APP_ID, batch_id)
        if alerts and self._on_alerts is not None:
            self._on_alerts(alerts)
        for row in alerts:
            log.warning("data quality alert changed", state=row["state"], topic=row["topic"], summary=row["summary"])


def end_open(settings: Settings, writer: Writer, on_alerts: OnAlerts | None = None) -> None:
    """Resolve the alerts that an earlier `run` left open, because this one validates nothing."""
    now_ms = wall_ms()
    rows = QualityAlerts(settings.quality, read_open_topics(settings.paths.warehouse)).end_all(now_ms)
    if rows:
        writer.append(ALERTS, arrow_table(rows, ALERTS, now_ms), APP_ID, now_ms)
        if on_alerts is not None:
            on_alerts(rows)


def _warn(error: Exception, **where: str) -> None:
    log.warning("events not validated", **where, reason=f"{type(error).__name__}: {error}"[:500])
