"""The alerts page: a timeline of the incidents of a period, inhibited ones grey and hatched, and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.incident_timeline import Reach, lanes, rows_of_counts
from streaming.board.drawing.page_links import page_links
from streaming.board.pages.page import Page, View
from streaming.board.queries.incidents import (
    MOST_LANES,
    PAGE_ROWS,
    Asked,
    Bins,
    Incident,
    Step,
    count_incidents,
    read_bins,
    read_choices,
    read_incidents,
    read_steps,
)
from streaming.board.queries.known_until import NO_DATA, Known, read_known
from streaming.board.url.parameters import read_choice, read_span_ms
from streaming.board.url.slices import Slice, read_page
from streaming.text.times import MINUTE, span

PATH = "/alerts"
SPANS = (("1h", "last hour"), ("6h", "last 6 hours"), ("24h", "last day"), ("7d", "last week"), ("30d", "last 30 days"))
STATES = ("FIRING", "PENDING", "RECOVERING", "UNKNOWN", "RESOLVED")
INHIBITED = (("", "all"), ("no", "no"), ("yes", "yes"))
FILTERS = ("since", "cluster", "kind", "state", "group", "inhibited")


@dataclass(frozen=True)
class AlertsPage:
    """Values of the page. `asked` are the URL's filters, `choices` the known clusters and kinds.

    since_ms           length of the period, which ends now; from_ms to until_ms is the part that is drawn
    steps              of the incidents on this page; empty for many incidents, which `bins` count by kind
    """

    asked: Mapping[str, str]
    choices: Mapping[str, Sequence[str]]
    since_ms: int
    from_ms: int
    until_ms: int
    incidents: Slice[Incident]
    steps: Mapping[str, Sequence[Step]]
    bins: Sequence[Bins]
    known: Known
    now_ms: int
    known_until_ms: int

    @property
    def is_counted(self) -> bool:
        """Whether there are too many incidents for a lane each."""
        return self.incidents.total > MOST_LANES


def read(view: View) -> AlertsPage:
    asked = _read_filter(view)
    total, from_ms, until_ms = count_incidents(view.history, asked)
    page, pages = read_page(view.asked, total, PAGE_ROWS)
    incidents = read_incidents(view.history, asked, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    known = read_known(view.history, view.known_within(asked.until_ms))
    is_counted = total > MOST_LANES
    return AlertsPage(
        {name: view.asked[name] for name in FILTERS if name in view.asked},
        read_choices(view.history),
        asked.until_ms - asked.from_ms,
        from_ms,
        until_ms,
        Slice(incidents, page, pages, total),
        {} if is_counted else read_steps(view.history, [incident.incident_id for incident in incidents]),
        read_bins(view.history, replace(asked, from_ms=from_ms, until_ms=until_ms), known) if is_counted else (),
        known,
        view.now_ms,
        view.known_until_ms,
    )


def _read_filter(view: View) -> Asked:
    span_ms = read_span_ms(view.asked, "since", "24h")
    inhibited = read_choice(view.asked, "inhibited", ("yes", "no"))
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a full minute, so that the axis moves once a minute
    return Asked(
        until_ms - span_ms,
        until_ms,
        cluster=view.asked.get("cluster"),
        kind=view.asked.get("kind"),
        state=read_choice(view.asked, "state", STATES) or None,
        consumer_group=view.asked.get("group"),
        is_inhibited={"yes": True, "no": False}.get(inhibited),
    )


def draw(page: AlertsPage) -> Component:
    total = page.incidents.total
    note = counted(total, "incident")
    parts = [el.heading("Alerts", html.Span(note, className="muted", role="status")), _filters(page)]
    if not total:
        parts.append(el.notice("calm", "No incidents match.", html.P(_widen(page.asked))))
        return html.Div(parts, className="page")
    parts.append(el.panel("timeline", "Timeline", _timeline(page), note=_describe_timeline(page)))
    parts.append(
        el.panel(
            "incidents",
            "Incidents",
            _table(page),
            page_links(page.incidents, PATH, page.asked, "Pages of incidents"),
            note="open first, then the most recently resolved",
        )
    )
    return html.Div(parts, className="page")


def _filters(page: AlertsPage) -> Component:
    kept, choices = page.asked, page.choices

    def options(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
        here = [kept[name]] if name in kept and kept[name] not in values else []
        return [("", "all"), *((value, value) for value in (*values, *here))]

    since = kept.get("since", "24h")
    spans = [*SPANS, *([(since, f"last {since}")] if since not in dict(SPANS) else [])]
    fields: list[el.Choice | el.Entry] = [
        el.Choice("since", "Period", spans, since),
        el.Choice("state", "State", [("", "all"), *((name, name) for name in STATES)], kept.get("state", "")),
        el.Choice("kind", "Kind", options("kind", choices["kind"]), kept.get("kind", "")),
        el.Choice("cluster", "Cluster", options("cluster", choices["cluster"]), kept.get("cluster", "")),
        el.Choice("inhibited", "Inhibited", INHIBITED, kept.get("inhibited", "")),
        el.Entry("group", "Group", kept.get("group", ""), "consumer group", size=16),
    ]
    return el.form(el.Form("filters", PATH, "Filter alerts", fields))


def _timeline(page: AlertsPage) -> Component:
    if page.is_counted:
        return rows_of_counts("timeline-counts", page.bins, page.from_ms, page.until_ms, page.since_ms)
    return lanes("timeline-lanes", page.incidents.items, page.steps, Reach(page.from_ms, page.until_ms, page.known))


def _describe_timeline(page: AlertsPage) -> str:
    return f"last {span(page.since_ms)}, UTC" + (
        f"; more than {MOST_LANES} incidents, counted by kind: darker means more" if page.is_counted else ""
    )


def _table(page: AlertsPage) -> Component:
    rows = [
        el.Row(incident.incident_id, _cells(page, incident), "inhibited" if incident.inhibited_by else "")
        for incident in page.incidents.items
    ]
    columns: list[el.Column | str] = [
        "Alert",
        el.Column("State", "narrow"),
        el.Column("Where", "name"),
        el.Column("Began", "narrow"),
        el.Column("Duration", "narrow"),
        el.Column("Summary", "wide"),
    ]
    return el.table("incidents-table", "Incidents", columns, rows)


def _cells(page: AlertsPage, incident: Incident) -> list[el.Children]:
    kind = el.link(incident.kind, "/incident", id=incident.incident_id)
    state: Component = el.state(incident.state)
    if incident.inhibited_by:
        cause = el.link(el.mark("⤷", "inhibited"), "/incident", id=incident.inhibited_by)
        state = html.Div([state, html.Br(), cause])
    known_ms = min(page.known.of_incident(incident.cluster, incident.kind, incident.started_ms), page.known_until_ms)
    lasted = span((incident.ended_ms or known_ms) - incident.started_ms)
    if not incident.ended_ms:
        lasted += " so far" if known_ms == page.known_until_ms else f", then {NO_DATA}"
    where: el.Children = [incident.subject, html.Br(), html.Span(incident.cluster, className="muted")]
    if incident.subject == incident.cluster:
        where = incident.cluster
    return [
        [kind, html.Br(), el.severity(incident.severity)],
        state,
        where,
        el.moment(incident.started_ms, page.now_ms),
        lasted,
        html.Div(incident.summary, className="clamp", title=incident.summary),
    ]


def _widen(kept: Mapping[str, str]) -> list[el.Child]:
    if set(kept) <= {"since"}:
        return ["No incidents in this period. ", el.link("Show the last 30 days", PATH, since="30d"), "."]
    return [el.link("Clear the filters", PATH, since=kept.get("since")), ", or choose a longer period."]


PAGE = Page(
    "alerts",
    PATH,
    "Alerts",
    read,
    draw,
    nav="Alerts",
    parameters=frozenset({*FILTERS, "page"}),
    tables=frozenset({"alerts"}),
)
