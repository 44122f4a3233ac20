"""Which labels the settings add to an alert or a series, and which names they may not use."""

import pytest

from streaming.metrics.names import METRICS
from udfs.alerts.pattern import LABELS
from udfs.alerts.static_labels import RESERVED, describe_labels, pick_static_labels

RULES = [
    ({"consumer_group": ("payments*",)}, {"team": "payments", "tier": "1"}),
    ({"cluster": ("prod",), "topic": ("audit",)}, {"team": "audit", "pager": "no"}),
    ({"cluster": ("prod",)}, {"tier": "2"}),
    ({}, {"team": "platform"}),
]
NONE = dict.fromkeys(LABELS)


@pytest.mark.parametrize(
    ("promise", "labels", "expected"),
    [
        ("all rules that match apply, and the first that sets a name decides",
         NONE | {"cluster": "prod", "consumer_group": "payments-eu"}, "team=payments tier=1"),
        ("an alert without a group or topic has empty ones", NONE | {"cluster": "prod"}, "team=platform tier=2"),
        ("all matchers of a rule must match",
         NONE | {"cluster": "prod", "topic": "audit"}, "pager=no team=audit tier=2"),
        ("a rule without matchers applies to everything", NONE | {"cluster": "lab"}, "team=platform"),
        ("a series of another cluster needs no topic for its team",
         {"cluster": "lab", "consumer_group": "x"}, "team=platform"),
        ("a name that depends on a label that the series lacks is left out, also in later rules",
         {"cluster": "prod", "consumer_group": "x"}, "tier=2"),
        ("nor is the first rule's certain for a series without a group", {"cluster": "lab"}, ""),
    ],
)  # fmt: skip
def test_the_labels_that_the_settings_add(promise: str, labels: dict[str, str | None], expected: str) -> None:
    assert describe_labels(pick_static_labels(RULES, labels)) == expected, promise


def test_no_name_of_a_metrics_label_is_free() -> None:
    gauges = [metric for metric in METRICS if "cluster" in metric.labels]
    assert {label for metric in gauges for label in metric.labels} <= RESERVED
