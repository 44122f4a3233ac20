"""How many alerts of one kind and cluster are told at a time, and the one that stands for the rest.

Prometheus' `limit` throws away all alerts of a rule that has too many; Alertmanager's per-alertname limit drops the
new ones. Here those told first stay, the others wait, and one alert says how many wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MORE_ALERTS = "more_alerts"

SEVERITIES = ("critical", "error", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, order=True)
class Waiting:
    """An alert that fires and has not been told. The earliest are told first; of one moment the worst."""

    fired_at_ms: int
    rank: int
    incident_id: str


def rank_of(severity: str) -> int:
    """0 is the worst. A severity that nobody knows comes last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def pick_told(told: int, waiting: Sequence[Waiting], limit: int) -> tuple[str, ...]:
    """Incident ids of those that may be told now, beside the `told` that already are and stay."""
    return tuple(one.incident_id for one in sorted(waiting)[: max(0, limit - told)])


def describe_more(kind: str, cluster: str, held_back: int, limit: int) -> tuple[str, str]:
    """(summary, advice) of the alert that stands for those held back."""
    are = "is" if held_back == 1 else "are"
    return (
        f"{held_back} more {kind} {are} firing in cluster {cluster}, beyond the {limit} that are told one by one.",
        f"balancewatch alerts --current --state FIRING --kind {kind} --cluster {cluster}",
    )
