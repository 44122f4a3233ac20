"""The history of a group's queues: spans of one verdict, changes, times of change, and membership changes.

The group's steps are read from the warehouse once and then queried in memory. Limits: MOST_LANES queues, problems
first, MOST_STEPS of their changes, and MOST_MOMENTS times. Changes are of all queues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from streaming.board.known import extent_of, named
from streaming.board.pages.group_tables import Queue, queues_of
from streaming.board.words import WRONG
from streaming.store.store import History

MOST_CHANGES = 60
MOST_OWNERS = 4

CHOSEN = "($topic = '' OR topic = $topic) AND ($queue = '' OR broker_name || ':' || queue_id = $queue)"


Row = dict[str, Any]

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


def read_changes(engine: duckdb.DuckDBPyConnection, params: Mapping[str, Any]) -> Row:
    """Return the changes after `from_ms` for `topic` and `queue`; `engine` has the group's steps as `steps`.

    newest         queues of a topic that made the same change at one time. `way` is "became" for a new verdict;
                   `before` is None without a previous one, and `owners` are new planned owners, `owners_number` in all.
                   It is "moved" for a new planned owner and "pulled" for a new puller under the same verdict.
    number         of all changes; `became` counts the queues by new verdict, `moved` the other changes of queues
    """
    engine.register("changed", _ask(engine, _CHANGED, params))
    newest = _ask(engine, _NEWEST, params).to_pylist()
    became = {row["verdict"]: row["n"] for row in _ask(engine, _COUNTS, params).to_pylist()}
    number = max((row.pop("number") for row in newest), default=0)
    return {"newest": newest, "number": number, "moved": became.pop(None, 0), "became": became}


MOST_LANES = 48
MOST_STEPS = 20_000
MOST_MOMENTS = 120
MOST_COMINGS = 200
MOST_INCIDENTS = 12


@dataclass(frozen=True, slots=True)
class Span:
    """A queue's verdict and owners from `start_ms` to `end_ms`."""

    topic: str
    queue: str
    start_ms: int
    end_ms: int
    verdict: str
    planned_owner: str | None
    observed_owners: tuple[str, ...]


@dataclass(frozen=True)
class Times:
    """Values of the history page. `lanes` is the number of queues, of which `spans` has at most MOST_LANES.

    `changes` are of all queues. Spans end at `known_until_ms`, the end of the data. `queues` are all of the group at
    the chosen time; `before_ms` and `after_ms` are the nearest changes around it. `comings` are the members that
    joined, changed, left or expired within one second, newest first.
    """

    from_ms: int
    until_ms: int
    lanes: int
    spans: tuple[Span, ...]
    is_cut: bool
    moments: tuple[int, ...]
    before_ms: int | None
    after_ms: int | None
    queues: tuple[Queue, ...]
    comings: Sequence[Row]
    incidents: Sequence[Row]
    changes: Row
    known_until_ms: int


@dataclass(frozen=True)
class Place:
    """A group of a cluster, one topic or all, one queue (`broker:queue_id`) or all, and the period and time."""

    cluster: str
    consumer_group: str
    topic: str
    queue: str
    from_ms: int
    until_ms: int
    at_ms: int
    known_until_ms: int | None = None
    """End of the data; None if it is not before `until_ms`."""


_GROUP = "cluster = $cluster AND consumer_group = $consumer_group"
_WITHIN = "changed_at > make_timestamptz($from_ms * 1000) AND changed_at <= make_timestamptz($until_ms * 1000)"
_COLUMNS = "topic, broker_name, queue_id, planned_owner, coalesce(observed_owners, []) AS observed_owners, verdict"

_STEPS = f"""
SELECT {_COLUMNS}, epoch_ms(since) AS since_ms, epoch_ms(changed_at) AS start_ms, batch_id
FROM assignments
WHERE {_GROUP} AND {_WITHIN}
UNION ALL
SELECT {_COLUMNS}, epoch_ms(since), $from_ms, -1
FROM assignments_at(make_timestamptz($from_ms * 1000))
WHERE {_GROUP}
"""

_IS_WRONG = f"verdict IN {WRONG}"

_FIRST = f"SELECT min(start_ms) AS first_ms FROM steps WHERE {CHOSEN}"

_LANES = f"""
SELECT topic, broker_name, queue_id, count(*) OVER () AS lanes
FROM steps
WHERE {CHOSEN}
GROUP BY topic, broker_name, queue_id
ORDER BY count(*) FILTER ({_IS_WRONG}) > 0 DESC, max(start_ms) FILTER ({_IS_WRONG}) DESC, topic, broker_name, queue_id
LIMIT {MOST_LANES}
"""

_SPANS = f"""
SELECT topic, broker_name || ':' || queue_id AS queue, start_ms, verdict, planned_owner, observed_owners
FROM steps
WHERE topic || ' ' || broker_name || ':' || queue_id IN (SELECT unnest($lanes))
ORDER BY topic, broker_name, queue_id, start_ms DESC, batch_id DESC
LIMIT {MOST_STEPS + 1}
"""

_MOMENTS = f"""
SELECT max(start_ms) AS time_ms
FROM steps
WHERE {CHOSEN} AND batch_id >= 0
GROUP BY (start_ms - $from_ms) * {MOST_MOMENTS} // greatest($until_ms - $from_ms, 1)
ORDER BY time_ms
"""

_NEIGHBOURS = f"""
SELECT max(start_ms) FILTER (start_ms < $at_ms) AS before_ms, min(start_ms) FILTER (start_ms > $at_ms) AS after_ms
FROM steps
WHERE {CHOSEN} AND batch_id >= 0
"""

_AS_OF = """
WITH newest AS (
    SELECT topic, broker_name, queue_id, max(start_ms) AS start_ms FROM steps WHERE start_ms <= $at_ms GROUP BY ALL
)
SELECT topic, broker_name, queue_id, planned_owner, observed_owners, verdict, since_ms
FROM steps JOIN newest USING (topic, broker_name, queue_id, start_ms)
QUALIFY row_number() OVER (PARTITION BY topic, broker_name, queue_id ORDER BY batch_id DESC) = 1
ORDER BY topic, broker_name, queue_id
"""
"""A window over all steps would carry every column of every row, which takes six times as long."""

_COMINGS = f"""
SELECT epoch_ms(max(changed_at)) AS time_ms, change, list_sort(list(DISTINCT client_id)) AS client_ids
FROM memberships
WHERE {_GROUP} AND {_WITHIN}
GROUP BY epoch_ms(changed_at) // 1000, change
ORDER BY time_ms DESC, change
LIMIT {MOST_COMINGS}
"""

_INCIDENTS = f"""
SELECT incident_id, kind, state, epoch_ms(started_at) AS start_ms,
    CASE WHEN state = 'RESOLVED' THEN epoch_ms(changed_at) END AS end_ms
FROM alerts_now
WHERE {_GROUP} AND ($topic = '' OR topic IS NULL OR topic = $topic) AND fired_at IS NOT NULL
    AND started_at <= make_timestamptz($until_ms * 1000)
    AND (state <> 'RESOLVED' OR changed_at > make_timestamptz($from_ms * 1000))
ORDER BY inhibited_by IS NOT NULL, started_at DESC
LIMIT {MOST_INCIDENTS}
"""


def read_times(history: History, place: Place) -> Times:
    """Return the history between `from_ms` and `until_ms` and the state at `at_ms`.

    The period begins with the first queue, member or incident, or with `at_ms` if that is earlier.
    """
    params = {name: value for name, value in vars(place).items() if name != "known_until_ms"}
    known_until_ms = min(place.until_ms, place.known_until_ms or place.until_ms)
    comings = history.rows(_COMINGS, named(_COMINGS, params))
    incidents = history.rows(_INCIDENTS, named(_INCIDENTS, params))
    with duckdb.connect() as engine:
        engine.register("steps", history.query(_STEPS, named(_STEPS, params)))
        (first,) = _ask(engine, _FIRST, params).to_pylist()
        starts_ms = [first["first_ms"], *(row["time_ms"] for row in comings), *(row["start_ms"] for row in incidents)]
        known_ms = [ms for ms in starts_ms if ms is not None]
        shown_ms = [place.at_ms, place.until_ms, *known_ms] if known_ms else []
        params["from_ms"], _ = extent_of(place.from_ms, place.until_ms, shown_ms)
        lanes = _ask(engine, _LANES, params).to_pylist()
        names = [f"{row['topic']} {row['broker_name']}:{row['queue_id']}" for row in lanes]
        steps = _ask(engine, _SPANS, {**params, "lanes": names}).to_pylist() if names else []
        (nearest,) = _ask(engine, _NEIGHBOURS, params).to_pylist()
        return Times(
            params["from_ms"],
            place.until_ms,
            lanes[0]["lanes"] if lanes else 0,
            tuple(_spans(steps[:MOST_STEPS], place.until_ms, known_until_ms)),
            len(steps) > MOST_STEPS,
            tuple(_ask(engine, _MOMENTS, params).column("time_ms").to_pylist()),
            nearest["before_ms"],
            nearest["after_ms"],
            tuple(queues_of(_ask(engine, _AS_OF, params))),
            comings,
            incidents,
            read_changes(engine, params),
            known_until_ms,
        )


def _spans(steps: Sequence[dict[str, Any]], until_ms: int, known_until_ms: int) -> list[Span]:
    """Return steps, each queue's newest first, as spans in the same order."""
    spans: list[Span] = []
    for row in steps:
        name, start_ms = (row["topic"], row["queue"]), row["start_ms"]
        last = spans[-1] if spans and (spans[-1].topic, spans[-1].queue) == name else None
        end_ms = last.start_ms if last else min(until_ms, max(known_until_ms, start_ms + 1))
        if end_ms > start_ms:
            owners = (row["planned_owner"], tuple(row["observed_owners"]))
            spans.append(Span(*name, start_ms, end_ms, row["verdict"], *owners))
    return spans


def _ask(engine: duckdb.DuckDBPyConnection, sql: str, params: dict[str, Any]) -> pa.Table:
    return engine.sql(sql, params=named(sql, params)).to_arrow_table()
