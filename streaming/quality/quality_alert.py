"""The alert `data_quality`: a topic whose events are not what they should be, look after look.

A look counts against its topic when a critical expectation fails for more than `alert_share` of the rows, or more than
that share of all messages since the look before was quarantined; it counts for it when none does for more than half
of that. So many in a row (`alert_validations`) open it and end it. One alert a topic, whatever fails.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conf.location import Location
from conf.quality import Quality
from schemas.expectations import Severity
from schemas.tables import ALERTS
from streaming import open_alerts
from streaming.oncall.own_alerts import OWN_CLUSTER, OwnAlert
from streaming.quality.outcome import PLACES, Outcome
from streaming.readable_rows import Row, whole
from udfs.life import FIRING, RESOLVED

KIND = "data_quality"

QUIET_MS = 3_600_000
"""A topic without a message for so long has nothing that is wrong any more."""

_ADVICE = {
    "queue": "Look whether a collector publishes the routes of that cluster, and whether two clusters share its name.",
    "ahead_ms": "Set the clock of the machine that publishes these events (NTP), or of the agent that stamps them.",
}


@dataclass(frozen=True)
class Kept:
    """Messages that the stream has read of a topic since the look before, and those of them it quarantined."""

    read: int
    quarantined: int

    @property
    def share(self) -> float:
        return min(1.0, self.quarantined / self.read) if self.read > 0 else 0.0


@dataclass
class _Topic:
    """`row` is the open incident's newest row; `streak` counts looks in a row that would change that."""

    streak: int = 0
    row: dict[str, Any] | None = None
    event_ms: int = 0


class QualityAlerts:
    """Those that are open, and how near the others are to it. `open_rows` are those of a run before."""

    def __init__(self, quality: Quality, open_rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._quality = quality
        self._topics: dict[str, _Topic] = {}
        for row in open_rows:
            topic = json.loads(row["labels"])["topic"]
            self._topics[topic] = _Topic(row=dict(row), event_ms=row["changed_at"])

    def judge(self, topic: str, outcomes: Sequence[Outcome], kept: Kept, now_ms: int) -> list[dict[str, Any]]:
        """The row to write after a look, if any; times in epoch ms."""
        state = self._topics.setdefault(topic, _Topic())
        state.event_ms = now_ms
        failed = [one for one in outcomes if not one.is_success and one.expectation.severity is Severity.CRITICAL]
        worst = max([kept.share, *(one.share for one in failed)], default=0.0)
        share = self._quality.alert_share
        would_change = worst > share if state.row is None else worst <= share / 2
        state.streak = state.streak + 1 if would_change else 0
        if state.streak >= self._quality.alert_validations:
            state.streak = 0
            return [self._end(state, now_ms)] if state.row is not None else [self._open(topic, failed, kept, now_ms)]
        if state.row is not None and worst > share and _failing(failed) - set(_told(state.row)):
            alert = describe(topic, failed, kept)
            state.row = _row(alert, FIRING, state.row["started_at"], now_ms)
            return [state.row]
        return []

    def rest(self, topic: str, now_ms: int) -> list[dict[str, Any]]:
        """The row to write when a look found nothing new in the topic, if any."""
        state = self._topics.get(topic)
        if state is None or state.row is None or now_ms - state.event_ms < QUIET_MS:
            return []
        return [self._end(state, now_ms)]

    def end_all(self, now_ms: int) -> list[dict[str, Any]]:
        """The rows that end whatever is open."""
        return [self._end(state, now_ms) for state in self._topics.values() if state.row is not None]

    def _open(self, topic: str, failed: Sequence[Outcome], kept: Kept, now_ms: int) -> dict[str, Any]:
        row = self._topics[topic].row = _row(describe(topic, failed, kept), FIRING, now_ms, now_ms)
        return row

    def _end(self, state: _Topic, now_ms: int) -> dict[str, Any]:
        known = state.row or {}
        state.row, state.streak = None, 0
        summary, evidence, labels = known["summary"], json.loads(known["evidence"]), json.loads(known["labels"])
        alert = OwnAlert(KIND, known["severity"], KIND, labels, summary, "", evidence)
        return _row(alert, RESOLVED, known["started_at"], max(now_ms, known["changed_at"] + 1))


def describe(topic: str, failed: Sequence[Outcome], kept: Kept) -> OwnAlert:
    """What is wrong with a topic's events, the worst first."""
    worst_first = sorted(failed, key=lambda one: -one.share)
    told = [
        f"{one.unexpected:,} of {one.rows:,} break: {one.expectation} (found {', '.join(map(str, one.observed))})"
        for one in worst_first[:3]
    ]
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    sampled = f" In the newest sample {'; '.join(told)}{more}." if told else ""
    lost = f" {kept.quarantined:,} of the last {kept.read:,} messages are in quarantine." if kept.quarantined else ""
    column = worst_first[0].expectation.column if worst_first else "contract"
    return OwnAlert(
        KIND,
        "error",
        KIND,
        {"cluster": OWN_CLUSTER, "topic": topic, "suite": topic},
        f"Events of {topic} are not what they should be, and verdicts that rest on them may be wrong.{sampled}{lost}",
        _ADVICE.get(column)
        or f"Mend the agent that publishes them: `balancewatch quarantine --topic {topic}` has each with its reasons.",
        {
            "failed": [
                {
                    "expectation": one.expectation.name,
                    "suite": one.suite,
                    "says": str(one.expectation),
                    "rows": one.rows,
                    "unexpected": one.unexpected,
                    "places": list(one.places[:PLACES]),
                }
                for one in worst_first
            ],
            "read": kept.read,
            "quarantined": kept.quarantined,
        },
    )


def _row(alert: OwnAlert, state: str, started_ms: int, now_ms: int) -> dict[str, Any]:
    return alert.row(state, started_ms, now_ms) | {"topic": alert.labels["topic"]}


def _failing(failed: Sequence[Outcome]) -> set[str]:
    return {f"{one.suite} {one.expectation.name}" for one in failed}


def _told(row: Mapping[str, Any]) -> Iterable[str]:
    return (f"{one['suite']} {one['expectation']}" for one in json.loads(row["evidence"]).get("failed", ()))


def read_open(warehouse: Location) -> list[dict[str, Any]]:
    """The newest row of each open one that can be read, times in epoch ms."""
    return open_alerts.read_open(warehouse, KIND, _of_topic)


def _of_topic(row: Row) -> Row:
    """A whole row whose labels name its topic, and whose evidence says what failed."""
    known = whole(ALERTS)(row)
    if not isinstance(json.loads(known["labels"])["topic"], str):
        raise ValueError("labels name no topic")
    list(_told(known))
    return known
