"""One consumer group, now or at a past time: its queues, channels and open incidents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from schemas.tables import ALERTS, ASSIGNMENTS, BACKLOGS, MEMBERSHIPS
from schemas.views import acknowledged_sql
from streaming.board.url import AskedError
from streaming.store.store import History
from streaming.store.table_files import time_sql
from streaming.text.suggestions import MOST_NAMED, closest
from udfs.alerts.phrase import Phrase, phrase

MOST_INCIDENTS = 50

OPEN_STATES = ("FIRING", "PENDING", "RECOVERING", "UNKNOWN")
"""States of an open incident."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the group: its planned owner, its observed owners, the verdict, and since when the verdict holds.

    `reason` is why the verdict is UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason).
    """

    topic: str
    broker_name: str
    queue_id: int
    planned_owner: str | None
    observed_owners: tuple[str, ...]
    verdict: str
    since_ms: int
    reason: str | None = None

    @property
    def name(self) -> str:
        return f"{self.broker_name}:{self.queue_id}"

    @property
    def key(self) -> str:
        return f"{self.topic} {self.name}"


@dataclass(frozen=True, slots=True)
class Channel:
    """One connection of a member, as one broker lists it."""

    broker_name: str
    client_id: str
    client_addr: str
    language: str | None
    client_version: str | None
    topics: tuple[str, ...]
    strategy: str | None
    joined_ms: int
    last_heartbeat_ms: int


@dataclass(frozen=True)
class Group:
    """A group of one cluster as of `at_ms`; None means now. `incidents` are open, causes first.

    `backlogs` are by the queue's key: `messages`, 1,000 or more, or None if no longer known, and `changed_ms`.
    """

    cluster: str
    consumer_group: str
    at_ms: int | None
    queues: tuple[Queue, ...]
    channels: tuple[Channel, ...]
    incidents: Sequence[Mapping[str, Any]]
    backlogs: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.queues})

    def twins(self) -> set[str]:
        """Return the ClientIds of twins, by its open incidents."""
        twins = (one["client_id"] for one in self.incidents if one["kind"] == "duplicate_client_id")
        return {client_id for client_id in twins if client_id}


def read_group(
    history: History,
    cluster: str | None,
    consumer_group: str,
    at_ms: int | None = None,
    queues: Sequence[Queue] | None = None,
) -> Group:
    """Return the group; `queues` are read unless given.

    Raises AskedError for an unknown group, or one that several clusters have.
    """
    name = cluster or find_cluster(history, consumer_group)
    params = {"cluster": name, "consumer_group": consumer_group}
    if queues is None:
        rows = history.query(
            "SELECT topic, broker_name, queue_id, planned_owner, coalesce(observed_owners, []) AS observed_owners, "
            f"verdict, epoch_ms(since) AS since_ms, verdict_reason FROM {history.newest(ASSIGNMENTS, at_ms)} "
            f"WHERE {_OF_GROUP} ORDER BY topic, broker_name, queue_id",
            params,
        )
        queues = queues_of(rows)
    channels = history.rows(
        "SELECT broker_name, client_id, client_addr, language, client_version, coalesce(topics, []) AS topics, "
        "strategy, epoch_ms(changed_at) AS joined_ms, epoch_ms(last_heartbeat) AS last_heartbeat_ms "
        f"FROM {history.newest(MEMBERSHIPS, at_ms)} WHERE {_OF_GROUP} AND change IN ('JOINED', 'CHANGED') "
        "ORDER BY client_id, broker_name, client_addr",
        params,
    )
    until = "" if at_ms is None else time_sql(at_ms)
    incidents = history.rows(
        f"""
        SELECT incident_id, kind, severity, state, cause, cluster, consumer_group, topic, broker_name, client_id,
            coalesce(queues, []) AS queues, summary, advice, inhibited_by, epoch_ms(started_at) AS started_ms,
            acknowledged_by, NULL AS silence
        FROM {history.newest(ALERTS, at_ms)} LEFT JOIN ({acknowledged_sql(until)}) USING (incident_id)
        WHERE {_OF_GROUP} AND state IN {OPEN_STATES}
        ORDER BY inhibited_by IS NOT NULL, started_at, incident_id LIMIT {MOST_INCIDENTS}
        """,
        params,
    )
    # An alert may name the group, or its queues were judged at another time.
    elsewhere = ("alerts",) if at_ms is None else ("alerts", "assignments")
    is_there = (history.rows(f"SELECT 1 FROM {table} WHERE {_OF_GROUP} LIMIT 1", params) for table in elsewhere)
    if not queues and not channels and not any(is_there):
        raise AskedError(_describe_unknown(history, cluster, consumer_group))
    backlogs = history.rows(
        "SELECT concat(topic, ' ', broker_name, ':', queue_id) AS key, messages, epoch_ms(changed_at) AS changed_ms "
        f"FROM {history.newest(BACKLOGS, at_ms)} WHERE {_OF_GROUP} AND coalesce(messages, 1000) >= 1000",
        params,
    )
    members = tuple(Channel(**{**row, "topics": tuple(row["topics"])}) for row in channels)
    by_queue = {row.pop("key"): row for row in backlogs}
    return Group(name, consumer_group, at_ms, tuple(queues), members, incidents, by_queue)


_OF_GROUP = "cluster = $cluster AND consumer_group = $consumer_group"


def queues_of(rows: pa.Table) -> list[Queue]:
    """Return the rows of a query with a Queue's fields as columns, in their order; the reason is optional."""
    columns = [rows.column(name).to_pylist() for name in rows.column_names]
    return [
        Queue(topic, broker_name, queue_id, planned_owner, tuple(observed), verdict, since_ms, *reason)
        for topic, broker_name, queue_id, planned_owner, observed, verdict, since_ms, *reason in zip(
            *columns, strict=True
        )
    ]


def is_alerted_topic(history: History, group: Group, topic: str) -> bool:
    """Return whether an alert of the group names the topic. Such alerts link here, although no queue of it is known."""
    asked = {"cluster": group.cluster, "consumer_group": group.consumer_group, "topic": topic}
    return bool(history.rows(f"SELECT 1 FROM alerts WHERE {_OF_GROUP} AND topic = $topic LIMIT 1", asked))


def find_cluster(history: History, consumer_group: str) -> str:
    """Return the only cluster with this group. Raises AskedError for none and for several."""
    clusters = _names(
        history,
        "SELECT cluster FROM assignments WHERE consumer_group = $consumer_group UNION "
        "SELECT cluster FROM memberships WHERE consumer_group = $consumer_group UNION "
        "SELECT cluster FROM alerts WHERE consumer_group = $consumer_group",
        {"consumer_group": consumer_group},
    )
    if not clusters:
        raise AskedError(_describe_unknown(history, None, consumer_group))
    if len(clusters) > 1:
        text = phrase("Group {group} is in clusters {clusters}; add cluster= with one of them.", group=consumer_group)
        raise AskedError(text.given(clusters=", ".join(clusters)))
    return clusters[0]


def _describe_unknown(history: History, cluster: str | None, consumer_group: str) -> Phrase:
    known = _names(
        history,
        "SELECT DISTINCT consumer_group FROM assignments WHERE $cluster IS NULL OR cluster = $cluster",
        {"cluster": cluster},
    )
    near = closest(consumer_group, known, 0.4) or known[:MOST_NAMED]
    place = phrase(" in cluster {cluster}", cluster=cluster) if cluster else ""
    known_groups, none_known = phrase("; known groups include {groups}."), phrase("; no group is known there.")
    hint = known_groups.given(groups=", ".join(near)) if near else none_known
    return phrase("Group {group!r} is unknown{place}{hint}", group=consumer_group, place=place, hint=hint)


def _names(history: History, sql: str, params: dict[str, Any]) -> Sequence[str]:
    return sorted(name for row in history.rows(sql, params) for name in row.values())
