"""`balancewatch owner`: planned owner and actual consumers of a queue at a given time, for each consumer group."""

from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS
from streaming.history.query_options import FORMAT, GLOB, At, Cluster, parse_options
from streaming.history.table_question import is_glob, open_history
from streaming.store.freshness import LIVE_TABLES, describe_stale, read_freshness
from streaming.store.store import History
from streaming.terminal.command import fail
from streaming.terminal.printing import plain, print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.suggestions import suggest
from streaming.text.times import both_times, time_text, to_ms, to_time, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import join_words, name_queues
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.groups.verdict_reason import VERDICT_REASONS
from udfs.rocketmq.model import queue_order

FINE = ("OK", "NOT_JUDGED")

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
"""An answer for one group.

strategy        the planned owner's, if it reported one
since           since when the verdict is certain
incident_id     the open incident that lists the queue; its trouble began at `incident_since`
advice          of the incident, or of the one that inhibits it
verdict_reason  why the verdict is UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason)
newest_row_at   the newest row of any table; `is_stale`: newer data is missing
"""

Row = dict[str, Any]


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

    @property
    def name(self) -> str:
        return f"{self.broker_name}:{self.queue_id}"

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return the SQL condition on topic, group and cluster, and its parameters."""
        conditions, params = ["topic = $topic"], {"topic": self.topic}
        for column, glob in (("consumer_group", self.group), ("cluster", self.cluster)):
            if glob is not None:
                conditions.append(f"{column} {'GLOB' if is_glob(glob) else '='} ${column}")
                params[column] = glob
        if self.cluster is None:
            conditions.append("cluster <> $canary")
            params["canary"] = CANARY_CLUSTER
        return " AND ".join(conditions), params


def owner(
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC")],
    queue: Annotated[str, typer.Argument(help="The queue, such as broker-a:7.", metavar="BROKER:QUEUE")],
    at: At = None,
    group: Annotated[
        str | None, typer.Option(help="Only this group, or a glob. Default: all groups of the topic.", metavar=GLOB)
    ] = None,
    cluster: Cluster = None,
    format_: Annotated[
        str, typer.Option("--format", help="table (a line for each group), json, csv or parquet.", metavar=FORMAT)
    ] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the planned owner and the actual consumers of a queue, now or at a given time.

    The line also has the verdict and since when it is certain; of an open alert, when its trouble began and how to fix
    it.

    Example: balancewatch owner orders broker-a:7 --group billing --at 03:12

    Example: balancewatch owner orders broker-a:7 --format json
    """
    broker_name, _, number = queue.rpartition(":")
    if not broker_name or not number.isdecimal() or len(number) > 9:
        fail(f"BROKER:QUEUE {queue[:80]!r}: give a broker name and a queue number, such as broker-a:7", code=2)
    options = parse_options(at=at, group=group, cluster=cluster, format_=format_, warehouse=warehouse)
    at_ms = wall_ms() if options.at_ms is None else options.at_ms
    try:
        history = open_history(options, ASSIGNMENTS, *LIVE_TABLES)
        rows = read_owners(history, Queue(topic, broker_name, int(number), group, cluster), at_ms)
        freshness = read_freshness(history, at_ms, options.stale_ms)
    except (WarehouseError, UnknownQueueError) as error:
        fail(str(error))
    if options.format == "table":
        stale = describe_stale(freshness)
        for row in rows:
            line = _describe(row)
            say(f"{line.removesuffix('.')}; {stale}" if stale else line)
        return
    newest = None if freshness.newest_ms is None else to_time(freshness.newest_ms)
    age = {"newest_row_at": newest, "is_stale": freshness.is_stale}
    found = [{name: (row | age).get(name) for name in SCHEMA.names} for row in rows]
    print_rows(found if options.format == "parquet" else [plain(row) for row in found], options.format, schema=SCHEMA)


def read_owners(history: History, queue: Queue, at_ms: int) -> list[Row]:
    """Return the answers at that time, by cluster and group. Raises UnknownQueueError if there is none."""
    condition, params = queue.condition()
    rows = history.rows(
        f"SELECT * FROM {history.newest(ASSIGNMENTS, at_ms)} WHERE {condition} AND broker_name = $broker "
        "AND queue_id = $queue_id ORDER BY cluster, consumer_group",
        params | {"broker": queue.broker_name, "queue_id": queue.queue_id},
    )
    if not rows:
        raise UnknownQueueError(_what_is_known(history, queue, at_ms))
    for row in rows:
        row["queue"], row["at"] = queue.name, to_time(at_ms)
        row["strategy"] = _strategy(history, row, at_ms)
        row["observed_owners"] = list(filter(None, row["observed_owners"] or ()))
        if row["verdict"] not in FINE:
            row.update(_incident(history, row, at_ms))
    return rows


def _strategy(history: History, row: Row, at_ms: int) -> str | None:
    if row["planned_owner"] is None:
        return None
    reported = history.rows(
        f"SELECT arg_max(strategy, changed_at) AS strategy FROM {history.between(MEMBERSHIPS, None, at_ms)} "
        "WHERE cluster = $cluster AND consumer_group = $group AND client_id = $client AND strategy IS NOT NULL",
        {"cluster": row["cluster"], "group": row["consumer_group"], "client": row["planned_owner"]},
    )
    strategy: str | None = reported[0]["strategy"]
    return strategy


def _incident(history: History, row: Row, at_ms: int) -> Row:
    """Return columns of the open incident that lists the queue, a firing one first, with the advice of its cause."""
    rows = history.rows(
        f"WITH moment AS (SELECT * FROM {history.newest(ALERTS, at_ms)} WHERE cluster = $cluster) "
        "SELECT effect.incident_id, effect.kind, effect.cause, coalesce(cause.advice, effect.advice) AS advice, "
        "effect.started_at AS incident_since "
        "FROM moment AS effect LEFT JOIN moment AS cause ON cause.incident_id = effect.inhibited_by "
        "AND cause.state <> 'RESOLVED' "
        "WHERE effect.state <> 'RESOLVED' AND effect.consumer_group = $group AND effect.topic = $topic "
        "AND list_contains(effect.queues, $queue) "
        "ORDER BY effect.state = 'FIRING' DESC, effect.kind = 'starved_queue' DESC, effect.started_at LIMIT 1",
        {"cluster": row["cluster"], "group": row["consumer_group"], "topic": row["topic"], "queue": row["queue"]},
    )
    return rows[0] if rows else {}


def _describe(row: Row) -> str:
    """Return the answer as one line."""
    planned = (row["planned_owner"] or "none") + (f" ({row['strategy']})" if row["strategy"] else "")
    completeness = "" if row["completeness"] is None else f" (completeness {row['completeness']:.0%})"
    reason, why = row["verdict_reason"], ""
    if row.get("incident_id"):
        cause = f" ({row['cause']})" if row["cause"] and row["cause"] != row["kind"] else ""
        since = "not consumed since" if row["kind"] == "starved_queue" else "since"
        why = (
            f"; alert {row['kind']}{cause}, {since} {time_text(to_ms(row['incident_since']))}, "
            f"incident {row['incident_id']}: {row['advice']}"
        )
    elif reason in VERDICT_REASONS:
        why = f"; {reason}: {VERDICT_REASONS[reason].removesuffix('.')}"
    elif row["verdict"] == "UNKNOWN":
        why = "; missing data"
    return (
        f"{row['topic']} {row['queue']} of {row['consumer_group']} ({row['cluster']}) "
        f"at {both_times(to_ms(row['at']))}: planned owner: {planned}; "
        f"consumed by: {join_words(row['observed_owners'] or ['none'])}; "
        f"verdict {row['verdict']}, certain since {time_text(to_ms(row['since']))}{completeness}{why}"
    )


def _what_is_known(history: History, queue: Queue, at_ms: int) -> str:
    """Return why there is no answer: an unknown topic, group or queue, or a time before the first row."""

    def names(column: str, topic: str | None = None) -> list[str]:
        rows = history.rows(
            f"SELECT DISTINCT {column} AS name FROM assignments WHERE $topic IS NULL OR topic = $topic",
            {"topic": topic},
        )
        return [row["name"] for row in rows]

    topics = names("topic")
    if queue.topic not in topics:
        return f"TOPIC {queue.topic!r} is not in the assignments table{suggest(queue.topic, topics)}"
    condition, params = queue.condition()
    rows = history.rows(
        "SELECT concat(broker_name, ':', queue_id) AS queue, min(changed_at) AS first FROM assignments "
        f"WHERE {condition} GROUP BY ALL",
        params,
    )
    if not rows:
        groups = names("consumer_group", queue.topic)
        options = f"--group {queue.group!r}" if queue.group else f"--cluster {queue.cluster!r}"
        return f"{options} has no queue of topic {queue.topic}{suggest(queue.group or '', groups)}"
    first = {row["queue"]: to_ms(row["first"]) for row in rows}
    if queue.name not in first:
        return f"topic {queue.topic} has no queue {queue.name}; it has {name_queues(sorted(first, key=queue_order))}"
    began = both_times(first[queue.name])
    return f"{queue.topic} {queue.name} has no row at {both_times(at_ms)}; its first row is from {began}"
