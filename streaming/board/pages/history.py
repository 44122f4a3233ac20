"""The history page: bands of a group's verdicts, a slider over the times of change, and the matrix at one time.

The group's steps are read from the warehouse once and then queried in memory. Limits: MOST_LANES queues, problems
first, MOST_STEPS of their changes, and MOST_MOMENTS times. Changes are of all queues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb
import pyarrow as pa

from streaming.board.chart import BLUE, GREEN, GREY, Axis, Bar, Chart, Mark, fitting, lane_name
from streaming.board.known import extent_of
from streaming.board.page import Page, View
from streaming.board.pages.group_tables import find_cluster, is_alerted_topic, queues_of, read_group
from streaming.board.pages.matrix import build_matrix, count_verdicts, order_queues
from streaming.board.url import AskedError, href, read_choice, read_moment_ms, read_span_ms, slice_of
from streaming.board.words import VERDICTS, counted
from streaming.store.store import History, named
from streaming.text.language import gettext, listed, localize
from streaming.text.times import clock
from udfs.alerts.phrase import phrase, some_of
from udfs.groups.queue_state import OK, WRONG

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
    """A queue's verdict and owners from `start_ms` to `end_ms`; of one queue the newest comes first."""

    topic: str
    queue: str
    start_ms: int
    end_ms: int
    verdict: str
    planned_owner: str | None
    observed_owners: Sequence[str]


Times = Mapping[str, Any]
"""What happened to a group's queues within a period, which begins at `from_ms` with the first that is known.

lanes      the number of queues, of which `spans` has at most MOST_LANES; `is_cut` if their changes are too many
moments    times of changes; `before_ms` and `after_ms` are the nearest ones around the chosen time
queues     all of the group at the chosen time
comings    members that joined, changed, left or expired within one second, newest first
changes    of all queues
known_until_ms  the end of the data, and of the spans
"""


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

_EDGES = f"""
SELECT
    min(start_ms) AS first_ms,
    max(start_ms) FILTER (batch_id >= 0 AND start_ms < $at_ms) AS before_ms,
    min(start_ms) FILTER (batch_id >= 0 AND start_ms > $at_ms) AS after_ms
FROM steps
WHERE {CHOSEN}
"""

_LANES = f"""
SELECT topic, broker_name, queue_id, count(*) OVER () AS lanes
FROM steps
WHERE {CHOSEN}
GROUP BY topic, broker_name, queue_id
ORDER BY count(*) FILTER ({_IS_WRONG}) > 0 DESC, max(start_ms) FILTER ({_IS_WRONG}) DESC, topic, broker_name, queue_id
LIMIT {MOST_LANES}
"""

_SPANS = f"""
SELECT
    topic, broker_name || ':' || queue_id AS queue, start_ms,
    coalesce(lead(start_ms) OVER of_queue, least($until_ms, greatest($known_until_ms, start_ms + 1))) AS end_ms,
    verdict, planned_owner, observed_owners
FROM steps
WHERE topic || ' ' || broker_name || ':' || queue_id IN (SELECT unnest($lanes))
WINDOW of_queue AS (PARTITION BY topic, broker_name, queue_id ORDER BY start_ms, batch_id)
QUALIFY end_ms > start_ms
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


def read_times(history: History, place: Mapping[str, Any]) -> Times:
    """Return the history between `from_ms` and `until_ms`, and the state at `at_ms`.

    The period begins with the first queue, member or incident, or with `at_ms` if that is earlier. `place` has the
    parameters of the queries: `topic` and `queue` (`broker:queue_id`) are "" for all; `known_until_ms` is the end of
    the data, at most `until_ms`.
    """
    params, until_ms = dict(place), place["until_ms"]
    comings = history.rows(_COMINGS, params)
    incidents = history.rows(_INCIDENTS, params)
    with duckdb.connect() as engine:
        engine.register("steps", history.query(_STEPS, params))
        (edges,) = _ask(engine, _EDGES, params).to_pylist()
        starts_ms = [edges["first_ms"], *(row["time_ms"] for row in comings), *(row["start_ms"] for row in incidents)]
        known_ms = [ms for ms in starts_ms if ms is not None]
        shown_ms = [place["at_ms"], until_ms, *known_ms] if known_ms else []
        params["from_ms"], _ = extent_of(place["from_ms"], until_ms, shown_ms)
        lanes = _ask(engine, _LANES, params).to_pylist()
        names = [f"{row['topic']} {row['broker_name']}:{row['queue_id']}" for row in lanes]
        steps = _ask(engine, _SPANS, {**params, "lanes": names}).to_pylist() if names else []
        return {
            "from_ms": params["from_ms"],
            "until_ms": until_ms,
            "lanes": lanes[0]["lanes"] if lanes else 0,
            "spans": [Span(**row) for row in steps[:MOST_STEPS]],
            "is_cut": len(steps) > MOST_STEPS,
            "moments": _ask(engine, _MOMENTS, params).column("time_ms").to_pylist(),
            "before_ms": edges["before_ms"],
            "after_ms": edges["after_ms"],
            "queues": queues_of(_ask(engine, _AS_OF, params)),
            "comings": comings,
            "incidents": incidents,
            "changes": read_changes(engine, params),
            "known_until_ms": place["known_until_ms"],
        }


def _ask(engine: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, Any]) -> pa.Table:
    return engine.sql(sql, params=named(sql, params)).to_arrow_table()


PATH = "/history"
QUEUES_A_PAGE = 50
MOST_IN_ORDER = 64
MOST_CHOICES = 100
"""Above this number of queues, the filter offers those that the bands show; the URL may name any."""


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: the group at the time `at_ms`, and the period around it.

    topic, queue   chosen by the URL, "" for all, out of `topics` and `names`
    queues         the chosen ones at that time; `shown` is the requested page of them, `matrix` these by client
    kept           parameters that links on this page keep; each link sets its own time
    """
    asked = view.asked
    place, at_ms = _read_place(view)
    topic, queue, times = place["topic"], place["queue"], read_times(view.history, place)
    group = read_group(view.history, place["cluster"], asked["group"], at_ms, times["queues"])
    topics = group.topics()
    is_unknown = topic not in topics and not times["lanes"] and topics
    if is_unknown and not is_alerted_topic(view.history, group, topic):
        read_choice(asked, "topic", topics)
    names = sorted({one.name for one in group.queues if topic in ("", one.topic)})
    if len(names) > MOST_CHOICES:
        names = list(dict.fromkeys(span.queue for span in times["spans"]))
    queues = [one for one in times["queues"] if topic in ("", one.topic) and queue in ("", one.name)]
    shown = slice_of(order_queues(queues, "worst" if len(queues) > MOST_IN_ORDER else "queue"), asked, QUEUES_A_PAGE)
    return {
        "asked": asked,
        "kept": {name: value for name, value in asked.items() if name not in ("at", "page")},
        "group": group,
        "at_ms": view.now_ms if at_ms is None else at_ms,
        "times": times,
        "topic": topic,
        "topics": topics,
        "queue": queue,
        "names": names,
        "queues": queues,
        "shown": shown,
        "matrix": build_matrix(group, shown.items),
    }


def _read_place(view: View) -> tuple[dict[str, Any], int | None]:
    """Return the group, filter and period, and the time that the URL names, if any."""
    asked = view.asked
    if not asked.get("group"):
        raise AskedError(
            phrase("group is missing: give a consumer group, as in {path}.", path="/history?group=billing")
        )
    since_ms = read_span_ms(asked, "since", "6h")
    at_ms = read_moment_ms(asked, "at", view.now_ms)
    from_ms, until_ms = view.now_ms - since_ms, view.now_ms
    if at_ms is not None and at_ms <= from_ms:
        from_ms, until_ms = at_ms - since_ms // 2, min(at_ms + since_ms // 2, view.now_ms)
    place = {
        "cluster": asked.get("cluster") or find_cluster(view.history, asked["group"]),
        "consumer_group": asked["group"],
        "topic": asked.get("topic", ""),
        "queue": asked.get("queue", ""),
        "from_ms": from_ms,
        "until_ms": until_ms,
        "at_ms": until_ms if at_ms is None else at_ms,
        "known_until_ms": min(until_ms, view.known_until_ms),
    }
    return place, at_ms


LANE_PX = 22
MOST_BARS = 300
"""Above this number, bars of one verdict are joined across owners, then the oldest are not drawn."""

LEAST_SHARE = 1 / 400

SYMBOLS = {"JOINED": "▲", "CHANGED": "◆", "LEFT": "▼", "EXPIRED": "✕"}
COMING_WORDS = {
    "JOINED": phrase("joined"),
    "CHANGED": phrase("changed its topics or strategy"),
    "LEFT": phrase("left"),
    "EXPIRED": phrase("expired"),
}


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the chart, links of queues, and the newest changes: of members, which have `change`, and of queues."""
    times = page["times"]
    changes = sorted(
        [*times["changes"]["newest"], *times["comings"]], key=lambda row: (-row["time_ms"], "change" in row)
    )
    return {
        "chart": bands_chart(page) if times["spans"] else None,
        "most_lanes": MOST_LANES,
        "changes": changes[:MOST_CHANGES],
        "number": times["changes"]["number"] + len(times["comings"]),
        "is_more": len(times["comings"]) == MOST_COMINGS,
        "symbols": SYMBOLS,
        "coming_words": COMING_WORDS,
        "verdicts": count_verdicts(page["queues"]),
        "hrefs": {
            queue.key: href(PATH, page["asked"], page=None, topic=queue.topic, queue=queue.name)
            for queue in page["shown"].items
        },
        "with_topic": len({queue.topic for queue in page["queues"]}) > 1,
    }


def bands_chart(page: Mapping[str, Any]) -> Chart:
    """Return the chart with a lane per queue below those of incidents and members. Its label counts the changes."""
    times = page["times"]
    axis = Axis(times["from_ms"], times["until_ms"])
    queues = list(dict.fromkeys((span.topic, span.queue) for span in times["spans"]))
    kinds, members = [incident["kind"] for incident in times["incidents"]], gettext("members")
    names = [*kinds, members, *(queue for _, queue in queues)]
    lanes = {name: number for number, name in enumerate(queues, len(times["incidents"]) + 1)}
    bars = []
    for lane, incident in enumerate(times["incidents"]):
        end_ms = incident["end_ms"] or max(incident["start_ms"], times["known_until_ms"])
        place = axis.span(incident["start_ms"], end_ms, LEAST_SHARE)
        title, link = f"{incident['kind']}, {incident['state']}", href("/incident", {"id": incident["incident_id"]})
        text = fitting(incident["state"], place[1])
        bars.append(Bar(*place, lane * LANE_PX + 2, LANE_PX - 4, BLUE, "", "incident", title, text, link))
    held = phrase("{start} to {end}\nplanned owner: {planned}\nconsumed by: {seen}")
    for span in _bars(times):
        known = VERDICTS[span.verdict]
        place = axis.span(span.start_ms, span.end_ms, LEAST_SHARE)
        word = (span.planned_owner or "") if span.verdict == OK else span.verdict
        y = lanes[span.topic, span.queue] * LANE_PX + 2
        link = _at(page, span.start_ms)
        seen = listed(some_of(span.observed_owners, 3)) if span.observed_owners else gettext("no client")
        start, end = (clock(ms, times["until_ms"]) for ms in (span.start_ms, span.end_ms))
        planned = span.planned_owner or gettext("none")
        owners = localize(held.given(start=start, end=end, planned=planned, seen=seen))
        title = f"{span.queue} {span.verdict}\n{owners}"
        text = fitting(word, place[1])
        bars.append(Bar(*place, y, LANE_PX - 4, known.tone, known.hatch, span.verdict, title, text, link))
    middle = len(times["incidents"]) * LANE_PX + LANE_PX / 2
    marks = [
        Mark(
            axis.x(coming["time_ms"]),
            middle,
            SYMBOLS.get(change := coming["change"], "◆"),
            GREEN if change == "JOINED" else GREY,
            f"{listed(some_of(coming['client_ids'], 3))} {localize(COMING_WORDS.get(change, change))}",
            _at(page, coming["time_ms"]),
        )
        for coming in times["comings"]
    ]
    label = phrase("{queues}{of_all} from {start} to {end} UTC: {changes}. The table below lists them.").given(
        queues=counted(len(queues), "queue"),
        of_all=phrase(" of {number:,}", number=times["lanes"]) if len(queues) < times["lanes"] else "",
        start=clock(times["from_ms"], times["until_ms"]),
        end=clock(times["until_ms"], times["until_ms"]),
        changes=_describe_changes(times),
    )
    return Chart(
        "bands",
        localize(label),
        LANE_PX * len(names),
        axis,
        bars,
        marks,
        names=[(lane * LANE_PX + LANE_PX / 2, lane_name(name)) for lane, name in enumerate(names)],
        at=None if page["group"].at_ms is None else axis.x(page["group"].at_ms),
    )


def _at(page: Mapping[str, Any], time_ms: int) -> str:
    return href(PATH, {**page["kept"], "at": time_ms})


def _bars(times: Times) -> list[Span]:
    """Return the spans to draw: all if there are few, else one per verdict, at most the newest MOST_BARS."""
    if len(times["spans"]) <= MOST_BARS:
        return list(times["spans"])
    merged = []
    for (topic, queue, verdict), group in groupby(times["spans"], lambda span: (span.topic, span.queue, span.verdict)):
        newest, *older = group
        start_ms = older[-1].start_ms if older else newest.start_ms
        owner = newest.planned_owner if not older else None
        merged.append(Span(topic, queue, start_ms, newest.end_ms, verdict, owner, newest.observed_owners))
    return sorted(merged, key=lambda span: (span.verdict == OK, -span.end_ms))[:MOST_BARS]


def _describe_changes(times: Times) -> str:
    changes = times["changes"]
    became, moved = phrase("{number:,} became {verdict}"), phrase("{number:,} moved to another client")
    words = [localize(became.given(number=number, verdict=name)) for name, number in sorted(changes["became"].items())]
    if changes["moved"]:
        words.append(localize(moved.given(number=changes["moved"])))
    return listed(words) if words else gettext("nothing changed")


PAGE = Page(
    "history",
    PATH,
    phrase("Assignment history"),
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "queue", "at", "since", "page"}),
    tables=frozenset({"acknowledgements", "alerts", "assignments", "backlogs", "memberships"}),
    back=(phrase("All groups"), "/groups"),
)
