"""Who was meant to consume a queue at a moment, and who did: one answer a consumer group."""

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


class NobodyKnowsError(ValueError):
    """The tables know nothing of it then. The message says what they know, and names what comes near."""


@dataclass(frozen=True)
class Queue:
    """What is asked about. `group` and `cluster` are names or globs; None asks for all, the canary's left out."""

    topic: str
    broker_name: str
    queue_id: int
    group: str | None
    cluster: str | None


@dataclass(frozen=True)
class Owners:
    """One group's answer. `strategy` is the planned owner's, where it told one. `incident_id` is the open incident that
    lists the queue, `advice` the line that fixes it, of the incident that explains it where one does. `verdict_reason`
    is why the verdict is UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason).
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
        "kind": pa.string(),
        "cause": pa.string(),
        "advice": pa.string(),
        "verdict_reason": pa.string(),
        "newest_row_at": _TIME,
        "is_stale": pa.bool_(),
    }
)
"""Of `record_of`."""


def record_of(owners: Owners, freshness: Freshness) -> dict[str, Any]:
    """The answer as a flat row, and until when the tables know: `is_stale` says that it need not be so any more."""
    row = asdict(owners) | {
        "at": to_time(owners.at_ms),
        "observed_owners": list(owners.observed_owners),
        "since": to_time(owners.since_ms),
        "newest_row_at": None if freshness.newest_ms is None else to_time(freshness.newest_ms),
        "is_stale": freshness.is_stale,
    }
    return {name: row[name] for name in SCHEMA.names}


def read_owners(history: History, queue: Queue, at_ms: int) -> list[Owners]:
    """The answers as of then, by cluster and group. Raises NobodyKnowsError when there is none."""
    names, params = _names(queue)
    params |= {"broker": queue.broker_name, "queue_id": queue.queue_id}
    rows = history.rows(
        f"SELECT * FROM {history.newest(ASSIGNMENTS, at_ms)} WHERE {names} AND broker_name = $broker "
        "AND queue_id = $queue_id ORDER BY cluster, consumer_group",
        params,
    )
    if not rows:
        raise NobodyKnowsError(_what_is_known(history, queue, at_ms))
    return [_owners(history, row, at_ms) for row in rows]


def _names(queue: Queue) -> tuple[str, dict[str, Any]]:
    """SQL of the topic, group and cluster asked for."""
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
    """The open one that lists the queue, one that fires before others; the advice is its cause's where it has one."""
    rows = history.rows(
        f"WITH moment AS (SELECT * FROM {history.newest(ALERTS, at_ms)} WHERE cluster = $cluster) "
        "SELECT effect.incident_id, effect.kind, effect.cause, coalesce(cause.advice, effect.advice) AS advice "
        "FROM moment AS effect LEFT JOIN moment AS cause ON cause.incident_id = effect.inhibited_by "
        "AND cause.state <> 'RESOLVED' "
        "WHERE effect.state <> 'RESOLVED' AND effect.consumer_group = $group AND effect.topic = $topic "
        "AND list_contains(effect.queues, $queue) "
        "ORDER BY effect.state = 'FIRING' DESC, effect.kind = 'starved_queue' DESC, effect.started_at LIMIT 1",
        {"cluster": row["cluster"], "group": row["consumer_group"], "topic": row["topic"], "queue": queue},
    )
    return rows[0] if rows else {}


def describe_owners(owners: Owners) -> str:
    """One line."""
    meant = f"meant for {owners.planned_owner}" if owners.planned_owner else "meant for nobody"
    strategy = f" ({owners.strategy})" if owners.strategy else ""
    pulled = f"pulled by {join_words(owners.observed_owners)}" if owners.observed_owners else "pulled by nobody"
    heard = "" if owners.completeness is None else f" (completeness {owners.completeness:.2g})"
    why = ""
    if owners.incident_id:
        cause = f", {owners.cause}" if owners.cause and owners.cause != owners.kind else ""
        why = f"; {owners.kind}{cause}, incident {owners.incident_id}: {owners.advice}"
    elif owners.verdict_reason is not None and owners.verdict_reason in VERDICT_REASONS:
        why = f"; {owners.verdict_reason}: {VERDICT_REASONS[owners.verdict_reason].removesuffix('.')}"
    elif owners.verdict == "UNKNOWN":
        why = "; no data from it"
    return (
        f"{owners.topic} {owners.queue} of {owners.consumer_group} ({owners.cluster}) at {both_times(owners.at_ms)}: "
        f"{meant}{strategy}, {pulled}: {owners.verdict} since {time_text(owners.since_ms)}{heard}{why}"
    )


def _what_is_known(history: History, queue: Queue, at_ms: int) -> str:
    """Why there is no answer: an unknown topic, group or queue, or a moment before all that is known."""
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
    return (
        f"nothing is known of {queue.topic} {name} at {both_times(at_ms)}; its history begins {both_times(first[name])}"
    )


def _distinct(history: History, column: str, condition: str, params: dict[str, Any]) -> list[str]:
    rows = history.rows(f"SELECT DISTINCT {column} AS name FROM assignments WHERE {condition}", params)
    return [row["name"] for row in rows]
