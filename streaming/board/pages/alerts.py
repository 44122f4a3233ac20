"""The alerts of a span of time: a timeline, with what another incident explains greyed and hatched, and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
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
from streaming.board.queries.known_until import NOT_KNOWN, Known, read_known
from streaming.board.url.parameters import read_choice, read_span_ms
from streaming.board.url.slices import Slice, read_page
from streaming.text.times import MINUTE, span

PATH = "/alerts"
SPANS = (("1h", "last hour"), ("6h", "last 6 hours"), ("24h", "last day"), ("7d", "last week"), ("30d", "last 30 days"))
STATES = ("FIRING", "PENDING", "RECOVERING", "UNKNOWN", "RESOLVED")
EXPLAINED = (("", "all"), ("no", "that page"), ("yes", "that are explained"))
FILTERS = ("since", "cluster", "kind", "state", "group", "explained")


@dataclass(frozen=True)
class AlertsPage:
    """All that the page shows. `asked` are the URL's filters, `choices` the clusters and kinds there are.

    since_ms           the time that is asked for, up to now; from_ms to until_ms is the part of it that is drawn
    steps              of the incidents on this page; empty where there are so many that `bins` count them by kind
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
        """There are too many incidents for a lane each."""
        return self.incidents.whole > MOST_LANES


def read(view: View) -> AlertsPage:
    asked = _read_filter(view)
    whole, from_ms, until_ms = count_incidents(view.history, asked)
    page, pages = read_page(view.asked, whole, PAGE_ROWS)
    incidents = read_incidents(view.history, asked, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    known = read_known(view.history, view.known_within(asked.until_ms))
    is_counted = whole > MOST_LANES
    return AlertsPage(
        {name: view.asked[name] for name in FILTERS if name in view.asked},
        read_choices(view.history),
        asked.until_ms - asked.from_ms,
        from_ms,
        until_ms,
        Slice(incidents, page, pages, whole),
        {} if is_counted else read_steps(view.history, [one.incident_id for one in incidents]),
        read_bins(view.history, replace(asked, from_ms=from_ms, until_ms=until_ms), known) if is_counted else (),
        known,
        view.now_ms,
        view.known_until_ms,
    )


def _read_filter(view: View) -> Asked:
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


def draw(page: AlertsPage) -> Component:
    whole = page.incidents.whole
    note = f"{whole:,} incidents" if whole != 1 else "1 incident"
    parts = [el.heading("Alerts", html.Span(note, className="muted", role="status")), _filters(page)]
    if not whole:
        parts.append(el.notice("calm", "No incident matches.", html.P(_widen(page.asked))))
        return html.Div(parts, className="page")
    parts.append(el.panel("timeline", "Timeline", _timeline(page), note=_how(page)))
    parts.append(
        el.panel(
            "incidents",
            "Incidents",
            _table(page),
            page_links(page.incidents, PATH, page.asked, "Pages of incidents"),
            note="open first",
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
        el.Choice("since", "Time", spans, since),
        el.Choice("state", "State", [("", "all"), *((name, name) for name in STATES)], kept.get("state", "")),
        el.Choice("kind", "Kind", options("kind", choices["kind"]), kept.get("kind", "")),
        el.Choice("cluster", "Cluster", options("cluster", choices["cluster"]), kept.get("cluster", "")),
        el.Choice("explained", "Those", EXPLAINED, kept.get("explained", "")),
        el.Entry("group", "Group", kept.get("group", ""), "consumer group", size=16),
    ]
    return el.form(el.Form("filters", PATH, "Filter the alerts", fields))


def _timeline(page: AlertsPage) -> Component:
    if page.is_counted:
        return rows_of_counts("timeline-counts", page.bins, page.from_ms, page.until_ms, page.since_ms)
    return lanes("timeline-lanes", page.incidents.items, page.steps, Reach(page.from_ms, page.until_ms, page.known))


def _how(page: AlertsPage) -> str:
    return f"the last {span(page.since_ms)}, UTC" + (
        f"; counted by kind, for there are over {MOST_LANES}: the darker, the more" if page.is_counted else ""
    )


def _table(page: AlertsPage) -> Component:
    rows = [
        el.Row(one.incident_id, _cells(page, one), "inhibited" if one.inhibited_by else "")
        for one in page.incidents.items
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


def _cells(page: AlertsPage, one: Incident) -> list[el.Children]:
    kind = el.link(one.kind, "/incident", id=one.incident_id)
    state: Component = el.state(one.state)
    if one.inhibited_by:
        why = el.link(el.mark("⤷", "explained"), "/incident", id=one.inhibited_by)
        state = html.Div([state, html.Br(), why])
    known_ms = min(page.known.of_incident(one.cluster, one.kind, one.started_ms), page.known_until_ms)
    lasted = span((one.ended_ms or known_ms) - one.started_ms)
    if not one.ended_ms:
        lasted += " so far" if known_ms == page.known_until_ms else f", then {NOT_KNOWN}"
    where: el.Children = [one.subject, html.Br(), html.Span(one.cluster, className="muted")]
    if one.subject == one.cluster:
        where = one.cluster
    return [
        [kind, html.Br(), el.severity(one.severity)],
        state,
        where,
        el.moment(one.started_ms, page.now_ms),
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
    read,
    draw,
    nav="Alerts",
    parameters=frozenset({*FILTERS, "page"}),
    tables=frozenset({"alerts"}),
)
