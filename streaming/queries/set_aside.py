"""What a failing rule leaves: the state before the batch, one alert and one quarantined message; all else continues.

A group is evaluated again when its members, its routes or the rules change, and every RETRY_MS; a cluster at each clock
event; a broker's items and a cluster's fleet with the next batch, without this batch's attempts. The first evaluation
without a failure resolves the alert. Errors of the state store and lack of memory are no rule's: the batch fails, and
runs again.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.events import SEND_LATENCIES
from streaming.queries.events import Event
from streaming.queries.parcel import Reject
from streaming.queries.rows import alert_row, quarantine_row
from streaming.queries.store import RETRIED
from streaming.queries.working_set import WorkingSet
from streaming.warehouse.rows import Rows
from udfs.alerts.alert import Transition
from udfs.alerts.failed_rule import RULE_FAILED, find_failure
from udfs.alerts.life import Evaluation, Reason, end, step
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.cluster_state import ClusterState
from udfs.groups.state import GroupState
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet

RETRY_MS = 120_000
"""A broker's CHANNEL_EXPIRED_TIMEOUT: the member at which the rule failed may have left without unregistering."""

FRAMES = 6
"""Innermost frames of the traceback that are reported."""

MOST_CHARACTERS = 1_000


@contextmanager
def group_set_aside(work: WorkingSet, cluster: str, name: str, event: Event, rules: Rules) -> Iterator[None]:
    """Set the group aside if a rule fails within."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # an error of a rule must not end the query
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        before = work.group(cluster, name, now_ms)
        work.revert_group(cluster, name)
        group = work.change(cluster, name, now_ms)
        _keep_alert(before, group)
        group.is_stale = False
        alerts, reasons = _report(group, error, {"cluster": cluster, "consumer_group": name}, now_ms, rules)
        work.put_alerts(alerts)
        if reasons:
            work.quarantine(event.topic, event.partition, Reject(*event.message, reasons))
        topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
        work.enter(cluster, name, now_ms + RETRY_MS, topics)
        work.dirty.get(cluster, set()).discard(name)


@contextmanager
def cluster_set_aside(
    work: WorkingSet, cluster: str, event: Event, rules: Rules, *, writes_rows: bool
) -> Iterator[None]:
    """Set the cluster aside if a rule fails within. `writes_rows`: this shard writes the cluster's rows."""
    try:
        yield
    except RETRIED:
        raise
    except Exception as error:  # an error of a rule must not end the query
        before = work.cluster(cluster).watch
        work.revert_cluster(cluster)
        watch = work.cluster(cluster).watch
        _keep_alert(before, watch)
        now_ms = max(event.time_ms, work.cluster(cluster).now_ms)
        alerts, reasons = _report(watch, error, {"cluster": cluster}, now_ms, rules)
        if writes_rows:
            work.put_alerts(alerts)
            if reasons:
                work.quarantine(event.topic, event.partition, Reject(*event.message, reasons))


def _keep_alert(before: GroupState | ClusterState, reverted: GroupState | ClusterState) -> None:
    """Keep this batch's rule_failed alert in the reverted state."""
    pairs: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        (before.incidents, reverted.incidents),
        (before.windows, reverted.windows),
    )
    for newest, kept in pairs:
        kept.pop(RULE_FAILED, None)
        if RULE_FAILED in newest:
            kept[RULE_FAILED] = newest[RULE_FAILED]


def is_set_aside(group: GroupState) -> bool:
    return RULE_FAILED in group.incidents


def is_tried_again(work: WorkingSet, group: GroupState, now_ms: int) -> bool:
    """Whether the group has changed since the rule failed, or its retry is due."""
    entry = work.cluster(group.cluster).groups.get(group.consumer_group)
    return group.is_stale or entry is None or (entry.due_ms is not None and entry.due_ms <= now_ms)


def as_after_a_gap(
    broker_coverage: BrokerCoverage, group: GroupState, brokers: set[str], now_ms: int
) -> BrokerCoverage:
    """Return the coverage of a group that was not evaluated since the rule failed: its silences begin now."""
    away_ms = now_ms - group.incidents[RULE_FAILED].started_at_ms
    since_ms = {**broker_coverage.since_ms, **dict.fromkeys(brokers, now_ms)}
    return replace(broker_coverage, gap_ms=max(broker_coverage.gap_ms, away_ms), since_ms=since_ms)


def come_back(state: GroupState | ClusterState | Board | Fleet, now_ms: int) -> Iterator[Transition]:
    """Resolve the alert after an evaluation without a failure."""
    failed = state.incidents.pop(RULE_FAILED, None)
    if failed is not None:
        yield end(failed, Reason.RECOVERED, Evaluation(now_ms))


def set_aside(state: Board | Fleet, error: Exception, labels: dict[str, Any], now_ms: int, rules: Rules) -> Rows:
    """Return the batch's only rows of a failed broker or fleet. `state` is as it was before the batch."""
    alerts, reasons = _report(state, error, labels, now_ms, rules)
    rows: Rows = {"alerts": [alert_row(transition) for transition in alerts]}
    if reasons:
        rows["quarantine"] = [quarantine_row(SEND_LATENCIES, 0, Reject(0, now_ms, None, reasons))]
    return rows


def _report(
    state: GroupState | ClusterState | Board | Fleet,
    error: Exception,
    labels: dict[str, str],
    now_ms: int,
    rules: Rules,
) -> tuple[list[Transition], list[str]]:
    """Open the alert in the reverted state. Return its rows, and the reason of the quarantine if it was not open."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]  # without the machine's paths
    places = [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]
    message, trace = f"{type(error).__name__}: {error}"[: MOST_CHARACTERS // 2], " > ".join(places)
    is_new, windows = RULE_FAILED not in state.incidents, {}
    if isinstance(state, GroupState | ClusterState):
        windows = state.windows
    findings = {RULE_FAILED: find_failure(labels, message, places[-1] if places else "", trace, now_ms)}
    alerts = list(step(state.incidents, windows, RULE_FAILED, findings, Evaluation(now_ms), rules))
    return alerts, [f"{RULE_FAILED}: {message} in {trace}"[:MOST_CHARACTERS]] if is_new else []
