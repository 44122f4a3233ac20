"""A rule that raised an exception: a fault of ours, told as what it keeps from being judged."""

from dataclasses import dataclass

from udfs.alerts.alert import Finding, Text
from udfs.alerts.prose import clock

RULE_FAILED = "rule_failed"


@dataclass(frozen=True)
class Failure:
    """What was raised, where, and through which places; each a text of one line."""

    message: str
    place: str
    trace: str


def find_failure(labels: dict[str, str], failure: Failure, now_ms: int) -> Finding:
    """The group, or the broker, or the cluster itself of these labels is not judged, for a rule raised at it."""
    name = labels.get("consumer_group") or labels.get("broker_name")
    what = f"cluster {labels['cluster']}"
    if name:
        what = f"{'group' if 'consumer_group' in labels else 'broker'} {name} of {what}"
    return Finding(
        kind=RULE_FAILED,
        cause=RULE_FAILED,
        severity="error",
        since_ms=now_ms,
        text=Text(
            f"A rule of balancewatch failed at {what} at {clock(now_ms)} ({failure.message} at {failure.place}). Until "
            "it is judged again nothing new is reported of it; everything else is judged.",
            "Report it with the quarantined message (`balancewatch quarantine --reason 'rule_failed*'`). It is tried "
            "again when its members, its routes or the rules change.",
        ),
        labels=labels,
        broker_name=labels.get("broker_name"),
        evidence={"error": failure.message, "trace": failure.trace},
    )
