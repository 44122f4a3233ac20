"""Changes of a group's queues over a period: verdicts and owners, of all queues.

They come from the same steps as the bands of the history, before these are limited to the drawn lanes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

MOST_CHANGES = 60
MOST_OWNERS = 4

CHOSEN = "($topic = '' OR topic = $topic) AND ($queue = '' OR broker_name || ':' || queue_id = $queue)"


@dataclass(frozen=True, slots=True)
class Change:
    """Queues of a topic that made the same change at one time.

    `way` is "became" for a new verdict; `before` is None without a previous one, and `owners` are new planned owners,
    `owners_number` in all. It is "moved" for a new planned owner and "pulled" for a new puller under the same verdict.
    """

    time_ms: int
    topic: str
    way: str
    before: str | None
    after: str | None
    queues: tuple[str, ...]
    owners: tuple[str, ...] = ()
    owners_number: int = 0


@dataclass(frozen=True)
class Changes:
    """The newest changes, the number of all, and of all the counts of queues by new verdict and of moves."""

    newest: tuple[Change, ...]
    number: int
    became: Mapping[str, int]
    moved: int


_CHANGED = f"""
WITH known AS (
    SELECT
        topic, broker_name, queue_id, start_ms, batch_id, verdict, planned_owner,
        nullif(array_to_string(observed_owners, ', '), '') AS observed
    FROM steps
    WHERE {CHOSEN}
    QUALIFY lead(start_ms) OVER (PARTITION BY topic, broker_name, queue_id ORDER BY start_ms, batch_id)
        IS DISTINCT FROM start_ms
), paired AS (
    SELECT
        *,
        lag(verdict) OVER before AS verdict_before,
        lag(planned_owner) OVER before AS planned_before,
        lag(observed) OVER before AS observed_before
    FROM known
    WINDOW before AS (PARTITION BY topic, broker_name, queue_id ORDER BY start_ms)
), ways AS (
    SELECT
        *,
        CASE
            WHEN verdict_before IS DISTINCT FROM verdict THEN 'became'
            WHEN planned_before IS DISTINCT FROM planned_owner THEN 'moved'
            WHEN observed_before IS DISTINCT FROM observed THEN 'pulled'
        END AS way
    FROM paired
    WHERE start_ms > $from_ms
)
SELECT
    start_ms AS time_ms,
    topic,
    way,
    CASE way WHEN 'became' THEN verdict_before WHEN 'moved' THEN planned_before ELSE observed_before END AS "before",
    CASE way WHEN 'became' THEN verdict WHEN 'moved' THEN planned_owner ELSE observed END AS "after",
    broker_name || ':' || queue_id AS queue,
    CASE WHEN way = 'became' AND planned_before IS DISTINCT FROM planned_owner THEN planned_owner END AS owner
FROM ways
WHERE way IS NOT NULL
"""

_NEWEST = f"""
SELECT
    time_ms, topic, way, "before", "after", list_sort(list(queue)) AS queues,
    coalesce(list_sort(list(DISTINCT owner) FILTER (owner IS NOT NULL))[1:{MOST_OWNERS}], []) AS owners,
    count(DISTINCT owner) AS owners_number,
    count(*) OVER () AS number
FROM changed
GROUP BY time_ms, topic, way, "before", "after"
ORDER BY time_ms DESC, topic, way, "after", "before"
LIMIT {MOST_CHANGES}
"""

_COUNTS = """
SELECT CASE way WHEN 'became' THEN "after" END AS verdict, count(*) AS n FROM changed GROUP BY verdict ORDER BY verdict
"""


def read_changes(engine: duckdb.DuckDBPyConnection, params: Mapping[str, Any]) -> Changes:
    """Return the changes after `from_ms` for `topic` and `queue`; `engine` has the group's steps as `steps`."""
    named = {name: params[name] for name in ("topic", "queue", "from_ms")}
    engine.register("changed", engine.sql(_CHANGED, params=named).to_arrow_table())
    rows = engine.sql(_NEWEST).to_arrow_table().to_pylist()
    counts = {row["verdict"]: row["n"] for row in engine.sql(_COUNTS).to_arrow_table().to_pylist()}
    number = rows[0]["number"] if rows else 0
    moved = counts.pop(None, 0)
    newest = tuple(
        Change(
            row["time_ms"],
            row["topic"],
            row["way"],
            row["before"],
            row["after"],
            tuple(row["queues"]),
            tuple(row["owners"]),
            row["owners_number"],
        )
        for row in rows
    )
    return Changes(newest, number, counts, moved)
