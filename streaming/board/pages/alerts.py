"""The alerts page: a timeline of the incidents of a period, inhibited ones grey and hatched, and a table.

Few incidents have a lane each; many are counted by kind. A bar shows the states of its incident. Open incidents end
where the data end, or where their cluster stopped sending data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.views import ALL_INCIDENTS, MOST_SEVERE_FIRST
from streaming.board.chart import AMBER, BLUE, GREY, PURPLE, RED, Axis, Bar, Chart, Key, fitting, runs
from streaming.board.known import NO_DATA, Known, extent_of, read_known
from streaming.board.page import Page, View
from streaming.board.url import Slice, href, read_choice, read_page, read_sort, read_span_ms
from streaming.board.words import STATE_SHAPES, span
from streaming.store.store import History
from streaming.text.language import gettext, localize
from streaming.text.times import MINUTE, clock
from streaming.text.visible_text import visible_name
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import ABOVE_GROUPS
from udfs.alerts.phrase import Words, join_sentences, phrase
from udfs.alerts.rulebook import CANARY_CLUSTER

PAGE_ROWS = 50
MOST_LANES = 40
BINS = 96
MOST_KINDS = 40
MOST_STEPS = 50


@dataclass(frozen=True)
class Asked:
    """The filter: values by column, and whether incidents are inhibited; None means any."""

    from_ms: int
    until_ms: int
    values: Mapping[str, str] = field(default_factory=dict)
    is_inhibited: bool | None = None

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return SQL over ALL_INCIDENTS and its parameters. The canary is hidden unless its cluster is named."""
        clauses = [
            "coalesce(ended_at, make_timestamptz($until_ms * 1000)) >= make_timestamptz($from_ms * 1000)",
            "started_at <= make_timestamptz($until_ms * 1000)",
            *(f"{column} = ${column}" for column in self.values),
        ]
        params: dict[str, Any] = {"from_ms": self.from_ms, "until_ms": self.until_ms, **self.values}
        if "cluster" not in self.values:
            clauses.append("cluster <> $canary")
            params["canary"] = CANARY_CLUSTER
        if self.is_inhibited is not None:
            clauses.append(f"inhibited_by IS {'NOT ' if self.is_inhibited else ''}NULL")
        return " AND ".join(clauses), params


Incident = Mapping[str, Any]
"""One incident now; `ended_ms` is None while it is open, `fired_ms` if it never fired."""


Step = Mapping[str, Any]
"""A change: `at_ms`, `state` and `is_inhibited`."""


@dataclass(frozen=True)
class Bins:
    """Numbers of open incidents of a kind in BINS equal parts of the period; inhibited ones are separate.

    `unknown` counts those without data, which may still be open.
    """

    kind: str
    is_inhibited: bool
    counts: tuple[int, ...]
    unknown: tuple[int, ...]

    @property
    def most(self) -> int:
        return max(*self.counts, *self.unknown)


def count_incidents(history: History, asked: Asked) -> tuple[int, int, int]:
    """Return the number of incidents and the part of the period that they cover, up to its end if one is open."""
    condition, params = asked.condition()
    (row,) = history.rows(
        "SELECT count(*) AS n, epoch_ms(min(started_at)) AS first_ms, "
        "max(coalesce(epoch_ms(ended_at), $until_ms)) AS last_ms "
        f"FROM ({ALL_INCIDENTS}) WHERE {condition}",
        params,
    )
    times_ms = [row["first_ms"], row["last_ms"]] if row["n"] else []
    return int(row["n"]), *extent_of(asked.from_ms, asked.until_ms, times_ms)


SORT = {
    "kind": "kind",
    "severity": f"-coalesce({MOST_SEVERE_FIRST.removesuffix(' NULLS LAST')}, 9)",
    "state": "state",
    "where": "subject",
    "began": "started_ms",
    "duration": "coalesce(ended_ms, $until_ms) - started_ms",
}
"""Column to the SQL of its order."""


def read_incidents(history: History, asked: Asked, offset: int, limit: int, sort: str = "") -> Sequence[Incident]:
    """Return incidents by a column of SORT, else open ones first, then the most recently resolved."""
    condition, params = asked.condition()
    direction = "DESC" if sort.startswith("-") else "ASC"
    order = f"{SORT[sort.removeprefix('-')]} {direction}, " if sort else ""
    return history.rows(
        "SELECT incident_id, kind, severity, state, cause, cluster, consumer_group, topic, broker_name, summary, "
        "inhibited_by, coalesce(consumer_group, broker_name, cluster) AS subject, epoch_ms(started_at) AS started_ms, "
        f"epoch_ms(fired_at) AS fired_ms, epoch_ms(ended_at) AS ended_ms FROM ({ALL_INCIDENTS}) WHERE {condition} "
        f"ORDER BY {order}ended_at DESC NULLS FIRST, state <> 'FIRING', inhibited_by IS NOT NULL, started_at DESC, "
        "incident_id LIMIT $limit OFFSET $offset",
        {**params, "limit": limit, "offset": offset},
    )


def read_steps(history: History, incident_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
    """Return each incident's newest MOST_STEPS changes of state or inhibition, oldest first, in one query."""
    rows = history.rows(
        """
        WITH steps AS (
            SELECT incident_id, changed_at, batch_id, state, inhibited_by IS NOT NULL AS is_inhibited
            FROM alerts WHERE list_contains($ids, incident_id)
        ), changes AS (
            SELECT * FROM steps
            WINDOW steps_of AS (PARTITION BY incident_id ORDER BY changed_at, batch_id)
            QUALIFY (lag(state) OVER steps_of) IS DISTINCT FROM state
                OR (lag(is_inhibited) OVER steps_of) IS DISTINCT FROM is_inhibited
        )
        SELECT incident_id, epoch_ms(changed_at) AS at_ms, state, is_inhibited FROM changes
        QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY changed_at DESC, batch_id DESC) <= $most
        ORDER BY incident_id, changed_at, batch_id
        """,
        {"ids": list(incident_ids), "most": MOST_STEPS},
    )
    found: dict[str, tuple[Step, ...]] = {}
    for row in rows:
        name = row.pop("incident_id")
        found[name] = (*found.get(name, ()), row)
    return found


def read_bins(history: History, asked: Asked, known: Known | None = None) -> list[Bins]:
    """Return counts by kind, inhibited ones after others, for the MOST_KINDS with the highest counts.

    Each incident counts once per bin, by its inhibition at that time; before its first row, by that row's.
    """
    known = known or Known(asked.until_ms)
    condition, params = asked.condition()
    rows = history.rows(
        f"""
        WITH chosen AS (
            SELECT incident_id, kind, inhibited_by IS NOT NULL AS is_inhibited, epoch_ms(started_at) AS started_ms,
                epoch_ms(ended_at) AS ended_ms,
                coalesce(list_extract($silent_ms::BIGINT[], list_position($silent::VARCHAR[], cluster)), $known_ms)
                    AS silent_ms
            FROM ({ALL_INCIDENTS}) WHERE {condition}
        ), incidents AS (
            SELECT *, coalesce(
                ended_ms,
                CASE WHEN kind IN {ABOVE_GROUPS} OR started_ms >= silent_ms THEN $known_ms
                    ELSE least(silent_ms, $known_ms) END
            ) AS known_ms
            FROM chosen
        ), known AS (
            SELECT incident_id, inhibited_by IS NOT NULL AS is_inhibited, epoch_ms(changed_at) AS at_ms,
                row_number() OVER steps AS number, lead(epoch_ms(changed_at)) OVER steps AS next_ms
            FROM alerts WHERE incident_id IN (SELECT incident_id FROM incidents)
            WINDOW steps AS (PARTITION BY incident_id ORDER BY changed_at, batch_id)
        ), pieces AS (
            SELECT incident_id, kind, known.is_inhibited, true AS is_known,
                CASE number WHEN 1 THEN least(started_ms, at_ms) ELSE at_ms END AS start_ms,
                least(coalesce(next_ms, known_ms), known_ms) AS end_ms
            FROM known JOIN incidents USING (incident_id)
            WHERE number = 1 OR ended_ms IS NULL OR next_ms IS NOT NULL
            UNION ALL
            SELECT incident_id, kind, is_inhibited, false, greatest(started_ms, known_ms + $bin_ms), $until_ms
            FROM incidents WHERE ended_ms IS NULL
        ), spans AS (
            SELECT incident_id, kind, is_inhibited, is_known,
                greatest(0, floor((start_ms - $from_ms) / $bin_ms))::INT AS first,
                least($bins - 1, floor((end_ms - $from_ms) / $bin_ms))::INT AS last
            FROM pieces WHERE start_ms <= end_ms
        )
        SELECT kind, is_inhibited, is_known, bin, count(DISTINCT incident_id) AS number
        FROM (SELECT *, unnest(range(first, last + 1)) AS bin FROM spans) GROUP BY ALL
        """,
        {
            **params,
            "bins": BINS,
            "bin_ms": max(1.0, (asked.until_ms - asked.from_ms) / BINS),
            "known_ms": known.until_ms,
            "silent": list(known.silent_ms),
            "silent_ms": list(known.silent_ms.values()),
        },
    )
    counts: dict[tuple[str, bool], dict[bool, list[int]]] = {}
    for row in rows:
        if asked.is_inhibited in (None, row["is_inhibited"]):
            of_kind = counts.setdefault((row["kind"], row["is_inhibited"]), {True: [0] * BINS, False: [0] * BINS})
            of_kind[row["is_known"]][row["bin"]] = row["number"]
    bins = [Bins(*of, tuple(of_kind[True]), tuple(of_kind[False])) for of, of_kind in counts.items()]
    busiest = sorted(bins, key=lambda one: -one.most)[:MOST_KINDS]
    return sorted(busiest, key=lambda one: (one.kind, one.is_inhibited))


def read_choices(history: History) -> Mapping[str, list[str]]:
    """Return the clusters, kinds and groups with incidents, at most 200 each, without the canary's cluster."""
    (found,) = history.rows(
        "SELECT list_sort(list(DISTINCT cluster))[:200] AS cluster, list_sort(list(DISTINCT kind))[:200] AS kind, "
        "list_sort(list(DISTINCT consumer_group) FILTER (consumer_group IS NOT NULL))[:200] AS group "
        "FROM alerts WHERE cluster <> $canary",
        {"canary": CANARY_CLUSTER},
    )
    return {name: values or [] for name, values in found.items()}


PATH = "/alerts"
STATES = ("FIRING", "PENDING", "RECOVERING", "UNKNOWN", "RESOLVED")
COLUMNS = {
    "cluster": "cluster",
    "kind": "kind",
    "severity": "severity",
    "state": "state",
    "group": "consumer_group",
}
"""Filter to the column that has its value."""

FILTERS = ("since", *COLUMNS, "inhibited")


def read(view: View) -> dict[str, Any]:
    """Return the values of the page. `asked` are the URL's filters, `choices` the known clusters and kinds.

    since_ms           length of the period, which ends now; from_ms to until_ms is the part that is drawn
    is_counted         whether there are too many incidents for a lane each; `bins` count them by kind
    steps              of the incidents on this page; empty for many incidents
    """
    asked = _read_filter(view)
    total, from_ms, until_ms = count_incidents(view.history, asked)
    page, pages = read_page(view.asked, total, PAGE_ROWS)
    sort = read_sort(view.asked, SORT)
    incidents = read_incidents(view.history, asked, (page - 1) * PAGE_ROWS, PAGE_ROWS, sort)
    known = read_known(view.history, view.known_within(asked.until_ms))
    is_counted = total > MOST_LANES
    drawn = replace(asked, from_ms=from_ms, until_ms=until_ms)
    return {
        "asked": {name: value for name, value in view.asked.items() if name != "page"},
        "choices": read_choices(view.history),
        "since_ms": asked.until_ms - asked.from_ms,
        "from_ms": from_ms,
        "until_ms": until_ms,
        "incidents": Slice(incidents, page, pages, total),
        "is_counted": is_counted,
        "steps": {} if is_counted else read_steps(view.history, [one["incident_id"] for one in incidents]),
        "bins": read_bins(view.history, drawn, known) if is_counted else (),
        "known": known,
        "known_until_ms": view.known_until_ms,
    }


def _read_filter(view: View) -> Asked:
    span_ms = read_span_ms(view.asked, "since", "24h")
    inhibited = read_choice(view.asked, "inhibited", ("yes", "no"))
    read_choice(view.asked, "state", STATES)
    read_choice(view.asked, "severity", SEVERITIES)
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a full minute, so that the axis moves once a minute
    values = {column: view.asked[name] for name, column in COLUMNS.items() if name in view.asked}
    return Asked(until_ms - span_ms, until_ms, values, {"yes": True, "no": False}.get(inhibited))


LANE_PX, ROW_PX = 36, 40

FIRING = Key("firing", RED)
RESOLVED = Key("resolved", BLUE)
INHIBITED = Key("inhibited", GREY, "slash")
PENDING = Key("pending", AMBER, "dots")
RECOVERING = Key("recovering", BLUE, "backslash")
SILENT = Key(NO_DATA, PURPLE, "cross")
LOOKS = (FIRING, RESOLVED, INHIBITED, PENDING, RECOVERING, SILENT)
BY_STATE = {"FIRING": FIRING, "PENDING": PENDING, "RECOVERING": RECOVERING, "UNKNOWN": SILENT}

COUNT_KEYS = (
    Key("not inhibited", RED),
    Key("inhibited", GREY),
    Key("no data, may still be open", PURPLE, "cross"),
)

LEAST_SHARE = 0.006
"""Least width of a bar as a share of the axis, so that a short incident can be seen and clicked."""


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    chart = counts_chart(page) if page["is_counted"] else lanes_chart(page)
    return {"chart": chart, "states": STATES, "severities": SEVERITIES, "most_lanes": MOST_LANES}


def lanes_chart(page: Mapping[str, Any]) -> Chart:
    """Return the chart with one lane per incident, its name above its bar. A click opens the incident."""
    axis = Axis(page["from_ms"], page["until_ms"])
    incidents = page["incidents"].items
    bars, labels = [], []
    for lane, incident in enumerate(incidents):
        words = f"{STATE_SHAPES.get(incident['state'], '·')} {incident['kind']} · {incident['subject']}"
        labels.append(
            (lane * LANE_PX + 10, _shortened(words + (gettext(" (inhibited)") if incident["inhibited_by"] else "")))
        )
        name = f"{incident['kind']}, {incident['subject']} ({incident['cluster']})\n{incident['state']}"
        for look, start_ms, end_ms in pieces_of(
            incident, page["steps"].get(incident["incident_id"], ()), page["known"]
        ):
            if end_ms >= page["from_ms"]:
                title = f"{name}, {span(end_ms - start_ms)}\n{gettext(look.name)}"
                place = axis.span(start_ms, end_ms, LEAST_SHARE)
                link = href("/incident", id=incident["incident_id"])
                solid = 0.0 if look.hatch else 1.0
                bars.append(
                    Bar(*place, lane * LANE_PX + 20, 12, look.tone, look.hatch, look.name, title, "", link, solid)
                )
    label = phrase("Timeline of {number} incidents, in the order of the table below.", number=len(incidents))
    return Chart("timeline-lanes", localize(label), LANE_PX * len(incidents), axis, bars, keys=LOOKS, labels=labels)


def _shortened(words: str) -> str:
    words = visible_name(words)
    return words if len(words) <= 60 else words[:59] + "…"


def counts_chart(page: Mapping[str, Any]) -> Chart:
    """Return the chart with one row per kind; the opacity is the number of open incidents. A click lists them."""
    axis = Axis(page["from_ms"], page["until_ms"])
    step_ms = (page["until_ms"] - page["from_ms"]) / BINS
    most, during = phrase("{name}: up to {number:,} at a time"), phrase("{start} to {end}: {number:,} open")
    bars, labels = [], []
    for row, bins in enumerate(page["bins"]):
        name = f"{bins.kind}{gettext(' (inhibited)') if bins.is_inhibited else ''}"
        labels.append((row * ROW_PX + 11, _shortened(localize(most.given(name=name, number=bins.most)))))
        link = href(
            "/alerts",
            kind=bins.kind,
            inhibited="yes" if bins.is_inhibited else "no",
            since=f"{max(1, page['since_ms'] // MINUTE)}m",
        )
        y, tone = row * ROW_PX + 21, GREY if bins.is_inhibited else RED
        for first, end, number in runs(bins.counts):
            times = [clock(round(page["from_ms"] + bin_ * step_ms), page["until_ms"]) for bin_ in (first, end)]
            title = f"{name}\n{localize(during.given(start=times[0], end=times[1], number=number))}"
            place = (first * 100 / BINS, (end - first) * 100 / BINS)
            strength = 0.3 + 0.7 * number / max(bins.most, 1)
            bars.append(Bar(*place, y, 15, tone, name=name, title=title, href=link, strength=round(strength, 2)))
        if any(bins.unknown):  # it lasts to the end
            first = next(number for number, count in enumerate(bins.unknown) if count)
            text = phrase("no data for {number:,} incidents, which may still be open", number=max(bins.unknown))
            title = f"{bins.kind}\n{localize(text)}"
            place = (first * 100 / BINS, (BINS - first) * 100 / BINS)
            inside = fitting(gettext("no data"), place[1])
            bars.append(Bar(*place, y, 15, PURPLE, "cross", NO_DATA, title, inside, link))
    has_unknown = any(any(bins.unknown) for bins in page["bins"])
    label: Words = phrase(
        "Number of open incidents over time for {number} kinds; the table below lists them.", number=len(page["bins"])
    )
    if has_unknown:
        label = join_sentences(label, phrase("Hatched: no data any more from some of them."))
    keys = COUNT_KEYS if has_unknown else COUNT_KEYS[:2]
    return Chart("timeline-counts", localize(label), ROW_PX * len(page["bins"]), axis, bars, keys=keys, labels=labels)


def pieces_of(incident: Incident, steps: Sequence[Step], known: Known) -> list[tuple[Key, int, int]]:
    """Return a lane's pieces: each state from its row to the next, the last up to the end or the end of the data.

    Before the first row, the incident was pending until it fired. An open one has no data once its cluster is silent.
    """
    ended_ms = incident["ended_ms"]
    first_ms = steps[0]["at_ms"] if steps else known.until_ms
    fired_ms = first_ms if incident["fired_ms"] is None else min(incident["fired_ms"], first_ms)
    rows = [(incident["started_ms"], "PENDING", False), (fired_ms, "FIRING", False)]
    rows += [(step["at_ms"], step["state"], step["is_inhibited"]) for step in steps]
    end_ms = max(known.until_ms, rows[-1][0] + 1) if ended_ms is None else ended_ms
    known_ms = known.of_incident(incident["cluster"], incident["kind"], incident["started_ms"])
    is_silent = ended_ms is None and known_ms < known.until_ms
    pieces: list[tuple[Key, int, int]] = []
    for (at_ms, state, is_inhibited), next_ms in zip(rows, [*(row[0] for row in rows[1:]), end_ms], strict=True):
        look = INHIBITED if is_inhibited else BY_STATE.get(state, SILENT)
        if look is FIRING and ended_ms is not None:
            look = RESOLVED
        until_ms = min(next_ms, known_ms) if is_silent else next_ms
        if state == "RESOLVED" or until_ms <= at_ms:
            continue
        if pieces and pieces[-1][0] is look and pieces[-1][2] == at_ms:
            pieces[-1] = (look, pieces[-1][1], until_ms)
        else:
            pieces.append((look, at_ms, until_ms))
    return [*pieces, (SILENT, known_ms, known.until_ms)] if is_silent else pieces


PAGE = Page(
    "alerts",
    PATH,
    phrase("Alerts"),
    read,
    draw,
    nav=phrase("Alerts"),
    parameters=frozenset({*FILTERS, "sort", "page"}),
    tables=frozenset({"alerts"}),
)
