"""The alert `data_quality`: a topic whose events are not what they should be, look after look.

A look counts against its topic when a critical expectation fails for more than `alert_share` of the rows, or more than
that share of all messages since the look before was quarantined; it counts for it when none does for more than half
of that. So many in a row (`alert_validations`) open it and end it. One alert a topic, whatever fails.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conf.location import Location
from conf.quality import Quality
from schemas.expectations import Severity
from streaming.quality.outcome import MOST_OFFSETS, Outcome
from streaming.queries.shard_rows import Row
from streaming.self_monitoring.self_alerts import OpenAlert, SelfAlert, SelfAlerts, read_open
from udfs.alerts.self_kinds import DATA_QUALITY, LIMITS, OWN_CLUSTER

_ADVICE = {
    "queue": "Look whether a collector publishes the routes of that cluster, and whether two clusters share its name.",
    "ahead_ms": "Set the clock of the machine that publishes these events (NTP), or of the agent that stamps them.",
}


@dataclass(frozen=True)
class QuarantineShare:
    """Messages that the stream has read of a topic since the look before, and those of them it quarantined."""

    read: int
    quarantined: int

    @property
    def share(self) -> float:
        return min(1.0, self.quarantined / self.read) if self.read > 0 else 0.0


@dataclass
class _Topic:
    """`streak` counts looks in a row that would open its alert, or end it."""

    streak: int = 0
    event_ms: int = 0


class QualityAlerts:
    """Those that are open, by `alerts`, and how near the others are to it."""

    def __init__(self, quality: Quality, alerts: SelfAlerts | None = None) -> None:
        self._quality = quality
        self._alerts = alerts or SelfAlerts()
        self._topics = {known.alert.labels["topic"]: _Topic(event_ms=known.changed_ms) for known in self._alerts}

    def judge(self, topic: str, outcomes: Sequence[Outcome], kept: QuarantineShare, now_ms: int) -> list[Row]:
        """The row to write after a look, if any; times in epoch ms."""
        state = self._topics.setdefault(topic, _Topic())
        state.event_ms = now_ms
        failed = [one for one in outcomes if not one.is_success and one.expectation.severity is Severity.CRITICAL]
        worst = max([kept.share, *(one.share for one in failed)], default=0.0)
        share = self._quality.alert_share
        known = self._alerts.find(topic=topic)
        would_change = worst > share if known is None else worst <= share / 2
        state.streak = state.streak + 1 if would_change else 0
        if state.streak >= self._quality.alert_validations:
            if known is not None:
                return [self._end(known, now_ms)]
            state.streak = 0
            return [self._note(self._alerts.open(describe(topic, failed, kept), now_ms))]
        if known is not None and worst > share and _failing(failed) - set(_described(known.alert)):
            return [self._note(self._alerts.update(known, describe(topic, failed, kept), now_ms))]
        return []

    def rest(self, topic: str, now_ms: int) -> list[Row]:
        """The row to write when a look found nothing new in the topic, if any."""
        known = self._alerts.find(topic=topic)
        if known is None or now_ms - self._topics[topic].event_ms < LIMITS.topic_quiet_ms:
            return []
        return [self._end(known, now_ms)]

    def end_all(self, now_ms: int) -> list[Row]:
        """The rows that end whatever is open."""
        return [self._end(known, now_ms) for known in self._alerts]

    def _end(self, known: OpenAlert, now_ms: int) -> Row:
        self._topics[known.alert.labels["topic"]].streak = 0
        return self._note(self._alerts.resolve(known, now_ms))

    def _note(self, row: Row) -> Row:
        self._alerts.note_row(row)
        return row


def describe(topic: str, failed: Sequence[Outcome], kept: QuarantineShare) -> SelfAlert:
    """What is wrong with a topic's events, the worst first."""
    worst_first = sorted(failed, key=lambda one: -one.share)
    reported = [
        f"{one.unexpected:,} of {one.evaluated:,} break: {one.expectation} (found {', '.join(map(str, one.observed))})"
        for one in worst_first[:3]
    ]
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    sampled = f" In the newest sample {'; '.join(reported)}{more}." if reported else ""
    lost = f" {kept.quarantined:,} of the last {kept.read:,} messages are in quarantine." if kept.quarantined else ""
    column = worst_first[0].expectation.column if worst_first else "contract"
    return SelfAlert(
        DATA_QUALITY,
        "error",
        DATA_QUALITY,
        {"cluster": OWN_CLUSTER, "topic": topic, "suite": topic},
        f"Events of {topic} are not what they should be, and verdicts that rest on them may be wrong.{sampled}{lost}",
        _ADVICE.get(column)
        or f"Mend the agent that publishes them: `balancewatch quarantine --topic {topic}` has each with its reasons.",
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
            ],
            "read": kept.read,
            "quarantined": kept.quarantined,
        },
    )


def _failing(failed: Sequence[Outcome]) -> set[str]:
    return {f"{one.suite} {one.expectation.name}" for one in failed}


def _described(alert: SelfAlert) -> Iterable[str]:
    return (f"{one['suite']} {one['expectation']}" for one in alert.evidence.get("failed", ()))


def read_open_topics(warehouse: Location) -> SelfAlerts:
    """What an earlier `run` left open."""
    return read_open(warehouse, DATA_QUALITY, _has_topic)


def _has_topic(alert: SelfAlert) -> None:
    """Its labels name its topic, and its evidence says what failed."""
    if not isinstance(alert.labels["topic"], str):
        raise ValueError("labels name no topic")
    list(_described(alert))
