"""How many alerts of one kind and cluster are notified at a time, and the one that stands for the rest.

Prometheus' `limit` throws away all alerts of a rule that has too many; Alertmanager's per-alertname limit drops the
new ones. Here those notified first stay, the others wait, and one alert says how many wait.
"""

from udfs.alerts.alert import Text, wording
from udfs.alerts.phrase import plural

ALERTS_LIMITED = "alerts_limited"

SEVERITIES = ("critical", "error", "warning", "info")
"""The worst first."""


def rank_of(severity: str) -> int:
    """0 is the worst. An unknown severity comes last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def describe_more(kind: str, cluster: str, limited: int, limit: int) -> Text:
    """Return the text of the alert that represents those held back."""
    return wording(
        plural(
            limited,
            "{number} more {kind} is firing in cluster {cluster}, above the limit of {limit} single notifications.",
            "{number} more {kind} are firing in cluster {cluster}, above the limit of {limit} single notifications.",
        ),
        "balancewatch alerts --current --state FIRING --kind {kind} --cluster {cluster}",
    ).given(kind=kind, cluster=cluster, limit=limit)
