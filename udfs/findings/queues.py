"""silent_queue, doubled_queue, offset_regression: queues whose pulls are not as they should be."""

from udfs.alert import Finding
from udfs.diagnosis import CAUSES
from udfs.explanation import SPLIT_VIEW
from udfs.findings import prose
from udfs.findings.starved import STARVED_QUEUE, diagnose_topic, is_quiet
from udfs.model import queue_order
from udfs.ownership import DOUBLED, SILENT, QueueWatch, find_doublings
from udfs.plan import DUPLICATE_CLIENT_ID, MIXED_STRATEGY, are_mixed, names_of_brokers
from udfs.rules import REBALANCE_MS
from udfs.scene import Findings, Scene
from udfs.watch import TopicWatch

SILENT_QUEUE, DOUBLED_QUEUE, OFFSET_REGRESSION = "silent_queue", "doubled_queue", "offset_regression"

UNEXPLAINED = "unexplained"


def find_silent(scene: Scene) -> Findings:
    """A finding a topic whose queues have an owner that does not pull, by `silent_queue TOPIC`: the early sign.

    It opens when a silence has outlasted what changes take to settle and no cause is certain yet; once one is,
    `starved_queue` pages and this is suppressed by it. Not: queues of a broker that no client reaches.
    """
    findings = {}
    for topic, watched in scene.shared_topics():
        key = f"{SILENT_QUEUE} {topic}"
        if not is_quiet(watched):
            continue
        starvations = diagnose_topic(scene, watched, scene.evidence(topic, watched))
        silent = {
            name: starvation
            for name, starvation in starvations.items()
            if watched.queues[name].verdict == SILENT
            and queue_order(name)[0] not in scene.hearing.silent
            and scene.is_settled(max(starvation.since_ms, starvation.given_ms))
        }
        uncertain = [name for name, s in silent.items() if s.certain_at_ms is None or s.certain_at_ms > scene.now_ms]
        if not silent or not (uncertain or scene.incident(key)):
            continue
        since_ms = min(starvation.since_ms for starvation in silent.values())
        owners = sorted({watched.queues[name].share.owner or "" for name in silent})
        names = tuple(sorted(silent, key=queue_order))
        cause = min((silent[name].cause for name in uncertain or names), key=CAUSES.index)
        findings[key] = Finding(
            kind=SILENT_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=prose.tell_silent_queue(scene.labels, topic, names, owners, cause, since_ms),
            labels={**scene.labels, "topic": topic},
            topic=topic,
            client_id=owners[0] if len(owners) == 1 else None,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"owners": owners, "last_pull_ms": {name: watched.queues[name].last_pull_ms for name in names}},
            suppressed_by=scene.suppressor(f"{STARVED_QUEUE} {topic}"),
        )
    return findings


def find_doubled(scene: Scene) -> Findings:
    """A finding a topic with queues that two clients consume side by side, by `doubled_queue TOPIC`."""
    findings = {}
    for topic, watched in scene.shared_topics():
        doubled = {name: watch for name, watch in watched.queues.items() if watch.verdict == DOUBLED}
        if not doubled:
            continue
        since_ms = min(watch.since_ms for watch in doubled.values())
        is_mixed = len(scene.strategies(topic, watched)) > 1 or are_mixed(one for _, one in scene.judged_members())
        cause, twin = _cause_of_doubled(doubled, watched, is_mixed=is_mixed)
        names = tuple(sorted(doubled, key=queue_order))
        pullers = {
            name: sorted(f"{one.client_id or '?'} at {one.client_addr or '?'}" for one in watch.pullers.values())
            for name, watch in doubled.items()
        }
        suppressors = {DUPLICATE_CLIENT_ID: f"{DUPLICATE_CLIENT_ID} {twin}", SPLIT_VIEW: SPLIT_VIEW}
        findings[f"{DOUBLED_QUEUE} {topic}"] = Finding(
            kind=DOUBLED_QUEUE,
            cause=cause,
            severity="warning",
            since_ms=since_ms,
            text=prose.tell_doubled_queue(scene.labels, topic, names, pullers, cause, since_ms),
            labels={**scene.labels, "topic": topic},
            topic=topic,
            client_id=twin,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"pullers": pullers},
            suppressed_by=scene.suppressor(suppressors[cause]) if cause in suppressors else None,
            is_ready=any(_has_outlasted_changes(watch, scene) for watch in doubled.values())
            and (cause != UNEXPLAINED or scene.is_settled(scene.state.changed_ms)),
        )
    return findings


def _has_outlasted_changes(watch: QueueWatch, scene: Scene) -> bool:
    """A queue may be doubled while its new plan spreads: one client polls the route, or rebalances, before another."""
    return scene.now_ms >= watch.since_ms + REBALANCE_MS and scene.is_settled(watch.share_since_ms)


def _cause_of_doubled(doubled: dict[str, QueueWatch], watched: TopicWatch, *, is_mixed: bool) -> tuple[str, str | None]:
    """Why two clients pull the same queues, and the ClientId it is about.

    Twins pull side by side themselves: a client that came back on another channel is none.
    """
    pairs = [pair for watch in doubled.values() for pair in find_doublings(watch, list(watch.pullers.values()))]
    twins = [one.client_id for one, other in pairs if one.client_id and one.client_id == other.client_id]
    if twins:
        return DUPLICATE_CLIENT_ID, min(twins)
    ids = {puller.client_id or "" for pair in pairs for puller in pair}
    explained = sorted(ids & watched.explanation.causes.keys())
    if explained:
        return watched.explanation.causes[explained[0]], explained[0]
    return (MIXED_STRATEGY if is_mixed else UNEXPLAINED), None


def find_regressions(scene: Scene) -> Findings:
    """A finding a topic whose committed offsets went back, by `offset_regression TOPIC`, until they have come again."""
    findings = {}
    for topic, watched in sorted(scene.state.topics.items()):
        fallen = {
            name: watch.oddity
            for name, watch in watched.queues.items()
            if watch.oddity and watch.oddity.regressed_ms is not None
        }
        if not fallen:
            continue
        again = {name: odd.high_offset - odd.low_offset for name, odd in fallen.items()}
        since_ms = min(odd.regressed_ms or 0 for odd in fallen.values())
        names = tuple(sorted(fallen, key=queue_order))
        findings[f"{OFFSET_REGRESSION} {topic}"] = Finding(
            kind=OFFSET_REGRESSION,
            cause=OFFSET_REGRESSION,
            severity="warning" if sum(again.values()) >= scene.rules.offset_regression_messages else "info",
            since_ms=since_ms,
            text=prose.tell_offset_regression(scene.labels, topic, names, sum(again.values()), since_ms),
            labels={**scene.labels, "topic": topic},
            topic=topic,
            broker_name=names_of_brokers(names),
            queues=names,
            evidence={"consumed_again": again, "from": {name: odd.high_offset for name, odd in fallen.items()}},
        )
    return findings
