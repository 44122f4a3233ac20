"""The alert on a rule that failed with an exception: a bug of balancewatch, reported with what it leaves unjudged."""

from udfs.alerts.alert import Finding, wording
from udfs.alerts.phrase import phrase
from udfs.alerts.prose import clock

RULE_FAILED = "rule_failed"


def find_failure(labels: dict[str, str], error: str, place: str, trace: str, now_ms: int) -> Finding:
    """Return the finding for the group, broker or cluster of these labels, which is not evaluated. The exception, its
    place and its stack trace are one line each.
    """
    what = phrase("cluster {cluster}", **labels)
    if "consumer_group" in labels:
        what = phrase("group {consumer_group} of cluster {cluster}", **labels)
    elif "broker_name" in labels:
        what = phrase("broker {broker_name} of cluster {cluster}", **labels)
    return Finding(
        kind=RULE_FAILED,
        cause=RULE_FAILED,
        severity="error",
        since_ms=now_ms,
        text=wording(
            "A rule of balancewatch failed for {what} at {time} ({error} at {place}). No new findings are reported "
            "for it until its next successful evaluation; everything else is evaluated.",
            "Report it with the quarantined message (`balancewatch quarantine --reason 'rule_failed*'`). The rule "
            "is retried when the members, the routes or the rules change.",
        ).given(what=what, time=clock(now_ms), error=error, place=place),
        labels=labels,
        broker_name=labels.get("broker_name"),
        evidence={"error": error, "trace": trace},
    )
