"""`balancewatch owner`: planned owner and actual consumers of a queue at a given time, for each consumer group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS
from streaming.history.query_options import GLOB, At, Cluster, QueryOptions, parse_options
from streaming.history.table_question import equals, open_history, where_named
from streaming.store.freshness import LIVE_TABLES, Freshness, describe_stale, read_freshness
from streaming.store.store import History
from streaming.terminal.command import fail
from streaming.terminal.completion import GROUPS, TOPICS
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import Records, print_answer
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.suggestions import suggest
from streaming.text.times import both_times, time_text, to_ms, to_time, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import join_words, name_queues
from udfs.groups.verdict_reason import VERDICT_REASONS
from udfs.rocketmq.model import queue_order

_OWNERS = """
WITH asked AS (
    SELECT * FROM {assignments} WHERE {condition} AND broker_name = $broker AND queue_id = $queue_id
), reported AS (
    SELECT cluster, consumer_group, client_id, arg_max(strategy, changed_at) AS strategy
    FROM {memberships} WHERE strategy IS NOT NULL AND client_id IN (SELECT planned_owner FROM asked) GROUP BY ALL
), moment AS (
    SELECT * FROM {alerts} WHERE state <> 'RESOLVED'
), incident AS (
    SELECT effect.* REPLACE (coalesce(cause.advice, effect.advice) AS advice)
    FROM moment AS effect LEFT JOIN moment AS cause
        ON cause.incident_id = effect.inhibited_by AND cause.cluster = effect.cluster
    WHERE effect.topic = $topic AND list_contains(effect.queues, $queue)
)
SELECT DISTINCT ON (asked.cluster, asked.consumer_group)
    asked.cluster, asked.consumer_group, asked.topic, $queue AS queue, $at::TIMESTAMPTZ AS at, asked.planned_owner,
    reported.strategy,
    list_filter(coalesce(asked.observed_owners, []), lambda client: client <> '') AS observed_owners,
    asked.verdict, asked.since, asked.completeness,
    incident.incident_id, incident.started_at AS incident_since, incident.kind, incident.cause, incident.advice,
    asked.verdict_reason, $newest::TIMESTAMPTZ AS newest_row_at, $is_stale AS is_stale
FROM asked
LEFT JOIN reported ON reported.cluster = asked.cluster AND reported.consumer_group = asked.consumer_group
    AND reported.client_id = asked.planned_owner
LEFT JOIN incident ON asked.verdict NOT IN ('OK', 'NOT_JUDGED') AND incident.cluster = asked.cluster
    AND incident.consumer_group = asked.consumer_group
ORDER BY asked.cluster, asked.consumer_group, incident.state = 'FIRING' DESC, incident.kind = 'starved_queue' DESC,
    incident.started_at
"""
"""An answer for each group.

strategy        the planned owner's, if it reported one
since           since when the verdict is certain
incident_id     the open incident that lists the queue, a firing one first; its trouble began at `incident_since`
advice          of the incident, or of the one that inhibits it
verdict_reason  why the verdict is UNKNOWN or NOT_JUDGED (udfs.groups.verdict_reason)
newest_row_at   the newest row of any table; `is_stale`: newer data is missing
"""

Row = Mapping[str, Any]


class UnknownQueueError(ValueError):
    """The tables have no row of the queue at that time. The message names the nearest known names."""


@dataclass(frozen=True)
class Queue:
    """The queue to look up, of all groups or of those that the options name."""

    topic: str
    broker_name: str
    queue_id: int
    options: QueryOptions

    @property
    def name(self) -> str:
        return f"{self.broker_name}:{self.queue_id}"

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return the SQL condition on topic, group and cluster, and its parameters."""
        where, params = where_named(self.options, {"group": equals("consumer_group"), "cluster": equals("cluster")})
        return f"topic = $topic AND {where}", {"topic": self.topic, **params}


def owner(
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC", autocompletion=TOPICS)],
    queue: Annotated[str, typer.Argument(help="The queue, such as broker-a:7.", metavar="BROKER:QUEUE")],
    at: At = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Only this group, or a glob. Default: all groups of the topic.", metavar=GLOB, autocompletion=GROUPS
        ),
    ] = None,
    cluster: Cluster = None,
    format_: Annotated[
        str, format_option("table", "json", "csv", "parquet", text="table (a line a group), json, csv or parquet.")
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
        freshness = read_freshness(history, at_ms, options.stale_ms)
        found = read_owners(history, Queue(topic, broker_name, int(number), options), freshness)
    except (WarehouseError, UnknownQueueError) as error:
        fail(str(error))
    stale = describe_stale(freshness)

    def show(rows: Records) -> None:
        for line in map(_describe, rows):
            say(f"{line.removesuffix('.')}; {stale}" if stale else line)

    print_answer(found.to_reader(), options.format, show, "")


def read_owners(history: History, queue: Queue, moment: Freshness) -> pa.Table:
    """Return the answers at that time, by cluster and group. Raises UnknownQueueError if there is none."""
    condition, params = queue.condition()
    sql = _OWNERS.format(
        condition=condition,
        assignments=history.newest(ASSIGNMENTS, moment.at_ms),
        memberships=history.between(MEMBERSHIPS, None, moment.at_ms),
        alerts=history.newest(ALERTS, moment.at_ms),
    )
    place = {"broker": queue.broker_name, "queue_id": queue.queue_id, "queue": queue.name, "at": to_time(moment.at_ms)}
    newest = None if moment.newest_ms is None else to_time(moment.newest_ms)
    found = history.query(sql, {**params, **place, "newest": newest, "is_stale": moment.is_stale})
    if not found.num_rows:
        raise UnknownQueueError(_what_is_known(history, queue, moment.at_ms))
    return found


def _describe(row: Row) -> str:
    planned = (row["planned_owner"] or "none") + (f" ({row['strategy']})" if row["strategy"] else "")
    completeness = "" if row["completeness"] is None else f" (completeness {row['completeness']:.0%})"
    reason, why = row["verdict_reason"], ""
    if row["incident_id"]:
        cause = f" ({row['cause']})" if row["cause"] and row["cause"] != row["kind"] else ""
        since = "not consumed since" if row["kind"] == "starved_queue" else "since"
        why = (
            f"; alert {row['kind']}{cause}, {since} {time_text(to_ms(row['incident_since']))}, "
            f"incident {row['incident_id']}: {row['advice']}"
        )
    elif reason in VERDICT_REASONS:
        why = f"; {reason}: {str(VERDICT_REASONS[reason]).removesuffix('.')}"
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
        name = "group" if "group" in queue.options.names else "cluster"
        given = queue.options.names.get(name)
        nearest = suggest(str(given), groups) if name == "group" else ""
        return f"--{name} {given!r} has no queue of topic {queue.topic}{nearest}"
    first = {row["queue"]: to_ms(row["first"]) for row in rows}
    if queue.name not in first:
        return f"topic {queue.topic} has no queue {queue.name}; it has {name_queues(sorted(first, key=queue_order))}"
    began = both_times(first[queue.name])
    return f"{queue.topic} {queue.name} has no row at {both_times(at_ms)}; its first row is from {began}"
