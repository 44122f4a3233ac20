"""The overview: what fires, causes first with the line that fixes them, and what can be seen at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria
from streaming.board.drawing.verdicts import describe_counts
from streaming.board.pages.page import Page, View
from streaming.board.queries.coverage import (
    ClusterSight,
    GroupTrouble,
    TableAge,
    newest_ms,
    read_ages,
    read_clusters,
    read_troubled_groups,
)
from streaming.board.queries.firing import Firing, Trouble, read_trouble
from streaming.board.queries.lag import Written, read_lags, worst_lately
from streaming.text.times import DAY, MINUTE, span


@dataclass(frozen=True)
class OverviewPage:
    """All that the page shows.

    groups, troubled   the worst groups, and how many have any queue in trouble
    newest_ms          when the query wrote last, by its tables; None while they are empty
    lags               by table, how much later than its events its newest commit was written
    lag                the largest of those that were written lately by a query that judges
    """

    trouble: Trouble
    groups: Sequence[GroupTrouble]
    troubled: int
    clusters: Sequence[ClusterSight]
    ages: Sequence[TableAge]
    newest_ms: int | None
    lags: Mapping[str, Written]
    lag: Written | None
    is_stale: bool
    now_ms: int


def read(view: View) -> OverviewPage:
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a whole minute, as on the page of alerts, where its count leads
    groups, troubled = read_troubled_groups(view.history)
    ages, lags = read_ages(view.history), read_lags(view.history, view.now_ms)
    return OverviewPage(
        read_trouble(view.history, until_ms - DAY),
        groups,
        troubled,
        read_clusters(view.history),
        ages,
        newest_ms(ages, view.now_ms),
        lags,
        worst_lately(lags, view.stale_ms),
        view.is_stale,
        view.now_ms,
    )


def draw(page: OverviewPage) -> Component:
    return html.Div(
        [
            el.heading("Overview", _counts(page.trouble)),
            _freshness(page),
            _firing(page),
            html.Div([_groups(page.groups, page.troubled), _sight(page)], className="two uneven"),
            _tables(page),
        ],
        className="page",
    )


def _counts(trouble: Trouble) -> Component:
    fires = el.mark("▲" if trouble.firing_count else "✓", f"{trouble.firing_count:,} firing")
    parts: list[el.Child] = [el.link(fires, "/alerts", state="FIRING", explained="no")]
    if trouble.explained_count:
        parts.append(
            el.link(f"{trouble.explained_count:,} more explained by them", "/alerts", state="FIRING", explained="yes")
        )
    parts += [
        el.link(f"{trouble.states[name]:,} {name.lower()}", "/alerts", state=name)
        for name in ("PENDING", "RECOVERING", "UNKNOWN")
        if name in trouble.states
    ]
    parts.append(el.link(f"{trouble.resolved_lately:,} over in the last day", "/alerts", state="RESOLVED"))
    return html.Ul([html.Li(part) for part in parts], className="counts", **aria(label="Incidents"))


def _freshness(page: OverviewPage) -> Component:
    if page.newest_ms is None:
        return el.notice(
            "hint",
            "The tables are there and empty.",
            html.P(["Nothing has been judged yet; ", el.code("balancewatch run"), " writes as soon as events come."]),
        )
    if page.is_stale:  # the frame says how old they are
        return html.Div(id="notice")
    if not page.trouble.firing_count:
        return el.notice("calm", "Nothing fires.", html.P(["Last data ", el.age(page.newest_ms, page.now_ms), "."]))
    return html.P(["Last data ", el.age(page.newest_ms, page.now_ms), "."], id="notice", className="muted")


def _firing(page: OverviewPage) -> Component:
    trouble = page.trouble
    if not trouble.firing:
        return html.Div(id="firing")
    cards = [_card(one, page.now_ms) for one in trouble.firing]
    rest = trouble.firing_count - len(cards)
    more = (
        html.P(el.link(f"{rest:,} more fire; all {trouble.firing_count:,}", "/alerts", state="FIRING", explained="no"))
        if rest
        else None
    )
    return el.panel("firing", "Firing now", html.Ol(cards, className="cards"), more, note="root causes, worst first")


def _card(one: Firing, now_ms: int) -> Component:
    head: list[el.Child] = [
        el.state("FIRING"),
        el.link(html.Strong(one.kind), "/incident", id=one.incident_id),
        html.Span(_subject(one)),
        el.severity(one.severity),
        html.Span(["since ", el.age(one.fired_ms, now_ms)], className="muted"),
    ]
    if one.is_flapping:
        head.append(el.mark("⇄", "comes and goes"))
    if one.acknowledged_by:
        head.append(el.mark("●", f"{one.acknowledged_by} is at it"))
    parts: list[el.Child] = [
        html.P(head, className="card-head"),
        html.P(one.summary),
        html.P([html.Strong("Fix: "), one.advice], className="advice"),
    ]
    if one.effects:
        explained = ", ".join(f"{count:,} {kind}" for kind, count in one.effects.items())
        parts.append(html.P(f"Explains {explained}: no pages of their own.", className="muted"))
    return html.Li(parts, id=f"card-{one.incident_id}", className=f"card severity-edge-{one.severity}")


def _subject(one: Firing) -> list[el.Child]:
    if one.consumer_group:
        group = el.link(one.consumer_group, "/group", cluster=one.cluster, group=one.consumer_group, topic=one.topic)
        return ["group ", group, f" in {one.cluster}"]
    if one.broker_name:
        return ["broker ", el.link(one.broker_name, "/brokers", cluster=one.cluster), f" in {one.cluster}"]
    return [f"cluster {one.cluster}"]


def _groups(groups: Sequence[GroupTrouble], troubled: int) -> Component:
    if not groups:
        return el.panel("groups", "Groups in trouble", el.empty("Every queue that is judged is consumed as planned."))
    rows = [
        el.Row(
            f"{one.cluster}/{one.consumer_group}",
            [
                el.link(one.consumer_group, "/group", cluster=one.cluster, group=one.consumer_group),
                one.cluster,
                describe_counts(one.verdicts),
                f"{one.queues:,}",
            ],
        )
        for one in groups
    ]
    table = el.table(
        "groups-table",
        "Consumer groups with queues that are not consumed as planned, worst first",
        ["Group", "Cluster", "Queues in trouble", el.Column("Of", "number")],
        rows,
    )
    note = el.link(f"all {troubled:,}", "/groups") if troubled > len(groups) else None
    return el.panel("groups", "Groups in trouble", table, note=note)


def _sight(page: OverviewPage) -> Component:
    lag = html.P(_describe_lag(page), id="lag")
    if not page.clusters:
        return el.panel("sight", "What can be seen", el.empty("No cluster has been seen yet."), lag)
    rows = [el.Row(one.cluster, _sight_cells(page, one)) for one in page.clusters]
    table = el.table(
        "sight-table",
        "Each cluster: which brokers give data, and which queues cannot be judged",
        [
            "Cluster",
            "Brokers with data",
            el.Column("Complete", "number"),
            "Unknown queues",
            el.Column("Newest row", "narrow"),
        ],
        rows,
    )
    return el.panel("sight", "What can be seen", table, lag)


def _describe_lag(page: OverviewPage) -> list[el.Child]:
    lag = page.lag
    if lag is None:
        return ["Lag: no commit of the tables tells it."]
    behind = f"{lag.lag_ms / 1000:.1f} s" if lag.lag_ms < 10_000 else span(lag.lag_ms)
    be = "were" if page.is_stale else "are"
    return [f"Lag: the tables {be} at most ", html.Strong(behind), " behind the events, from an event to its row."]


def _sight_cells(page: OverviewPage, one: ClusterSight) -> list[el.Children]:
    if one.is_without_data:
        heard: el.Child = el.mark("?", f"none of {one.brokers}", "state-unknown")
    elif one.without_data:
        named = ", ".join(one.without_data[:3]) + (" …" if len(one.without_data) > 3 else "")
        heard = html.Span(
            [el.mark("?", f"{one.brokers - len(one.without_data)} of {one.brokers}", "state-unknown"), f" not {named}"]
        )
    else:
        heard = f"all {one.brokers}"
    share = "-" if one.completeness is None else f"{one.completeness:.0%}"
    unknown: el.Child = f"0 of {one.queues:,}"
    if one.unknown:
        unknown = el.mark("?", f"{one.unknown:,} of {one.queues:,}", "state-unknown")
    return [
        el.link(one.cluster, "/groups", cluster=one.cluster),
        heard,
        share,
        unknown,
        el.age(one.newest_ms, page.now_ms),
    ]


def _tables(page: OverviewPage) -> Component:
    items, lags = [], page.lags
    for one in page.ages:
        reported: list[el.Child] = [el.age(one.newest_ms, page.now_ms)]
        if one.name in lags:
            reported.append(html.Span(f", written {span(lags[one.name].lag_ms)} later", className="muted"))
        items.append(html.Div([html.Dt(el.code(one.name)), html.Dd(reported)], id=f"age-{one.name}"))
    return el.panel(
        "tables",
        "Age of the tables",
        html.Dl(items, className="ages"),
        note="time of the newest row, canary included; of the newest commit, how much later its rows were written",
    )


PAGE = Page("overview", "/", "Overview", read, draw, nav="Overview")
