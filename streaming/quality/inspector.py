"""The quality part of `run`: a thread that validates samples of the messages that the query has just read.

The query only notes that a batch is done. The thread reads the position of the query from its checkpoint, takes a
sample of those messages from Kafka, and writes `quality` and, if needed, `data_quality`: a topic whose events
repeatedly fail their expectations.

A validation fails if a critical expectation fails for more than `alert_share` of the rows; the contract counts all
messages since the last validation, not only the sample. It passes below half of that share. `alert_validations`
consecutive failures open the alert, as many passes resolve it. A topic has one alert.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.settings import Quality, Settings
from schemas.expectations import Severity
from schemas.suites import CONTRACT
from schemas.tables import ALERTS, QUALITY
from streaming.quality.inspection import Inspection, outcome_of
from streaming.queries import balance
from streaming.queries.checkpoint import Checkpoint, Position, checkpoint_of, read_beginning, read_position
from streaming.queries.rows import Row
from streaming.queries.written_batch import WrittenBatch
from streaming.self_monitoring.self_alerts import OpenAlert, SelfAlert, SelfAlerts, read_open
from streaming.text.times import wall_ms
from streaming.warehouse.rows import Rows, arrow_table
from streaming.warehouse.writer import DeltalakeWriter
from udfs.alerts.alert import wording
from udfs.alerts.phrase import join_clauses, phrase
from udfs.alerts.self_kinds import DATA_QUALITY, LIMITS, OWN_CLUSTER

_ADVICE = {
    "queue in set": phrase("Check that a collector publishes the routes of the cluster, and that its name is unique."),
    "ahead_ms in range": phrase("Correct the clock (NTP) of the machine that publishes these events, or of the agent."),
}
"""Expectation to advice."""

_REPAIR = phrase(
    "Fix the agent that publishes these events; `balancewatch quarantine --topic {topic}` lists the reasons."
)

_EVIDENCE = ("expectation", "suite", "description", "evaluated", "unexpected", "sample_offsets")


class QualityAlerts:
    """Open data_quality alerts, and by topic the consecutive validations that would open or resolve one."""

    def __init__(self, quality: Quality, alerts: SelfAlerts | None = None) -> None:
        self._quality = quality
        self._alerts = alerts or SelfAlerts()
        self._streaks: Counter[str] = Counter()
        self._judged_ms = {known.alert.labels["topic"]: known.changed_ms for known in self._alerts}

    def judge(self, topic: str, outcomes: Sequence[Row], now_ms: int) -> list[Row]:
        """Return the row to write after a validation, if any. `outcomes` are rows of `quality`, times in epoch ms."""
        self._judged_ms[topic] = now_ms
        failed = [row for row in outcomes if not row["success"] and row["severity"] == Severity.CRITICAL]
        worst = max((row["unexpected_share"] for row in failed), default=0.0)
        share = self._quality.alert_share
        known = self._alerts.find(topic=topic)
        would_change = worst > share if known is None else worst <= share / 2
        self._streaks[topic] = self._streaks[topic] + 1 if would_change else 0
        failing = _names(failed)
        if self._streaks[topic] >= self._quality.alert_validations:
            self._streaks[topic] = 0
            if known is not None:
                return self._end(known, now_ms)
            return self._noted(self._alerts.open(describe(topic, failed), now_ms))
        if known is not None and worst > share and failing - _names(known.alert.evidence.get("failed", ())):
            return self._noted(self._alerts.update(known, describe(topic, failed), now_ms))
        return []

    def rest(self, topic: str, now_ms: int) -> list[Row]:
        """Return the row to write for a topic without new messages, if any."""
        known = self._alerts.find(topic=topic)
        if known is None or now_ms - self._judged_ms[topic] < LIMITS.topic_quiet_ms:
            return []
        return self._end(known, now_ms)

    def end_all(self, now_ms: int) -> list[Row]:
        """Return rows that resolve all open alerts."""
        return [row for known in self._alerts for row in self._end(known, now_ms)]

    def _end(self, known: OpenAlert, now_ms: int) -> list[Row]:
        self._streaks[known.alert.labels["topic"]] = 0
        return self._noted(self._alerts.resolve(known, now_ms))

    def _noted(self, row: Row) -> list[Row]:
        self._alerts.note_row(row)
        return [row]


def describe(topic: str, failed: Sequence[Row]) -> SelfAlert:
    """Return the alert of a topic, the worst expectation first."""
    worst_first = sorted(failed, key=lambda row: -row["unexpected_share"])
    reported = [
        phrase("{unexpected:,} of {evaluated:,} fail: {description}{found}").given(
            **{name: row[name] for name in ("unexpected", "evaluated", "description")},
            found=phrase(" (found {values})", values=", ".join(row["observed"])) if row["observed"] else "",
        )
        for row in worst_first[:3]
    ]
    if len(failed) > 3:
        reported.append(phrase("{number} more expectations fail", number=len(failed) - 3))
    return SelfAlert(
        DATA_QUALITY,
        "error",
        DATA_QUALITY,
        {"cluster": OWN_CLUSTER, "topic": topic, "suite": topic},
        *wording(
            "Events of {topic} fail their data expectations, so verdicts that depend on them may be wrong. {failed}.",
            _ADVICE.get(worst_first[0]["expectation"], _REPAIR),
        ).given(topic=topic, failed=join_clauses(reported)),
        {"failed": [{name: row[name] for name in _EVIDENCE} for row in worst_first]},
    )


def _names(outcomes: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(row["suite"], row["expectation"]) for row in outcomes}


def read_open_topics(settings: Settings) -> SelfAlerts:
    """Return the alerts that an earlier `run` left open; each names its topic and lists what failed."""
    return read_open(
        settings.paths.warehouse,
        DATA_QUALITY,
        lambda alert: (alert.labels["topic"], _names(alert.evidence.get("failed", ()))),
        settings.language,
    )


APP_ID = "balancewatch-quality"

POLL_SECONDS = 1.0
"""Interval at which the thread compares the number of batches."""

OnAlerts = Callable[[list[dict[str, Any]]], None]

log = structlog.get_logger()


class ReadProgress:
    """Messages of each topic that the query read since its last validation, and how many it quarantined.

    A batch's quarantined rows are noted before Spark commits the batch: they count with its messages, from the next
    `advance` on. Nothing is forgotten before `settle`. Not thread-safe.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Messages that were read before are not counted. Raises OSError or ValueError."""
        self._checkpoint = checkpoint
        position = read_position(checkpoint)
        self._ends = None if position is None else dict(position.wanted)
        self._noted: dict[int, Counter[str]] = {}
        self._quarantined: Counter[str] = Counter()

    def note(self, batch_id: int, rows: Rows) -> None:
        """Note the quarantined rows of a batch; the same batch again counts once."""
        self._noted[batch_id] = Counter(row["topic"] for row in rows.get("quarantine", ()))

    def advance(self, position: Position) -> None:
        """Count the batches that are done at this position."""
        newest = position.batch_id if position.is_committed else position.batch_id - 1
        for batch_id in [noted for noted in self._noted if noted <= newest]:
            self._quarantined += self._noted.pop(batch_id)

    def since_last(self, topic: str, position: Position) -> Row:
        """Return the outcome of CONTRACT for the messages up to this position, which was advanced to.

        A recreated partition counts from 0.
        """
        if self._ends is None:
            self._ends = read_beginning(self._checkpoint)
        read = 0
        for place, end in position.wanted.items():
            if place[0] == topic:
                begin = self._ends.get(place, 0)
                read += end - begin if end >= begin else end
        quarantined = self._quarantined[topic]
        return outcome_of(topic, CONTRACT, not quarantined, read, quarantined)

    def settle(self, topics: Iterable[str], position: Position) -> None:
        """Forget the counts of these topics up to this position, whose outcomes are written."""
        for topic in topics:
            ends = {place: end for place, end in position.wanted.items() if place[0] == topic}
            self._ends = (self._ends or {}) | ends
            del self._quarantined[topic]


class Inspector:
    """A BatchListener with a thread: `start` and `stop` it. A failure costs a look, never the query."""

    def __init__(
        self, settings: Settings, writer: DeltalakeWriter, on_alerts: OnAlerts | None = None, past_ms: int = 0
    ) -> None:
        """`on_alerts` receives the rows of `alerts` that it writes; `past_ms` is as in Inspection."""
        self._settings, self._writer, self._on_alerts = settings, writer, on_alerts
        self._checkpoint = checkpoint_of(balance.NAME, settings)
        self._inspection = Inspection(settings, past_ms=past_ms)
        self._alerts: QualityAlerts | None = None
        self._progress = ReadProgress(self._checkpoint)
        self._noting = threading.Lock()
        self._batches = 0
        self._stopping = threading.Event()
        self._written_ms = 0
        self._thread = threading.Thread(target=self._work, name="quality", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Interrupt a validation, and wait for the thread, ten seconds at most."""
        self._stopping.set()
        self._inspection.stop()
        self._thread.join(timeout=10)

    def on_batch(self, batch: WrittenBatch) -> None:
        """Note a batch; every few batches lead to a look."""
        with self._noting:
            self._progress.note(batch.batch_id, batch.rows)
            self._batches += 1

    def _work(self) -> None:
        quality, seen, earliest = self._settings.quality, 0, 0.0
        while True:
            if self._batches - seen >= quality.every_batches and time.monotonic() >= earliest:
                seen, earliest = self._batches, time.monotonic() + quality.pause_seconds
                try:
                    self.look(wall_ms())
                except Exception as error:  # the query continues in any case
                    _warn(error)
                    self._forget()
            if self._stopping.wait(POLL_SECONDS):
                break
        self._inspection.close()

    def _forget(self) -> None:
        """Reconnect, and read the open alerts from the table at the next look: a row may not have been written."""
        self._inspection.close()
        self._alerts = None

    def look(self, now_ms: int) -> None:
        """Validate the messages that the query read last, topic by topic; topics without new messages are skipped.

        A topic that cannot be validated is logged and validated at the next look; the other topics continue. Where
        `every_batches` is 0, nothing is validated, and the alerts that an earlier `run` left open are resolved.
        """
        alerts = self._alerts = self._alerts or QualityAlerts(self._settings.quality, read_open_topics(self._settings))
        position = read_position(self._checkpoint)
        if position is not None:
            with self._noting:
                self._progress.advance(position)
        if not self._settings.quality.every_batches:
            self._write([], alerts.end_all(now_ms), now_ms)
        elif position is not None:
            self._validate(position, alerts, now_ms)

    def _validate(self, position: Position, known: QualityAlerts, now_ms: int) -> None:
        quality, alerts, validated = [], [], []
        for topic in balance.TOPICS:
            contract = self._progress.since_last(topic, position)
            if contract["evaluated"] <= 0:
                alerts += known.rest(topic, now_ms)
                continue
            ends = {partition: offset for (of, partition), offset in position.wanted.items() if of == topic}
            try:
                found = self._inspection.look(topic, ends)
            except Exception as error:  # other topics continue in any case
                if self._stopping.is_set():
                    break
                _warn(error, topic=topic)
                self._inspection.close()
                if isinstance(error, KafkaError):
                    break  # each of the others would wait as long for Kafka
                continue
            quality += [{**row, "query": balance.NAME, "validated_at": now_ms} for row in found]
            others = [row for row in found if row["expectation"] != CONTRACT.name]
            for row in found:
                if row["expectation"] == CONTRACT.name:  # its examples are in the sample
                    contract |= {name: row[name] for name in ("observed", "sample_offsets")}
            alerts += known.judge(topic, [contract, *others], now_ms)
            validated.append(topic)
        self._inspection.end_look()
        self._write(quality, alerts, now_ms)
        self._progress.settle(validated, position)

    def _write(self, quality: list[dict[str, Any]], alerts: list[dict[str, Any]], now_ms: int) -> None:
        self._written_ms = batch_id = max(now_ms, self._written_ms + 1)
        for table, rows in ((QUALITY, quality), (ALERTS, alerts)):
            if rows:
                self._writer.append(table, arrow_table(rows, table, batch_id), APP_ID, batch_id)
        if alerts and self._on_alerts is not None:
            self._on_alerts(alerts)
        for row in alerts:
            log.warning("data quality alert changed", state=row["state"], topic=row["topic"], summary=row["summary"])


def _warn(error: Exception, **where: str) -> None:
    log.warning("events not validated", query=balance.NAME, **where, reason=f"{type(error).__name__}: {error}"[:500])
