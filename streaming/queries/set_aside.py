"""What a rule raised at is set aside, kept as it was before the batch, and told once; everything else goes on.

A group is judged again when its members, its routes or the rules change, and every RETRY_MS; a cluster's own look at
each tick. The first evaluation that raises nothing ends the alert. Errors of the state store and lack of memory are no
rule's: the batch fails, and runs again.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from streaming.queries.chunk import Reject
from streaming.queries.shard_events import Event
from streaming.queries.shard_rows import quarantine_row
from streaming.queries.shard_store import RETRIED
from streaming.queries.working_set import WorkingSet
from udfs.alerts.alert import Transition
from udfs.alerts.failed_rule import RULE_FAILED, Failure, find_failure
from udfs.alerts.life import Evaluation, Reason, end, step
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.cluster_state import ClusterState
from udfs.groups.state import GroupState

RETRY_MS = 120_000
"""A broker's CHANNEL_EXPIRED_TIMEOUT: the member at which it raised may have gone without a word."""

FRAMES = 6
"""Of the traceback, the innermost."""

MOST_CHARACTERS = 1_000


@contextmanager
def group_set_aside(work: WorkingSet, cluster: str, name: str, event: Event, rules: Rules) -> Iterator[None]:
    """What happens within, to this group alone, may raise."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # whatever a rule raises must not end the query
        failure = describe(error)
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        before = work.group(cluster, name, now_ms)
        work.revert_group(cluster, name)
        group = work.change(cluster, name, now_ms)
        _take_over(before, group)
        group.is_stale = False
        findings = {RULE_FAILED: find_failure({"cluster": cluster, "consumer_group": name}, failure, now_ms)}
        if RULE_FAILED not in group.incidents:
            work.put("quarantine", [_quarantined(event, failure)])
        work.put_alerts(
            step(group.incidents, group.windows, RULE_FAILED, findings, lambda _: Evaluation(now_ms), rules)
        )
        work.enter(cluster, name, now_ms + RETRY_MS, _topics_of(group))
        work.dirty.get(cluster, set()).discard(name)


@contextmanager
def cluster_set_aside(
    work: WorkingSet, cluster: str, event: Event, rules: Rules, *, writes_rows: bool
) -> Iterator[None]:
    """What happens within concerns a cluster as a whole. `writes_rows`: this shard writes what all of them conclude."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # whatever a rule raises must not end the query
        failure = describe(error)
        before = work.cluster(cluster).watch
        work.revert_cluster(cluster)
        watch = work.cluster(cluster).watch
        _take_over(before, watch)
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        is_new = RULE_FAILED not in watch.incidents
        findings = {RULE_FAILED: find_failure({"cluster": cluster}, failure, now_ms)}
        transitions = step(watch.incidents, watch.windows, RULE_FAILED, findings, lambda _: Evaluation(now_ms), rules)
        if writes_rows:
            work.put_alerts(transitions)
            work.put("quarantine", [_quarantined(event, failure)] if is_new else [])
        else:
            list(transitions)


def _take_over(before: GroupState | ClusterState, reverted: GroupState | ClusterState) -> None:
    """What was told of failures in this batch stays told."""
    reverted.incidents.pop(RULE_FAILED, None)
    if RULE_FAILED in before.incidents:
        reverted.incidents[RULE_FAILED] = before.incidents[RULE_FAILED]
    reverted.windows.pop(RULE_FAILED, None)
    if RULE_FAILED in before.windows:
        reverted.windows[RULE_FAILED] = before.windows[RULE_FAILED]


def is_set_aside(group: GroupState) -> bool:
    return RULE_FAILED in group.incidents


def is_tried_again(work: WorkingSet, group: GroupState, now_ms: int) -> bool:
    """Whether something has changed since a rule raised at it, or it was long ago."""
    entry = work.cluster(group.cluster).groups.get(group.consumer_group)
    return group.is_stale or entry is None or (entry.due_ms is not None and entry.due_ms <= now_ms)


def as_after_a_gap(
    broker_coverage: BrokerCoverage, group: GroupState, brokers: set[str], now_ms: int
) -> BrokerCoverage:
    """What a group hears that nobody looked at since a rule raised: its silences begin now."""
    away_ms = now_ms - group.incidents[RULE_FAILED].started_at_ms
    since_ms = {**broker_coverage.since_ms, **dict.fromkeys(brokers, now_ms)}
    return replace(broker_coverage, gap_ms=max(broker_coverage.gap_ms, away_ms), since_ms=since_ms)


def come_back(group: GroupState, now_ms: int) -> Transition:
    """It was judged without a failure."""
    return end(group.incidents.pop(RULE_FAILED), Reason.RECOVERED, Evaluation(now_ms))


def describe(error: BaseException) -> Failure:
    """What was raised, and where: the innermost frames, without the machine's paths."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]
    message = f"{type(error).__name__}: {error}"[: MOST_CHARACTERS // 2]
    return Failure(message, places[-1] if places else "", " > ".join(places))


def _quarantined(event: Event, failure: Failure) -> dict[str, object]:
    """The message at which it was raised; for a look that is the clock event."""
    reason = f"{RULE_FAILED}: {failure.message} in {failure.trace}"[:MOST_CHARACTERS]
    return quarantine_row(event.topic, event.partition, Reject(*event.message, [reason]))


def _topics_of(group: GroupState) -> set[str]:
    return {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
