"""The overview page: firing alerts with their fixes, groups with problems, monitored clusters, and data freshness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria
from streaming.board.drawing.verdicts import describe_counts
from streaming.board.pages.page import Page, View
from streaming.board.queries.coverage import (
    ClusterCoverage,
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
    """Values of the page.

    groups, troubled   the worst groups, and the number of all groups with a problem
    newest_ms          time of the newest row; None while the tables are empty
    lags               by table, delay from the newest event of its newest commit to that commit
    lag                the largest recent delay of the tables with verdicts and alerts
    """

    trouble: Trouble
    groups: Sequence[GroupTrouble]
    troubled: int
    clusters: Sequence[ClusterCoverage]
    ages: Sequence[TableAge]
    newest_ms: int | None
    lags: Mapping[str, Written]
    lag: Written | None
    is_stale: bool
    now_ms: int


def read(view: View) -> OverviewPage:
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a full minute, as on the alerts page, so that its counts agree
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
            html.Div([_groups(page.groups, page.troubled), _clusters(page)], className="two uneven"),
            _tables(page),
        ],
        className="page",
    )


def _counts(trouble: Trouble) -> Component:
    firing = el.mark("▲" if trouble.firing_count else "✓", f"{trouble.firing_count:,} firing")
    parts: list[el.Child] = [el.link(firing, "/alerts", state="FIRING", inhibited="no")]
    if trouble.inhibited_count:
        parts.append(el.link(f"{trouble.inhibited_count:,} inhibited", "/alerts", state="FIRING", inhibited="yes"))
    parts += [
        el.link(f"{trouble.states[name]:,} {name.lower()}", "/alerts", state=name)
        for name in ("PENDING", "RECOVERING", "UNKNOWN")
        if name in trouble.states
    ]
    parts.append(el.link(f"{trouble.resolved_lately:,} resolved in the last day", "/alerts", state="RESOLVED"))
    return html.Ul([html.Li(part) for part in parts], className="counts", **aria(label="Incidents"))


def _freshness(page: OverviewPage) -> Component:
    if page.newest_ms is None:
        return el.notice(
            "hint",
            "The tables are empty.",
            html.P([el.code("balancewatch run"), " fills them when events arrive."]),
        )
    if page.is_stale:  # the notice of stale data covers it
        return html.Div(id="notice")
    if not page.trouble.firing_count:
        return el.notice(
            "calm", "No alert is firing.", html.P(["Last data ", el.age(page.newest_ms, page.now_ms), "."])
        )
    return html.P(["Last data ", el.age(page.newest_ms, page.now_ms), "."], id="notice", className="muted")


def _firing(page: OverviewPage) -> Component:
    trouble = page.trouble
    if not trouble.firing:
        return html.Div(id="firing")
    cards = [_card(incident, page.now_ms) for incident in trouble.firing]
    rest = trouble.firing_count - len(cards)
    more = (
        html.P(el.link(f"{rest:,} more; all {trouble.firing_count:,}", "/alerts", state="FIRING", inhibited="no"))
        if rest
        else None
    )
    return el.panel("firing", "Firing now", html.Ol(cards, className="cards"), more, note="root causes, worst first")


def _card(incident: Firing, now_ms: int) -> Component:
    head: list[el.Child] = [
        el.state("FIRING"),
        el.link(html.Strong(incident.kind), "/incident", id=incident.incident_id),
        html.Span(_subject(incident)),
        el.severity(incident.severity),
        html.Span(["fired ", el.age(incident.fired_ms, now_ms)], className="muted"),
    ]
    if incident.is_flapping:
        head.append(el.mark("⇄", "flapping"))
    if incident.acknowledged_by:
        head.append(el.mark("●", f"acknowledged by {incident.acknowledged_by}"))
    parts: list[el.Child] = [
        html.P(head, className="card-head"),
        html.P(incident.summary),
        html.P([html.Strong("Fix: "), incident.advice], className="advice"),
    ]
    if incident.effects:
        effects = ", ".join(f"{count:,} {kind}" for kind, count in incident.effects.items())
        parts.append(html.P(f"Inhibits {effects}.", className="muted"))
    return html.Li(parts, id=f"card-{incident.incident_id}", className=f"card severity-edge-{incident.severity}")


def _subject(incident: Firing) -> list[el.Child]:
    cluster, group = incident.cluster, incident.consumer_group
    if group:
        return [
            "group ",
            el.link(group, "/group", cluster=cluster, group=group, topic=incident.topic),
            f" in {cluster}",
        ]
    if incident.broker_name:
        return ["broker ", el.link(incident.broker_name, "/brokers", cluster=cluster), f" in {cluster}"]
    return [f"cluster {cluster}"]


def _groups(groups: Sequence[GroupTrouble], troubled: int) -> Component:
    if not groups:
        return el.panel("groups", "Groups with problems", el.empty("Planned owners consume all judged queues."))
    rows = [
        el.Row(
            f"{group.cluster}/{group.consumer_group}",
            [
                [
                    el.link(group.consumer_group, "/group", cluster=group.cluster, group=group.consumer_group),
                    html.Br(),
                    html.Span(group.cluster, className="muted"),
                ],
                describe_counts(group.verdicts),
                f"{group.queues:,}",
            ],
        )
        for group in groups
    ]
    table = el.table(
        "groups-table",
        "Groups with problems",
        [el.Column("Group", "name"), "Problems", el.Column("Queues", "number")],
        rows,
    )
    note: el.Children = "worst first"
    if troubled > len(groups):
        note = ["worst first; ", el.link(f"all {troubled:,}", "/groups")]
    return el.panel("groups", "Groups with problems", table, note=note)


def _clusters(page: OverviewPage) -> Component:
    if not page.clusters:
        return el.panel("clusters", "Monitored clusters", el.empty("No cluster has reported yet."))
    rows = [el.Row(cluster.cluster, _cluster_cells(page, cluster)) for cluster in page.clusters]
    columns: list[el.Column | str] = [
        el.Column("Cluster", "name"),
        "Brokers with data",
        el.Column("Completeness", "number"),
        "Unknown queues",
        el.Column("Newest data", "narrow"),
    ]
    table = el.table("clusters-table", "Monitored clusters", columns, rows)
    return el.panel("clusters", "Monitored clusters", table, note="completeness: share of expected data that arrived")


def _describe_lag(page: OverviewPage) -> list[el.Child]:
    lag = page.lag
    if lag is None:
        return ["Delay from event to table row: unknown."]
    delay = f"{lag.lag_ms / 1000:.1f} s" if lag.lag_ms < 10_000 else span(lag.lag_ms)
    when = " (before the data stopped)" if page.is_stale else ""
    return ["Delay from event to table row: at most ", html.Strong(delay), f"{when}."]


def _cluster_cells(page: OverviewPage, cluster: ClusterCoverage) -> list[el.Children]:
    brokers: el.Child = f"all {cluster.brokers}"
    if cluster.is_without_data:
        brokers = el.mark("?", f"none of {cluster.brokers}", "state-unknown")
    elif cluster.without_data:
        with_data = f"{cluster.brokers - len(cluster.without_data)} of {cluster.brokers}"
        missing = ", ".join(cluster.without_data[:3]) + (" …" if len(cluster.without_data) > 3 else "")
        brokers = html.Span([el.mark("?", with_data, "state-unknown"), f", missing {missing}"])
    unknown: el.Child = f"0 of {cluster.queues:,}"
    if cluster.unknown:
        unknown = el.mark("?", f"{cluster.unknown:,} of {cluster.queues:,}", "state-unknown")
    return [
        el.link(cluster.cluster, "/groups", cluster=cluster.cluster),
        brokers,
        "-" if cluster.completeness is None else f"{cluster.completeness:.0%}",
        unknown,
        el.age(cluster.newest_ms, page.now_ms),
    ]


def _tables(page: OverviewPage) -> Component:
    items, lags = [], page.lags
    for table in page.ages:
        age: list[el.Child] = [el.age(table.newest_ms, page.now_ms)]
        if table.name in lags:
            age.append(html.Span(f", delay {span(lags[table.name].lag_ms)}", className="muted"))
        items.append(html.Div([html.Dt(el.code(table.name)), html.Dd(age)], id=f"age-{table.name}"))
    return el.panel(
        "tables",
        "Data freshness",
        html.Dl(items, className="ages"),
        html.P(_describe_lag(page), id="lag"),
        note="age of each table's newest row, including the canary's",
    )


PAGE = Page("overview", "/", "Overview", read, draw, nav="Overview")
