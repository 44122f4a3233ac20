"""The alerts of a span of time: a timeline, with what another incident explains greyed and hatched, and a table."""

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import read_choice, read_number, read_span_ms
from streaming.board.incident_timeline import Reach, lanes, rows_of_counts
from streaming.board.incidents_reading import (
    MOST_LANES,
    PAGE_ROWS,
    Asked,
    Incident,
    count_incidents,
    read_bins,
    read_choices,
    read_incidents,
    read_steps,
)
from streaming.board.page import Page, View
from streaming.board.page_links import Slice, page_links
from streaming.board.silence_reading import NOT_KNOWN, Known, read_known
from streaming.board.times import MINUTE, span

PATH = "/alerts"
SPANS = (("1h", "last hour"), ("6h", "last 6 hours"), ("24h", "last day"), ("7d", "last week"), ("30d", "last 30 days"))
STATES = ("FIRING", "PENDING", "RECOVERING", "UNKNOWN", "RESOLVED")
EXPLAINED = (("", "all"), ("no", "that page"), ("yes", "that are explained"))
FILTERS = ("since", "cluster", "kind", "state", "group", "explained")


def body(view: View) -> Component:
    asked = _read(view)
    kept = {name: view.asked[name] for name in FILTERS if name in view.asked}
    total = count_incidents(view.history, asked)
    pages = max(1, -(-total // PAGE_ROWS))
    page = min(read_number(view.asked, "page", 1, 1, 1_000_000), pages)
    incidents = read_incidents(view.history, asked, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    note = f"{total:,} incidents" if total != 1 else "1 incident"
    parts = [el.heading("Alerts", html.Span(note, className="muted", role="status")), _filters(view, kept)]
    if not total:
        parts.append(el.notice("calm", "No incident matches.", html.P(_widen(kept))))
        return html.Div(parts, className="page")
    known = read_known(view, asked.until_ms)
    drawn = _drawn(view, asked, incidents, known, total)
    parts.append(el.panel("timeline", "Timeline", drawn, note=_how(asked, total)))
    parts.append(
        el.panel(
            "incidents",
            "Incidents",
            _table(view, incidents, known),
            page_links(Slice(incidents, page, pages, total), PATH, kept, "Pages of incidents"),
            note="open first",
        )
    )
    return html.Div(parts, className="page")


def _read(view: View) -> Asked:
    span_ms = read_span_ms(view.asked, "since", "24h")
    explained = read_choice(view.asked, "explained", ("yes", "no"))
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a whole minute, so that the axis stands still in between
    return Asked(
        until_ms - span_ms,
        until_ms,
        cluster=view.asked.get("cluster"),
        kind=view.asked.get("kind"),
        state=read_choice(view.asked, "state", STATES) or None,
        consumer_group=view.asked.get("group"),
        is_explained={"yes": True, "no": False}.get(explained),
    )


def _filters(view: View, kept: Mapping[str, str]) -> Component:
    choices = read_choices(view.history)

    def options(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
        here = [kept[name]] if name in kept and kept[name] not in values else []
        return [("", "all"), *((value, value) for value in (*values, *here))]

    since = kept.get("since", "24h")
    spans = [*SPANS, *([(since, f"last {since}")] if since not in dict(SPANS) else [])]
    fields: list[el.Choice | el.Entry] = [
        el.Choice("since", "Time", spans, since),
        el.Choice("state", "State", [("", "all"), *((name, name) for name in STATES)], kept.get("state", "")),
        el.Choice("kind", "Kind", options("kind", choices["kind"]), kept.get("kind", "")),
        el.Choice("cluster", "Cluster", options("cluster", choices["cluster"]), kept.get("cluster", "")),
        el.Choice("explained", "Those", EXPLAINED, kept.get("explained", "")),
        el.Entry("group", "Group", kept.get("group", ""), "consumer group", size=16),
    ]
    return el.form(el.Form("filters", PATH, "Filter the alerts", fields))


def _drawn(view: View, asked: Asked, incidents: Sequence[Incident], known: Known, total: int) -> Component:
    if total > MOST_LANES:
        return rows_of_counts("timeline-counts", read_bins(view.history, asked, known), asked.from_ms, asked.until_ms)
    steps = read_steps(view.history, [one.incident_id for one in incidents])
    return lanes("timeline-lanes", incidents, steps, Reach(asked.from_ms, asked.until_ms, known))


def _how(asked: Asked, total: int) -> str:
    span_ms = asked.until_ms - asked.from_ms
    return f"the last {span(span_ms)}, UTC" + (
        f"; counted by kind, for there are over {MOST_LANES}: the darker, the more" if total > MOST_LANES else ""
    )


def _table(view: View, incidents: Sequence[Incident], known: Known) -> Component:
    rows = [
        el.Row(one.incident_id, _cells(view, one, known), "suppressed" if one.suppressed_by else "")
        for one in incidents
    ]
    columns: list[el.Column | str] = [
        "Incident",
        el.Column("State", "narrow"),
        el.Column("Where", "name"),
        el.Column("Began", "narrow"),
        el.Column("Lasted", "narrow"),
        el.Column("What", "wide"),
    ]
    return el.table("incidents-table", "Incidents, open ones first, then those that ended last", columns, rows)


def _cells(view: View, one: Incident, known: Known) -> list[el.Children]:
    kind = el.link(one.kind, "/incident", id=one.incident_id)
    state: Component = el.state(one.state)
    if one.suppressed_by:
        why = el.link(el.mark("⤷", "explained"), "/incident", id=one.suppressed_by)
        state = html.Div([state, html.Br(), why])
    known_ms = min(known.of_incident(one.cluster, one.kind, one.started_ms), view.known_until_ms)
    lasted = span((one.ended_ms or known_ms) - one.started_ms)
    if not one.ended_ms:
        lasted += " so far" if known_ms == view.known_until_ms else f", then {NOT_KNOWN}"
    where: el.Children = [one.subject, html.Br(), html.Span(one.cluster, className="muted")]
    if one.subject == one.cluster:
        where = one.cluster
    return [
        [kind, html.Br(), el.severity(one.severity)],
        state,
        where,
        el.moment(one.started_ms, view.now_ms),
        lasted,
        html.Div(one.summary, className="clamp", title=one.summary),
    ]


def _widen(kept: Mapping[str, str]) -> list[el.Child]:
    if set(kept) <= {"since"}:
        return ["Nothing was noticed in this time; ", el.link("look at 30 days", PATH, since="30d"), "."]
    return [el.link("Drop the filter", PATH, since=kept.get("since")), ", or look at a longer time."]


PAGE = Page(
    "alerts",
    PATH,
    "Alerts",
    body,
    nav="Alerts",
    parameters=frozenset({*FILTERS, "page"}),
    tables=frozenset({"alerts"}),
)
