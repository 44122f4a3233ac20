"""The alert on a rule that failed with an exception: a bug of balancewatch, reported with what it leaves unjudged."""

from udfs.alerts.alert import Finding, Text
from udfs.alerts.prose import clock

RULE_FAILED = "rule_failed"


def find_failure(labels: dict[str, str], message: str, place: str, trace: str, now_ms: int) -> Finding:
    """Return the finding for the group, broker or cluster of these labels, which is not evaluated. The exception, its
    place and its stack trace are one line each.
    """
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
            f"A rule of balancewatch failed for {what} at {clock(now_ms)} ({message} at {place}). No "
            "new findings are reported for it until its next successful evaluation; everything else is evaluated.",
            "Report it with the quarantined message (`balancewatch quarantine --reason 'rule_failed*'`). The rule is "
            "retried when the members, the routes or the rules change.",
        ),
        labels=labels,
        broker_name=labels.get("broker_name"),
        evidence={"error": message, "trace": trace},
    )
