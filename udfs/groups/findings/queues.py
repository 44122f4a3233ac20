"""stalled_queue, double_consumed_queue, offset_regression: queues whose pulls are not as they should be."""

from udfs.alerts.alert import Finding
from udfs.alerts.rules import REBALANCE_MS
from udfs.groups.diagnosis import CAUSES
from udfs.groups.findings import prose
from udfs.groups.findings.starved import STARVED_QUEUE, diagnose_topic, is_quiet, keep_causes, reported_blames
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MIXED_STRATEGY, are_mixed, names_of_brokers
from udfs.groups.queue_state import DOUBLE_CONSUMED, NOT_CONSUMED, QueueState
from udfs.groups.queue_verdicts import find_doublings
from udfs.groups.snapshot import Findings, GroupSnapshot
from udfs.groups.state import TopicState
from udfs.rocketmq.model import queue_order

STALLED_QUEUE, DOUBLE_CONSUMED_QUEUE, OFFSET_REGRESSION = "stalled_queue", "double_consumed_queue", "offset_regression"

UNEXPLAINED = "unexplained"


def find_stalled(snapshot: GroupSnapshot) -> Findings:
    """Kind 5. A queue is silent when its owner has not pulled it for longer than changes take to settle, and no cause
    is certain yet: the early sign; a finding a topic, by `stalled_queue TOPIC`. Once a cause is certain `starved_queue`
    pages, and explains the silence. Not silent: queues of a broker that no client reaches.
    """
    findings = {}
    for topic, topic_state in snapshot.shared_topics():
        key = f"{STALLED_QUEUE} {topic}"
        if not is_quiet(topic_state):
            continue
        starvations = diagnose_topic(snapshot, topic_state, snapshot.evidence(topic, topic_state))
        blames = reported_blames(snapshot.incident(key))
        starvations = keep_causes(starvations, blames, snapshot.last_heartbeat_ms.keys())
        silent = {
            name: starvation
            for name, starvation in starvations.items()
            if topic_state.queues[name].verdict == NOT_CONSUMED
            and queue_order(name)[0] not in snapshot.broker_coverage.silent
            and snapshot.is_settled(max(starvation.since_ms, starvation.given_ms))
        }
        uncertain = [name for name, s in silent.items() if s.certain_at_ms is None or s.certain_at_ms > snapshot.now_ms]
        if not silent or not (uncertain or snapshot.incident(key)):
            continue
        since_ms = min(starvation.since_ms for starvation in silent.values())
        owners = sorted({topic_state.queues[name].share.owner or "" for name in silent})
        names = tuple(sorted(silent, key=queue_order))
        cause = min((silent[name].cause for name in uncertain or names), key=CAUSES.index)
        findings[key] = Finding(
            kind=STALLED_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=prose.describe_stalled_queue(snapshot.labels, topic, names, owners, cause, since_ms),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            client_id=owners[0] if len(owners) == 1 else None,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={
                "owners": owners,
                "last_pull_ms": {name: topic_state.queues[name].last_pull_ms for name in names},
            },
            inhibited_by=snapshot.inhibitor(f"{STARVED_QUEUE} {topic}"),
        )
    return findings


def find_double_consumed(snapshot: GroupSnapshot) -> Findings:
    """Kind 6. A queue is doubled when two clients have consumed it side by side for longer than a hand-over takes; a
    finding a topic, by `double_consumed_queue TOPIC`. Not: a queue that changed hands, whose first owner pulls no more.
    """
    findings = {}
    for topic, topic_state in snapshot.shared_topics():
        doubled = {
            name: queue_state
            for name, queue_state in topic_state.queues.items()
            if queue_state.verdict == DOUBLE_CONSUMED
        }
        if not doubled:
            continue
        since_ms = min(queue_state.since_ms for queue_state in doubled.values())
        is_mixed = len(snapshot.strategies(topic, topic_state)) > 1 or are_mixed(
            one for _, one in snapshot.judged_members()
        )
        cause, twin = _cause_of_double_consumed(doubled, topic_state, is_mixed=is_mixed)
        names = tuple(sorted(doubled, key=queue_order))
        pullers = {
            name: sorted(f"{one.client_id or '?'} at {one.client_addr or '?'}" for one in queue_state.pullers.values())
            for name, queue_state in doubled.items()
        }
        inhibitors = {DUPLICATE_CLIENT_ID: f"{DUPLICATE_CLIENT_ID} {twin}", SPLIT_VIEW: SPLIT_VIEW}
        findings[f"{DOUBLE_CONSUMED_QUEUE} {topic}"] = Finding(
            kind=DOUBLE_CONSUMED_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=prose.describe_double_consumed_queue(snapshot.labels, topic, names, pullers, cause, since_ms),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            client_id=twin,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"pullers": pullers},
            inhibited_by=snapshot.inhibitor(inhibitors[cause]) if cause in inhibitors else None,
            is_ready=any(_has_outlasted_changes(queue_state, snapshot) for queue_state in doubled.values())
            and (cause != UNEXPLAINED or snapshot.is_settled(snapshot.state.changed_ms)),
        )
    return findings


def _has_outlasted_changes(queue_state: QueueState, snapshot: GroupSnapshot) -> bool:
    """A queue may be doubled while its new plan spreads: one client polls the route, or rebalances, before another."""
    return snapshot.now_ms >= queue_state.since_ms + REBALANCE_MS and snapshot.is_settled(queue_state.share_since_ms)


def _cause_of_double_consumed(
    doubled: dict[str, QueueState], topic_state: TopicState, *, is_mixed: bool
) -> tuple[str, str | None]:
    """Why two clients pull the same queues, and the ClientId it is about.

    Twins pull side by side themselves: a client that came back on another channel is none.
    """
    pairs = [
        pair
        for queue_state in doubled.values()
        for pair in find_doublings(queue_state, list(queue_state.pullers.values()))
    ]
    twins = [one.client_id for one, other in pairs if one.client_id and one.client_id == other.client_id]
    if twins:
        return DUPLICATE_CLIENT_ID, min(twins)
    ids = {puller.client_id or "" for pair in pairs for puller in pair}
    explained = sorted(ids & topic_state.inference.causes.keys())
    if explained:
        return topic_state.inference.causes[explained[0]], explained[0]
    return (MIXED_STRATEGY if is_mixed else UNEXPLAINED), None


def find_regressions(snapshot: GroupSnapshot) -> Findings:
    """Kind 9. Offsets regress when a queue's committed offset goes back; a finding a topic, by `offset_regression
    TOPIC`, until the offsets have come again. Not a regression: two clients that commit by turns while a queue changes
    hands.
    """
    findings = {}
    for topic, topic_state in sorted(snapshot.state.topics.items()):
        fallen = {
            name: queue_state.anomaly
            for name, queue_state in topic_state.queues.items()
            if queue_state.anomaly and queue_state.anomaly.regressed_ms is not None
        }
        if not fallen:
            continue
        again = {name: odd.high_offset - odd.low_offset for name, odd in fallen.items()}
        since_ms = min(odd.regressed_ms or 0 for odd in fallen.values())
        names = tuple(sorted(fallen, key=queue_order))
        findings[f"{OFFSET_REGRESSION} {topic}"] = Finding(
            kind=OFFSET_REGRESSION,
            cause=OFFSET_REGRESSION,
            severity="warning" if sum(again.values()) >= snapshot.rules.offset_regression_messages else "info",
            since_ms=since_ms,
            text=prose.describe_offset_regression(snapshot.labels, topic, names, sum(again.values()), since_ms),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"consumed_again": again, "from": {name: odd.high_offset for name, odd in fallen.items()}},
        )
    return findings
