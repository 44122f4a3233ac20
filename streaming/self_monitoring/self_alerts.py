"""Rows of balancewatch's alerts about itself, and the open ones.

The callers decide conditions and texts, and write the rows.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from conf.location import Location
from schemas.tables import ALERTS
from streaming.queries.rows import Row, alert_row
from streaming.text.language import translate
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import Row as StoredRow
from streaming.warehouse.readable_rows import read_table
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.alert import Finding, Text, Transition, alert_id, opened
from udfs.alerts.life import FIRING, RESOLVED, Reason
from udfs.alerts.phrase import Phrase, Words, phrase


@dataclass(frozen=True)
class SelfAlert:
    """An alert without times. Its labels identify it and name its cluster and topic."""

    kind: str
    severity: str
    cause: str
    labels: dict[str, str]
    summary: Words
    advice: Words
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def alert_id(self) -> str:
        return alert_id(self.kind, self.labels)


@dataclass(frozen=True)
class OpenAlert:
    """An open alert by its newest row; times are epoch ms."""

    alert: SelfAlert
    started_ms: int
    changed_ms: int


class SelfAlerts:
    """The open alerts by alert_id, with texts in one language. Times are epoch ms.

    `open`, `update` and `resolve` return the row to write; `note` records a written row. A row that could not be
    written has no effect. Times of an incident's rows increase even if the clock is set back.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._open: dict[str, OpenAlert] = {}

    def __iter__(self) -> Iterator[OpenAlert]:
        return iter([*self._open.values()])

    def get(self, identity: str) -> OpenAlert | None:
        return self._open.get(identity)

    def find(self, **labels: str) -> OpenAlert | None:
        return next((known for known in self if labels.items() <= known.alert.labels.items()), None)

    def open(self, alert: SelfAlert, now_ms: int) -> Row:
        return _row(self.translated(alert), FIRING, Reason.HOLD_OVER, now_ms, now_ms)

    def update(self, known: OpenAlert, alert: SelfAlert, now_ms: int, reason: Reason = Reason.FIGURES_CHANGED) -> Row:
        """Return a row of the same incident with another text."""
        return _row(self.translated(alert), FIRING, reason, known.started_ms, max(now_ms, known.changed_ms + 1))

    def resolve(self, known: OpenAlert, now_ms: int, over: Phrase | None = None) -> Row:
        summary = (over or phrase("Resolved: {summary}")).given(summary=known.alert.summary)
        alert = self.translated(replace(known.alert, summary=summary, advice=phrase("Nothing to do.")))
        return _row(alert, RESOLVED, Reason.RECOVERED, known.started_ms, max(now_ms, known.changed_ms + 1))

    def translated(self, alert: SelfAlert) -> SelfAlert:
        """Return the alert with its texts as the table has them."""
        summary, advice = (translate(words, self._language) for words in (alert.summary, alert.advice))
        return replace(alert, summary=summary, advice=advice)

    def note(self, alert: SelfAlert, state: str, started_ms: int, changed_ms: int) -> None:
        if state == RESOLVED:
            self._open.pop(alert.alert_id, None)
        else:
            self._open[alert.alert_id] = OpenAlert(alert, started_ms, changed_ms)

    def note_row(self, row: StoredRow) -> None:
        self.note(_alert_of(row), row["state"], row["started_at"], row["changed_at"])


def read_open(warehouse: Location, kind: str, check: Callable[[SelfAlert], object], language: str = "en") -> SelfAlerts:
    """Read the kind's alerts that an earlier process left open. Rows for which `check` raises are skipped."""

    def read(stored: StoredRow) -> Row:
        row = {name: to_ms(value) if isinstance(value, datetime) else value for name, value in stored.items()}
        alert = _alert_of(row)
        check(alert)
        if not isinstance(alert.labels["cluster"], str):
            raise ValueError("labels name no cluster")
        return row

    alerts = SelfAlerts(language)
    with suppress(NotWrittenError):
        for row in read_table(warehouse, ALERTS, having={"kind": kind}, newest=True, read=read):
            alerts.note_row(row)
    return alerts


def _row(alert: SelfAlert, state: str, reason: Reason, started_ms: int, now_ms: int) -> Row:
    text, topic = Text(alert.summary, alert.advice), alert.labels.get("topic")
    finding = Finding(alert.kind, alert.cause, alert.severity, started_ms, text, alert.labels, topic)
    incident = replace(opened(finding, state, started_ms), evidence=alert.evidence, fired_at_ms=started_ms)
    return alert_row(Transition(incident, state, reason, now_ms))


def _alert_of(row: StoredRow) -> SelfAlert:
    labels, evidence = json.loads(row["labels"]), json.loads(row["evidence"])
    cause = row["cause"] or row["kind"]
    return SelfAlert(row["kind"], row["severity"], cause, labels, row["summary"], row["advice"], evidence)
