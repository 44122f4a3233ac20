"""The timeline of incidents: one lane each for a few, one row of counts per kind for many.

A bar shows the states of its incident: firing is solid, inhibited grey and hatched, pending dotted. Open incidents end
where the data end, or where their cluster stopped sending data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from dash.development.base_component import Component

from streaming.board.drawing import figures
from streaming.board.drawing.elements import STATE_SHAPES
from streaming.board.drawing.figures import Key
from streaming.board.drawing.lanes import fitting, plain
from streaming.board.drawing.lanes import hatched as framed
from streaming.board.queries.incidents import BINS, Bins, Incident, Step
from streaming.board.queries.known_until import NO_DATA, Known
from streaming.board.url.parameters import href
from streaming.text.times import span
from streaming.text.visible_text import visible_name

LANE_PX = 36
ROW_PX = 30
BASE_PX = 46


LOOKS = (
    Key("firing", figures.RED),
    Key("resolved", figures.BLUE),
    Key("inhibited", figures.GREY, "/"),
    Key("pending", figures.AMBER, "."),
    Key("recovering", figures.BLUE, "\\"),
    Key(NO_DATA, figures.PURPLE, "x"),
)
FIRING, RESOLVED, INHIBITED, PENDING, RECOVERING, SILENT = LOOKS
BY_STATE = {"FIRING": FIRING, "PENDING": PENDING, "RECOVERING": RECOVERING, "UNKNOWN": SILENT}

COUNT_KEYS = (
    Key("not inhibited", figures.RED),
    Key("inhibited", figures.GREY),
    Key(f"{NO_DATA}, may still be open", figures.PURPLE, "x"),
)

LEAST_SHARE = 0.006
"""Least width of a bar as a share of the axis, so that a short incident can be seen and clicked."""


@dataclass(frozen=True)
class Reach:
    """The period that is drawn, and the end of the data for open incidents."""

    from_ms: int
    until_ms: int
    known: Known


def lanes(id_: str, incidents: Sequence[Incident], steps: Mapping[str, Sequence[Step]], reach: Reach) -> Component:
    """Return the figure with one lane per incident, its name above its bar. A click opens the incident."""
    from_ms, until_ms = reach.from_ms, reach.until_ms
    least_ms = int((until_ms - from_ms) * LEAST_SHARE)
    drawn = go.Figure()
    for look in LOOKS:
        pieces = [
            (lane, start, end, incident)
            for lane, incident in enumerate(incidents)
            for of, start, end in _known_pieces(incident, steps.get(incident.incident_id, ()), reach.known)
            if of is look and end >= from_ms
        ]
        starts = [min(max(start, from_ms), until_ms - least_ms) for _, start, _, _ in pieces]
        drawn.add_bar(
            orientation="h",
            name=look.name,
            y=[lane for lane, *_ in pieces],
            base=figures.moments(starts),
            x=[max(min(end, until_ms) - start, least_ms) for (_, _, end, _), start in zip(pieces, starts, strict=True)],
            width=0.34,
            offset=0.08,
            customdata=[href("/incident", id=incident.incident_id) for *_, incident in pieces],
            hovertext=[_describe(incident, end - start) for _, start, end, incident in pieces],
            hovertemplate=f"%{{hovertext}}<br>{look.name}<extra></extra>",
            marker=figures.hatched(look.tone, look.hatch),
        )
    drawn.update_layout(
        barmode="overlay",
        margin={"l": 8, "r": 8, "t": 4, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"range": [len(incidents) - 0.3, -0.55], "visible": False, "fixedrange": True},
        annotations=[_name(lane, incident) for lane, incident in enumerate(incidents)],
    )
    label = f"Timeline of {len(incidents)} incidents, newest first; the table below lists them."
    return figures.figure(id_, drawn, label, BASE_PX + LANE_PX * max(1, len(incidents)), keys=LOOKS)


def rows_of_counts(id_: str, bins: Sequence[Bins], from_ms: int, until_ms: int, since_ms: int) -> Component:
    """Return the figure with one row per kind, each cell the number of open incidents. A click lists them."""
    names = [f"{one.kind}{' (inhibited)' if one.is_inhibited else ''}" for one in bins]
    step = (until_ms - from_ms) / BINS
    middles = figures.moments([round(from_ms + (number + 0.5) * step) for number in range(BINS)])
    drawn = go.Figure()
    for explained, tone in ((False, figures.RED), (True, figures.GREY)):
        drawn.add_heatmap(
            x=middles,
            y=list(range(len(bins))),
            z=[
                [count or None for count in one.counts] if one.is_inhibited is explained else [None] * BINS
                for one in bins
            ],
            colorscale=[[0, tone + "55"], [1, tone]],
            zmin=1,
            zmax=max(2, *(one.most for one in bins)),
            showscale=False,
            xgap=1,
            ygap=15,
            hoverongaps=False,
            customdata=[[_of_kind(one, since_ms)] * BINS for one in bins],
            text=[[plain(name)] * BINS for name in names],
            hovertemplate="%{text}<br>%{x|%H:%M, %-d %b}: %{z} open<extra></extra>",
        )
    drawn.add_trace(_not_known(bins, from_ms, until_ms, since_ms))
    drawn.update_layout(
        barmode="overlay",
        margin={"l": 8, "r": 8, "t": 8, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"range": [len(bins) - 0.5, -0.85], "visible": False, "fixedrange": True},
        annotations=[
            _text(row, f"{name}: up to {one.most:,} at a time", -0.5)
            for row, (name, one) in enumerate(zip(names, bins, strict=True))
        ],
    )
    label = f"Number of open incidents over time for {len(bins)} kinds; the table below lists them."
    has_unknown = any(map(any, (one.unknown for one in bins)))
    if has_unknown:
        label += " Hatched: no data any more from some of them."
    keys = COUNT_KEYS if has_unknown else COUNT_KEYS[:2]
    return figures.figure(id_, drawn, label, BASE_PX + (ROW_PX + 10) * max(1, len(bins)), keys=keys)


def _not_known(bins: Sequence[Bins], from_ms: int, until_ms: int, since_ms: int) -> go.Bar:
    """Return hatched bars over the time without data for some of a row's incidents."""
    step = (until_ms - from_ms) / BINS
    runs = []
    for row, one in enumerate(bins):
        numbers = [number for number, count in enumerate(one.unknown) if count]
        if numbers:  # it lasts to the end
            runs.append((row, numbers[0], one))
    return go.Bar(
        name=NO_DATA,
        orientation="h",
        y=[row for row, _, _ in runs],
        base=figures.moments([round(from_ms + first * step) for _, first, _ in runs]),
        x=[round((BINS - first) * step) for _, first, _ in runs],
        width=0.58,
        offset=-0.29,
        customdata=[_of_kind(one, since_ms) for _, _, one in runs],
        marker=framed(figures.PURPLE, "x"),
        text=[fitting(NO_DATA, (BINS - first) / BINS) for _, first, _ in runs],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        hovertext=[
            f"{plain(one.kind)}<br>{NO_DATA} for {max(one.unknown):,} incidents, which may still be open"
            for _, _, one in runs
        ],
        hoverinfo="text",
    )


def _known_pieces(incident: Incident, steps: Sequence[Step], known: Known) -> list[tuple[Key, int, int]]:
    """Return the pieces, cut where the incident's cluster stopped sending data."""
    pieces = pieces_of(incident, steps, known.until_ms)
    known_ms = known.of_incident(incident.cluster, incident.kind, incident.started_ms)
    if incident.ended_ms is not None or known_ms >= known.until_ms:
        return pieces
    cut = [(look, start, min(end, known_ms)) for look, start, end in pieces if start < known_ms]
    return [*cut, (SILENT, known_ms, known.until_ms)]


def pieces_of(incident: Incident, steps: Sequence[Step], known_until_ms: int) -> list[tuple[Key, int, int]]:
    """Return a lane's pieces: each state from its row to the next, the last up to the end or the end of the data.

    Before the first row, the incident was pending until it fired.
    """
    first_ms = steps[0].at_ms if steps else known_until_ms
    fired_ms = first_ms if incident.fired_ms is None else min(incident.fired_ms, first_ms)
    reported = [Step(incident.started_ms, "PENDING", False), Step(fired_ms, "FIRING", False), *steps]
    end_ms = incident.ended_ms if incident.ended_ms is not None else max(known_until_ms, reported[-1].at_ms + 1)
    ends = [*(step.at_ms for step in reported[1:]), end_ms]
    pieces: list[tuple[Key, int, int]] = []
    for step, end in zip(reported, ends, strict=True):
        look = INHIBITED if step.is_inhibited else BY_STATE.get(step.state, SILENT)
        if look is FIRING and incident.ended_ms is not None:
            look = RESOLVED
        if step.state == "RESOLVED" or end <= step.at_ms:
            continue
        if pieces and pieces[-1][0] is look and pieces[-1][2] == step.at_ms:
            pieces[-1] = (look, pieces[-1][1], end)
        else:
            pieces.append((look, step.at_ms, end))
    return pieces


def _name(lane: int, incident: Incident) -> dict[str, object]:
    word = f"{STATE_SHAPES.get(incident.state, '·')} {incident.kind} · {incident.subject}"
    return _text(lane, word + (" (inhibited)" if incident.inhibited_by else ""), -0.17)


def _text(row: int, words: str, shift: float) -> dict[str, object]:
    words = visible_name(words)
    shown = words if len(words) <= 60 else words[:59] + "…"
    return {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": row + shift,
        "yanchor": "middle",
        "text": plain(shown),
        "showarrow": False,
        "font": {"size": 12},
    }


def _describe(incident: Incident, lasted_ms: int) -> str:
    words = plain(f"{incident.kind}, {incident.subject} ({incident.cluster})")
    return f"{words}<br>{plain(incident.state)}, {span(lasted_ms)}"


def _of_kind(one: Bins, time_ms: int) -> str:
    """Return the link to the incidents that a row counts."""
    return href("/alerts", kind=one.kind, inhibited="yes" if one.is_inhibited else "no", since=_since(time_ms))


def _since(ms: int) -> str:
    return f"{max(1, ms // 60_000)}m"
