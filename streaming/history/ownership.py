"""Planned owner and actual consumers of a queue at a given time: one answer for each consumer group."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS
from streaming.history.table_question import is_glob
from streaming.store.freshness import Freshness
from streaming.store.store import History
from streaming.text.suggestions import suggest
from streaming.text.times import both_times, time_text, to_ms, to_time
from udfs.alerts.prose import join_words, name_queues
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.groups.verdict_reason import VERDICT_REASONS
from udfs.rocketmq.model import queue_order

FINE = ("OK", "NOT_JUDGED")


class UnknownQueueError(ValueError):
    """The tables have no row of the queue at that time. The message names the nearest known names."""


@dataclass(frozen=True)
class Queue:
    """The queue to look up. `group` and `cluster` are names or globs; None means all but the canary's."""

    topic: str
    broker_name: str
    queue_id: int
    group: str | None
    cluster: str | None


@dataclass(frozen=True)
class Owners:
    """The answer for one group.

    strategy        the planned owner's, where it reported one
    since_ms        the verdict is certain since then
    incident_id     the open incident that lists the queue; `incident_since_ms` is when its trouble began
    advice          of the incident, or of the one that inhibits it
    verdict_reason  why the verdict is UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason)
    """

    cluster: str
    consumer_group: str
    topic: str
    queue: str
    at_ms: int
    planned_owner: str | None
    strategy: str | None
    observed_owners: tuple[str, ...]
    verdict: str
    since_ms: int
    completeness: float | None
    incident_id: str | None = None
    kind: str | None = None
    cause: str | None = None
    advice: str | None = None
    verdict_reason: str | None = None
    incident_since_ms: int | None = None


_TIME = pa.timestamp("us", "UTC")

SCHEMA = pa.schema(
    {
        "cluster": pa.string(),
        "consumer_group": pa.string(),
        "topic": pa.string(),
        "queue": pa.string(),
        "at": _TIME,
        "planned_owner": pa.string(),
        "strategy": pa.string(),
        "observed_owners": pa.list_(pa.string()),
        "verdict": pa.string(),
        "since": _TIME,
        "completeness": pa.float64(),
        "incident_id": pa.string(),
        "incident_since": _TIME,
        "kind": pa.string(),
        "cause": pa.string(),
        "advice": pa.string(),
        "verdict_reason": pa.string(),
        "newest_row_at": _TIME,
        "is_stale": pa.bool_(),
    }
)
"""Columns of `record_of`."""


def record_of(owners: Owners, freshness: Freshness) -> dict[str, Any]:
    """Return the answer as a flat row, with the time of the newest row; `is_stale` where newer data is missing."""
    row = asdict(owners) | {
        "at": to_time(owners.at_ms),
        "observed_owners": list(owners.observed_owners),
        "since": to_time(owners.since_ms),
        "incident_since": None if owners.incident_since_ms is None else to_time(owners.incident_since_ms),
        "newest_row_at": None if freshness.newest_ms is None else to_time(freshness.newest_ms),
        "is_stale": freshness.is_stale,
    }
    return {name: row[name] for name in SCHEMA.names}


def read_owners(history: History, queue: Queue, at_ms: int) -> list[Owners]:
    """Return the answers at that time, by cluster and group. Raises UnknownQueueError where there is none."""
    names, params = _names(queue)
    params |= {"broker": queue.broker_name, "queue_id": queue.queue_id}
    rows = history.rows(
        f"SELECT * FROM {history.newest(ASSIGNMENTS, at_ms)} WHERE {names} AND broker_name = $broker "
        "AND queue_id = $queue_id ORDER BY cluster, consumer_group",
        params,
    )
    if not rows:
        raise UnknownQueueError(_what_is_known(history, queue, at_ms))
    return [_owners(history, row, at_ms) for row in rows]


def _names(queue: Queue) -> tuple[str, dict[str, Any]]:
    """Return the SQL condition on topic, group and cluster, and its parameters."""
    conditions, params = ["topic = $topic"], {"topic": queue.topic}
    for column, glob in (("consumer_group", queue.group), ("cluster", queue.cluster)):
        if glob is not None:
            conditions.append(f"{column} {'GLOB' if is_glob(glob) else '='} ${column}")
            params[column] = glob
    if queue.cluster is None:
        conditions.append("cluster <> $canary")
        params["canary"] = CANARY_CLUSTER
    return " AND ".join(conditions), params


def _owners(history: History, row: dict[str, Any], at_ms: int) -> Owners:
    name = f"{row['broker_name']}:{row['queue_id']}"
    incident = {} if row["verdict"] in FINE else _incident(history, row, name, at_ms)
    return Owners(
        row["cluster"],
        row["consumer_group"],
        row["topic"],
        name,
        at_ms,
        row["planned_owner"],
        _strategy(history, row, at_ms),
        tuple(filter(None, row["observed_owners"] or ())),
        row["verdict"],
        to_ms(row["since"]),
        row["completeness"],
        verdict_reason=row["verdict_reason"],
        **incident,
    )


def _strategy(history: History, row: dict[str, Any], at_ms: int) -> str | None:
    if row["planned_owner"] is None:
        return None
    reported = history.rows(
        f"SELECT arg_max(strategy, changed_at) AS strategy FROM {history.between(MEMBERSHIPS, None, at_ms)} "
        "WHERE cluster = $cluster AND consumer_group = $group AND client_id = $client AND strategy IS NOT NULL",
        {"cluster": row["cluster"], "group": row["consumer_group"], "client": row["planned_owner"]},
    )
    strategy: str | None = reported[0]["strategy"]
    return strategy


def _incident(history: History, row: dict[str, Any], queue: str, at_ms: int) -> dict[str, Any]:
    """Return columns of the open incident that lists the queue, a firing one first, with the advice of its cause."""
    rows = history.rows(
        f"WITH moment AS (SELECT * FROM {history.newest(ALERTS, at_ms)} WHERE cluster = $cluster) "
        "SELECT effect.incident_id, effect.kind, effect.cause, coalesce(cause.advice, effect.advice) AS advice, "
        "epoch_ms(effect.started_at) AS incident_since_ms "
        "FROM moment AS effect LEFT JOIN moment AS cause ON cause.incident_id = effect.inhibited_by "
        "AND cause.state <> 'RESOLVED' "
        "WHERE effect.state <> 'RESOLVED' AND effect.consumer_group = $group AND effect.topic = $topic "
        "AND list_contains(effect.queues, $queue) "
        "ORDER BY effect.state = 'FIRING' DESC, effect.kind = 'starved_queue' DESC, effect.started_at LIMIT 1",
        {"cluster": row["cluster"], "group": row["consumer_group"], "topic": row["topic"], "queue": queue},
    )
    return rows[0] if rows else {}


SINCE = {"starved_queue": "not consumed since"}
"""Kind of alert to what its time says; the verdict's own time says since when it is certain."""


def describe_owners(owners: Owners) -> str:
    """Return the answer as one line."""
    planned = (owners.planned_owner or "none") + (f" ({owners.strategy})" if owners.strategy else "")
    consumers = join_words(owners.observed_owners) if owners.observed_owners else "none"
    completeness = "" if owners.completeness is None else f" (completeness {owners.completeness:.0%})"
    why = ""
    if owners.incident_id and owners.kind and owners.incident_since_ms is not None:
        cause = f" ({owners.cause})" if owners.cause and owners.cause != owners.kind else ""
        since = f"{SINCE.get(owners.kind, 'since')} {time_text(owners.incident_since_ms)}"
        why = f"; alert {owners.kind}{cause}, {since}, incident {owners.incident_id}: {owners.advice}"
    elif owners.verdict_reason is not None and owners.verdict_reason in VERDICT_REASONS:
        why = f"; {owners.verdict_reason}: {VERDICT_REASONS[owners.verdict_reason].removesuffix('.')}"
    elif owners.verdict == "UNKNOWN":
        why = "; missing data"
    return (
        f"{owners.topic} {owners.queue} of {owners.consumer_group} ({owners.cluster}) at {both_times(owners.at_ms)}: "
        f"planned owner: {planned}; consumed by: {consumers}; verdict {owners.verdict}, "
        f"certain since {time_text(owners.since_ms)}{completeness}{why}"
    )


def _what_is_known(history: History, queue: Queue, at_ms: int) -> str:
    """Return why there is no answer: an unknown topic, group or queue, or a time before the first row."""
    name = f"{queue.broker_name}:{queue.queue_id}"
    topics = _distinct(history, "topic", "true", {})
    if queue.topic not in topics:
        return f"TOPIC {queue.topic!r} is not in the assignments table{suggest(queue.topic, topics)}"
    conditions, params = _names(queue)
    rows = history.rows(
        "SELECT broker_name, queue_id, min(changed_at) AS first FROM assignments "
        f"WHERE {conditions} GROUP BY broker_name, queue_id",
        params,
    )
    if not rows:
        groups = _distinct(history, "consumer_group", "topic = $topic", {"topic": queue.topic})
        options = f"--group {queue.group!r}" if queue.group else f"--cluster {queue.cluster!r}"
        return f"{options} has no queue of topic {queue.topic}{suggest(queue.group or '', groups)}"
    first = {f"{row['broker_name']}:{row['queue_id']}": to_ms(row["first"]) for row in rows}
    if name not in first:
        return f"topic {queue.topic} has no queue {name}; it has {name_queues(sorted(first, key=queue_order))}"
    return f"{queue.topic} {name} has no row at {both_times(at_ms)}; its first row is from {both_times(first[name])}"


def _distinct(history: History, column: str, condition: str, params: dict[str, Any]) -> list[str]:
    rows = history.rows(f"SELECT DISTINCT {column} AS name FROM assignments WHERE {condition}", params)
    return [row["name"] for row in rows]
