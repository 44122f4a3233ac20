"""Static labels: names and values, such as team and tier, that `[[labels]]` of the settings adds to what matches.

They identify nothing: an alert's id, incident and deduplication key do not depend on them.
"""

from collections.abc import Mapping, Sequence

from udfs.alerts.pattern import LABELS, Labels, Matchers, is_match

MATCHED = tuple(name for name in LABELS if name not in ("severity", "cause"))
"""What a rule may match on: what stays the same during an incident."""

RESERVED = frozenset(LABELS).union(
    ("alertname", "instance", "job", "le", "verdict", "is_inhibited", "state", "status", "receiver", "outcome"),
    ("collector", "events", "feed", "limited_kind", "query", "role", "shard", "test", "incident_id", "alert_id"),
    ("summary", "advice", "reason", "runbook_url", "started_at", "changed_at", "event", "level", "timestamp"),
    ("self", "exc_info", "stack_info"),
)
"""Names with another meaning in alerts, metrics or log lines."""

LabelRules = Sequence[tuple[Matchers, Mapping[str, str]]]
"""Matchers, and the labels that they set, in the order of the settings."""


def pick_static_labels(rules: LabelRules, labels: Labels) -> dict[str, str]:
    """Return the labels of all rules that match; the first rule that sets a name decides.

    `labels` of an alert have all names of MATCHED, some of them null; those of a series or a general question may lack
    some. A name that depends on a missing one is left out.
    """
    found: dict[str, str | None] = {}
    for matchers, names in rules:
        known = {label: patterns for label, patterns in matchers.items() if label in labels}
        if is_match(known, labels):
            found = {**(names if len(known) == len(matchers) else dict.fromkeys(names)), **found}
    return {name: value for name, value in sorted(found.items()) if value is not None}


def describe_labels(labels: Mapping[str, str]) -> str:
    """Return `team=payments tier=1`."""
    return " ".join(f"{name}={value}" for name, value in labels.items())
