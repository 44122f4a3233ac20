"""The alert `data_quality`: a topic whose events repeatedly fail their expectations.

A validation fails if a critical expectation fails for more than `alert_share` of the rows; the contract counts all
messages since the last validation, not only the sample. It passes below half of that share. `alert_validations`
consecutive failures open the alert, as many passes resolve it. A topic has one alert.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from conf.location import Location
from conf.settings import Quality
from schemas.expectations import Severity
from streaming.quality.inspection import MOST_OFFSETS, Outcome
from streaming.queries.rows import Row
from streaming.self_monitoring.self_alerts import OpenAlert, SelfAlert, SelfAlerts, read_open
from udfs.alerts.self_kinds import DATA_QUALITY, LIMITS, OWN_CLUSTER

_ADVICE = {
    "queue": "Check that a collector publishes the routes of the cluster, and that its name is unique.",
    "ahead_ms": "Correct the clock (NTP) of the machine that publishes these events, or of the agent.",
}


@dataclass
class _Topic:
    """`streak` counts consecutive validations that would open or resolve the alert."""

    streak: int = 0
    event_ms: int = 0


class QualityAlerts:
    """Open data_quality alerts, and the streaks of all topics."""

    def __init__(self, quality: Quality, alerts: SelfAlerts | None = None) -> None:
        self._quality = quality
        self._alerts = alerts or SelfAlerts()
        self._topics = {known.alert.labels["topic"]: _Topic(event_ms=known.changed_ms) for known in self._alerts}

    def judge(self, topic: str, outcomes: Sequence[Outcome], now_ms: int) -> list[Row]:
        """Return the row to write after a validation, if any; times in epoch ms."""
        state = self._topics.setdefault(topic, _Topic())
        state.event_ms = now_ms
        failed = [one for one in outcomes if not one.is_success and one.expectation.severity is Severity.CRITICAL]
        worst = max((one.share for one in failed), default=0.0)
        share = self._quality.alert_share
        known = self._alerts.find(topic=topic)
        would_change = worst > share if known is None else worst <= share / 2
        state.streak = state.streak + 1 if would_change else 0
        if state.streak >= self._quality.alert_validations:
            if known is not None:
                return [self._end(known, now_ms)]
            state.streak = 0
            return [self._note(self._alerts.open(describe(topic, failed), now_ms))]
        failing = {f"{one.suite} {one.expectation.name}" for one in failed}
        if known is not None and worst > share and failing - set(_described(known.alert)):
            return [self._note(self._alerts.update(known, describe(topic, failed), now_ms))]
        return []

    def rest(self, topic: str, now_ms: int) -> list[Row]:
        """Return the row to write for a topic without new messages, if any."""
        known = self._alerts.find(topic=topic)
        if known is None or now_ms - self._topics[topic].event_ms < LIMITS.topic_quiet_ms:
            return []
        return [self._end(known, now_ms)]

    def end_all(self, now_ms: int) -> list[Row]:
        """Return rows that resolve all open alerts."""
        return [self._end(known, now_ms) for known in self._alerts]

    def _end(self, known: OpenAlert, now_ms: int) -> Row:
        self._topics[known.alert.labels["topic"]].streak = 0
        return self._note(self._alerts.resolve(known, now_ms))

    def _note(self, row: Row) -> Row:
        self._alerts.note_row(row)
        return row


def describe(topic: str, failed: Sequence[Outcome]) -> SelfAlert:
    """Return the alert of a topic, the worst expectation first."""
    worst_first = sorted(failed, key=lambda one: -one.share)
    reported = [
        f"{one.unexpected:,} of {one.evaluated:,} fail: {one.expectation}"
        + (f" (found {', '.join(map(str, one.observed))})" if one.observed else "")
        for one in worst_first[:3]
    ]
    more = f"; {len(failed) - 3} more expectations fail" if len(failed) > 3 else ""
    return SelfAlert(
        DATA_QUALITY,
        "error",
        DATA_QUALITY,
        {"cluster": OWN_CLUSTER, "topic": topic, "suite": topic},
        f"Events of {topic} fail their data expectations, so verdicts that depend on them may be wrong. "
        f"{'; '.join(reported)}{more}.",
        _ADVICE.get(worst_first[0].expectation.column)
        or f"Fix the agent that publishes these events; `balancewatch quarantine --topic {topic}` lists the reasons.",
        {
            "failed": [
                {
                    "expectation": one.expectation.name,
                    "suite": one.suite,
                    "description": str(one.expectation),
                    "evaluated": one.evaluated,
                    "unexpected": one.unexpected,
                    "sample_offsets": list(one.sample_offsets[:MOST_OFFSETS]),
                }
                for one in worst_first
            ]
        },
    )


def _described(alert: SelfAlert) -> list[str]:
    return [f"{one['suite']} {one['expectation']}" for one in alert.evidence.get("failed", ())]


def read_open_topics(warehouse: Location) -> SelfAlerts:
    """Return the alerts that an earlier `run` left open."""

    def check(alert: SelfAlert) -> None:
        """Raise ValueError unless the labels name a topic and the evidence lists what failed."""
        if not isinstance(alert.labels["topic"], str):
            raise ValueError("labels lack a topic")
        _described(alert)

    return read_open(warehouse, DATA_QUALITY, check)
