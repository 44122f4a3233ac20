"""The overview: what fires, causes first with the line that fixes them, and what can be seen at all."""

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.attributes import aria
from streaming.board.firing_reading import Firing, Trouble, read_trouble
from streaming.board.lag_reading import Written, read_lags, worst_lately
from streaming.board.page import Page, View
from streaming.board.sight_reading import (
    ClusterSight,
    GroupTrouble,
    TableAge,
    newest_ms,
    read_ages,
    read_clusters,
    read_troubled_groups,
)
from streaming.board.times import DAY, MINUTE, span
from streaming.board.verdicts import tell_counts


def body(view: View) -> Component:
    until_ms = -(-view.now_ms // MINUTE) * MINUTE  # a whole minute, as on the page of alerts, where its count leads
    trouble = read_trouble(view.history, until_ms - DAY)
    ages = read_ages(view.history)
    lags = read_lags(view.history, view.now_ms)
    groups, troubled = read_troubled_groups(view.history)
    return html.Div(
        [
            el.heading("Overview", _counts(trouble)),
            _freshness(view, ages, trouble),
            _firing(view, trouble),
            html.Div(
                [_groups(groups, troubled), _sight(view, read_clusters(view.history), lags)], className="two uneven"
            ),
            _tables(view, ages, lags),
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


def _freshness(view: View, ages: Sequence[TableAge], trouble: Trouble) -> Component:
    newest = newest_ms(list(ages), view.now_ms)
    if newest is None:
        return el.notice(
            "hint",
            "The tables are there and empty.",
            html.P(["Nothing has been judged yet; ", el.code("balancewatch run"), " writes as soon as events come."]),
        )
    if view.is_stale:  # the frame says how old they are
        return html.Div(id="notice")
    if not trouble.firing_count:
        return el.notice("calm", "Nothing fires.", html.P(["Last data ", el.age(newest, view.now_ms), "."]))
    return html.P(["Last data ", el.age(newest, view.now_ms), "."], id="notice", className="muted")


def _firing(view: View, trouble: Trouble) -> Component:
    if not trouble.firing:
        return html.Div(id="firing")
    cards = [_card(one, view.now_ms) for one in trouble.firing]
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
    if one.owner:
        head.append(el.mark("●", f"{one.owner} is at it"))
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
                tell_counts(one.verdicts),
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


def _sight(view: View, clusters: Sequence[ClusterSight], lags: Mapping[str, Written]) -> Component:
    lag = html.P(_tell_lag(view, worst_lately(lags, view.stale_ms)), id="lag")
    if not clusters:
        return el.panel("sight", "What can be seen", el.empty("No cluster has been seen yet."), lag)
    rows = [el.Row(one.cluster, _sight_cells(view, one)) for one in clusters]
    table = el.table(
        "sight-table",
        "Each cluster: which brokers are heard, and which queues cannot be judged",
        ["Cluster", "Brokers heard", el.Column("Heard", "number"), "Unknown queues", el.Column("Newest row", "narrow")],
        rows,
    )
    return el.panel("sight", "What can be seen", table, lag)


def _tell_lag(view: View, lag: Written | None) -> list[el.Child]:
    if lag is None:
        return ["Lag: no commit of the tables tells it."]
    behind = f"{lag.lag_ms / 1000:.1f} s" if lag.lag_ms < 10_000 else span(lag.lag_ms)
    be = "were" if view.is_stale else "are"
    return [f"Lag: the tables {be} at most ", html.Strong(behind), " behind the events, from an event to its row."]


def _sight_cells(view: View, one: ClusterSight) -> list[el.Children]:
    if one.is_unheard:
        heard: el.Child = el.mark("?", f"none of {one.brokers}", "state-unknown")
    elif one.unheard:
        named = ", ".join(one.unheard[:3]) + (" …" if len(one.unheard) > 3 else "")
        heard = html.Span(
            [el.mark("?", f"{one.brokers - len(one.unheard)} of {one.brokers}", "state-unknown"), f" not {named}"]
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
        el.age(one.newest_ms, view.now_ms),
    ]


def _tables(view: View, ages: Sequence[TableAge], lags: Mapping[str, Written]) -> Component:
    items = []
    for one in ages:
        told: list[el.Child] = [el.age(one.newest_ms, view.now_ms)]
        if one.name in lags:
            told.append(html.Span(f", written {span(lags[one.name].lag_ms)} later", className="muted"))
        items.append(html.Div([html.Dt(el.code(one.name)), html.Dd(told)], id=f"age-{one.name}"))
    return el.panel(
        "tables",
        "Age of the tables",
        html.Dl(items, className="ages"),
        note="time of the newest row, canary included; of the newest commit, how much later its rows were written",
    )


PAGE = Page("overview", "/", "Overview", body, nav="Overview")
