"""The results of the rules as rows of the Delta tables (schemas/tables.py); times are epoch ms."""

import json
from typing import Any

from schemas.tables import ASSIGNMENTS
from streaming.queries.parcel import Reject
from udfs.alerts.alert import Transition
from udfs.groups.backlog import BacklogRow
from udfs.groups.queue_state import OwnershipRow
from udfs.groups.state import GroupState
from udfs.producers.board import Flip, Health
from udfs.rocketmq.membership import Change
from udfs.rocketmq.model import queue_order

CLOCK_NEEDED = "clock_needed"
"""Not a Delta table: rows for `run` with the clusters that need its clock events."""

CLOCK_HEARD = "clock_heard"
"""Not a Delta table: the newest clock event of each cluster in a batch and its source, from shard 0."""

Row = dict[str, Any]


def _columns(fields: Any, *names: str) -> Row:
    """Return the fields that their columns are named after."""
    return {name: getattr(fields, name) for name in names}


def alert_row(transition: Transition) -> Row:
    """Return the row of a transition; summary and advice may be phrases, which a language is chosen for later."""
    incident = transition.incident
    return {
        **_columns(incident, "alert_id", "incident_id", "kind", "severity", "cause", "topic", "broker_name"),
        **_columns(incident, "client_id", "inhibited_by", "flaps", "is_flapping"),
        "state": transition.state,
        "reason": str(transition.reason),
        "cluster": incident.labels["cluster"],
        "consumer_group": incident.labels.get("consumer_group"),
        "queues": list(incident.queues),
        "summary": incident.text.summary,
        "advice": incident.text.advice,
        "evidence": json.dumps(incident.evidence, sort_keys=True),
        "labels": json.dumps(incident.labels, sort_keys=True),
        "completeness": transition.completeness,
        "started_at": incident.started_at_ms,
        "fired_at": incident.fired_at_ms,
        "changed_at": transition.changed_at_ms,
    }


def _place(group: GroupState, row: OwnershipRow | BacklogRow) -> Row:
    """Return the columns that name a queue of a group."""
    place = group.cluster, group.consumer_group, row.topic, *queue_order(row.queue)
    return dict(zip(ASSIGNMENTS.key, place, strict=True))


def assignment_row(group: GroupState, row: OwnershipRow, completeness: float, now_ms: int) -> Row:
    return {
        **_place(group, row),
        "planned_owner": row.planned_owner,
        "observed_owners": row.observed_owners,
        "verdict": row.verdict,
        "completeness": completeness,
        "since": row.since_ms,
        "changed_at": now_ms,
        "verdict_reason": row.reason,
    }


def backlog_row(group: GroupState, row: BacklogRow, now_ms: int) -> Row:
    return {
        **_place(group, row),
        "messages": row.messages,
        "changed_at": now_ms,
    }


def membership_row(group: GroupState, change: Change) -> Row:
    member = change.member
    return {
        "cluster": group.cluster,
        "consumer_group": group.consumer_group,
        "broker_name": change.broker_name,
        **_columns(member, "client_id", "client_addr", "language", "client_version", "topics", "strategy"),
        "change": change.change,
        "last_heartbeat": member.last_heartbeat_ms,
        "changed_at": change.at_ms,
    }


def quarantine_row(topic: str, partition: int, reject: Reject) -> Row:
    return {
        "topic": topic,
        "partition": partition,
        "offset": reject.offset,
        "raw": reject.value,
        "reasons": reject.reasons,
        "ingest_time": reject.ingest_time_ms,
    }


def fault_item_row(cluster: str, broker_name: str, flip: Flip) -> Row:
    return {
        "cluster": cluster,
        "broker_name": broker_name,
        **_columns(flip, "client_id", "client_version", "current_latency_ms", "isolation", "available"),
        "start_timestamp": flip.start_timestamp_ms,
        "changed_at": flip.changed_at_ms,
    }


def health_row(cluster: str, broker_name: str, health: Health) -> Row:
    return {
        "cluster": cluster,
        "broker_name": broker_name,
        "unavailable_producers": health.unavailable_producers,
        "producers": health.producers,
        "unavailable_until": health.unavailable_until_ms,
        "changed_at": health.changed_at_ms,
    }
