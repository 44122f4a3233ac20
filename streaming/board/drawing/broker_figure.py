"""The timeline of brokers: a band while producers avoid one, with their number, and its incidents below.

Both end where the data end or the broker's cluster stopped sending data; a hatched band follows.
"""

from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from streaming.board.drawing.counts import counted
from streaming.board.drawing.figures import AMBER, BLUE, PURPLE, RED, figure, moments, time_axis
from streaming.board.drawing.lanes import fitting, hatched, lane_axis, left_margin, plain, tint
from streaming.board.queries.brokers import Broker, join_intervals
from streaming.board.queries.known_until import NO_DATA, Known
from streaming.board.url.parameters import href
from streaming.text.times import clock, span

MOST_LANES = 40
LANE_PX = 44
MARGIN_PX = 64
MOST_BARS = 240
"""Limit of drawn intervals; beyond it, close intervals are joined."""

LEAST_SHARE = 1 / 500
"""Least width of a bar as a share of the axis, so that short intervals can be seen."""


def broker_figure(
    brokers: Sequence[Broker], from_ms: int, until_ms: int, known: Known, *, with_cluster: bool
) -> Component:
    """Return the figure of the brokers with avoidance or incidents, at most MOST_LANES, named in its `aria-label`."""
    lanes = _joined(
        [broker for broker in brokers if broker.intervals or broker.incidents][:MOST_LANES], until_ms - from_ms
    )
    drawn = go.Figure([_avoided(lanes, from_ms, until_ms, by_all=by_all) for by_all in (False, True)])
    drawn.add_trace(_incidents(lanes, from_ms, until_ms, known))
    if any(known.of(lane.cluster) < until_ms for lane in lanes):
        drawn.add_trace(_not_known(lanes, from_ms, until_ms, known))
    names = [f"{lane.cluster} {lane.broker_name}" if with_cluster else lane.broker_name for lane in lanes]
    drawn.update_layout(
        barmode="overlay",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        margin={"l": left_margin(names), "r": 28, "t": 36, "b": 40},
        xaxis=time_axis(from_ms, until_ms, tickangle=0, ticklabeloverflow="allow"),
        yaxis=lane_axis(names),
        uniformtext={"minsize": 9, "mode": "hide"},
    )
    label = f"Avoidance and incidents over time of {counted(len(lanes), 'broker')}: {', '.join(names[:10])}"
    return figure("brokers-figure", drawn, label, MARGIN_PX + LANE_PX * len(lanes), text=_text(lanes, until_ms, known))


def _joined(lanes: Sequence[Broker], time_ms: int) -> list[Broker]:
    """Join intervals over ever longer breaks until at most MOST_BARS remain."""
    break_ms = time_ms // 200
    while sum(len(lane.intervals) for lane in lanes) > MOST_BARS and break_ms < time_ms:
        lanes = [replace(lane, intervals=join_intervals(lane.intervals, break_ms)) for lane in lanes]
        break_ms *= 2
    return list(lanes)


def _avoided(lanes: Sequence[Broker], from_ms: int, until_ms: int, *, by_all: bool) -> go.Bar:
    bars = [
        (number, one)
        for number, lane in enumerate(lanes)
        for one in lane.intervals
        if (one.avoiding >= one.producers) is by_all
    ]
    least_ms = round((until_ms - from_ms) * LEAST_SHARE)
    return go.Bar(
        name="avoided by all" if by_all else "avoided by some",
        orientation="h",
        y=[number - 0.16 for number, _ in bars],
        base=moments([one.start_ms for _, one in bars]),
        x=[max(one.end_ms - one.start_ms, least_ms) for _, one in bars],
        width=0.46,
        marker=hatched(RED if by_all else AMBER, "x" if by_all else "/"),
        text=[
            fitting(f"{one.avoiding} of {one.producers}", (one.end_ms - one.start_ms) / (until_ms - from_ms))
            for _, one in bars
        ],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        hovertext=[
            f"{plain(lanes[number].broker_name)}: {_describe(one.avoiding, one.producers, one.times)}, "
            f"{clock(one.start_ms, until_ms)} to {clock(one.end_ms, until_ms)}"
            for number, one in bars
        ],
        hoverinfo="text",
    )


def _not_known(lanes: Sequence[Broker], from_ms: int, until_ms: int, known: Known) -> go.Bar:
    """Return bars from the end of the data of each lane's cluster to the end of the axis."""
    silent = [
        (number, max(known.of(lane.cluster), from_ms))
        for number, lane in enumerate(lanes)
        if known.of(lane.cluster) < until_ms
    ]
    return go.Bar(
        name=NO_DATA,
        orientation="h",
        y=[number - 0.16 for number, _ in silent],
        base=moments([start for _, start in silent]),
        x=[until_ms - start for _, start in silent],
        width=0.46,
        marker=hatched(PURPLE, "."),
        text=[fitting(NO_DATA, (until_ms - start) / (until_ms - from_ms)) for _, start in silent],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        hovertext=[
            f"{plain(lanes[number].broker_name)}: {NO_DATA} since {clock(start, until_ms)}" for number, start in silent
        ],
        hoverinfo="text",
    )


def _incidents(lanes: Sequence[Broker], from_ms: int, until_ms: int, known: Known) -> go.Bar:
    bars = [(number, one) for number, lane in enumerate(lanes) for one in lane.incidents]
    least_ms = round((until_ms - from_ms) * LEAST_SHARE)
    starts = [max(one.start_ms, from_ms) for _, one in bars]
    ends = [one.end_ms or known.of_incident(lanes[number].cluster, one.kind, one.start_ms) for number, one in bars]
    return go.Bar(
        name="incident",
        orientation="h",
        y=[number + 0.28 for number, _ in bars],
        base=moments(starts),
        x=[max(end - start, least_ms) for start, end in zip(starts, ends, strict=True)],
        width=0.36,
        marker={"color": tint(BLUE), "line": {"width": 1, "color": BLUE}},
        text=[plain(one.kind) for _, one in bars],
        textfont={"size": 10},
        textposition="auto",
        insidetextanchor="start",
        textangle=0,
        hovertext=[plain(f"{one.kind}: {one.summary}") for _, one in bars],
        hoverinfo="text",
        customdata=[href("/incident", {"id": one.incident_id}) for _, one in bars],
    )


def _describe(avoiding: int, producers: int, times: int) -> str:
    often = f", {times} times" if times > 1 else ""
    return f"up to {avoiding} of {producers} producers{often}" if times > 1 else f"{avoiding} of {producers} producers"


def _text(lanes: Sequence[Broker], until_ms: int, known: Known) -> Component:
    """Return the figure as text, folded."""
    items = [
        html.Li(
            [
                html.Strong(lane.broker_name),
                ": ",
                "; ".join(
                    f"{clock(one.start_ms, until_ms)} for {span(one.end_ms - one.start_ms)}, "
                    f"{_describe(one.avoiding, one.producers, one.times)}"
                    for one in lane.intervals[:5]
                )
                or "not avoided",
                *(f"; {one.kind} from {clock(one.start_ms, until_ms)}" for one in lane.incidents[:5]),
                *(f"; {NO_DATA} since {clock(ms, until_ms)}" for ms in [known.of(lane.cluster)] if ms < until_ms),
            ]
        )
        for lane in lanes
    ]
    return html.Details([html.Summary("As text, newest first"), html.Ul(items)])
