"""Incidents over time, drawn: a lane an incident where they are few, a row of counts a kind where they are many.

What pages is solid; what another incident explains is grey and hatched; what never fired is dotted.
"""

from collections.abc import Sequence

import plotly.graph_objects as go
from dash.development.base_component import Component

from streaming.board import figures
from streaming.board.asked import href
from streaming.board.elements import STATE_SHAPES
from streaming.board.figures import Key
from streaming.board.incidents_reading import BINS, Bins, Incident
from streaming.board.times import span

LANE_PX = 36
ROW_PX = 30
BASE_PX = 46


LOOKS = (
    Key("fires", figures.RED),
    Key("fired, is over", figures.BLUE),
    Key("explained, does not page", figures.GREY, "/"),
    Key("seen, not certain", figures.AMBER, "."),
)
FIRES, OVER, EXPLAINED, UNCERTAIN = LOOKS

LEAST_SHARE = 0.006
"""A bar is drawn at least this wide, as a share of the axis, so that a short incident can be seen and clicked."""


def lanes(id_: str, incidents: Sequence[Incident], from_ms: int, until_ms: int) -> Component:
    """One lane an incident, named above its bar; a click leads to it. The axis begins where the first one does."""
    first_ms = max(from_ms, min((one.started_ms for one in incidents), default=from_ms))
    from_ms = max(from_ms, first_ms - max(60_000, (until_ms - first_ms) // 20))
    least_ms = int((until_ms - from_ms) * LEAST_SHARE)
    drawn = go.Figure()
    for look in LOOKS:
        pieces = [
            (lane, start, end, incident)
            for lane, incident in enumerate(incidents)
            for of, start, end in _pieces(incident, until_ms)
            if of is look
        ]
        starts = [min(max(start, from_ms), until_ms - least_ms) for _, start, _, _ in pieces]
        drawn.add_bar(
            orientation="h",
            name=look.name,
            y=[lane for lane, *_ in pieces],
            base=figures.moments(starts),
            x=[max(end - start, least_ms) for (_, _, end, _), start in zip(pieces, starts, strict=True)],
            width=0.34,
            offset=0.08,
            customdata=[href("/incident", id=incident.incident_id) for *_, incident in pieces],
            hovertext=[_tell(incident, end - start) for _, start, end, incident in pieces],
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
    label = f"Timeline of {len(incidents)} incidents, the newest first; the table below says the same."
    return figures.figure(id_, drawn, label, BASE_PX + LANE_PX * max(1, len(incidents)), keys=LOOKS)


def rows_of_counts(id_: str, bins: Sequence[Bins], from_ms: int, until_ms: int) -> Component:
    """One row a kind, each cell with how many incidents were open then."""
    names = [f"{one.kind}{' (explained)' if one.is_explained else ''}" for one in bins]
    step = (until_ms - from_ms) / BINS
    middles = figures.moments([round(from_ms + (number + 0.5) * step) for number in range(BINS)])
    drawn = go.Figure()
    for explained, tone in ((False, figures.RED), (True, figures.GREY)):
        drawn.add_heatmap(
            x=middles,
            y=list(range(len(bins))),
            z=[
                [count or None for count in one.counts] if one.is_explained is explained else [None] * BINS
                for one in bins
            ],
            colorscale=[[0, tone + "55"], [1, tone]],
            zmin=1,
            zmax=max(2, *(max(one.counts) for one in bins)),
            showscale=False,
            xgap=1,
            ygap=15,
            hoverongaps=False,
            customdata=[
                [
                    href(
                        "/alerts",
                        kind=one.kind,
                        explained="yes" if one.is_explained else "no",
                        since=_since(until_ms - from_ms),
                    )
                ]
                * BINS
                for one in bins
            ],
            text=[[name] * BINS for name in names],
            hovertemplate="%{text}<br>%{x|%H:%M, %-d %b}: %{z} open<extra></extra>",
        )
    drawn.update_layout(
        margin={"l": 8, "r": 8, "t": 8, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"range": [len(bins) - 0.5, -0.85], "visible": False, "fixedrange": True},
        annotations=[
            _text(row, f"{name}: at most {max(one.counts):,} at a time", -0.5)
            for row, (name, one) in enumerate(zip(names, bins, strict=True))
        ],
    )
    label = f"How many incidents of each of {len(bins)} kinds were open over time; the table below lists them."
    return figures.figure(id_, drawn, label, BASE_PX + (ROW_PX + 10) * max(1, len(bins)))


def _pieces(incident: Incident, until_ms: int) -> list[tuple[Key, int, int]]:
    """What a lane is drawn of: before it fired, and since."""
    end = incident.ended_ms or until_ms
    if incident.suppressed_by is not None:
        return [(EXPLAINED, incident.started_ms, end)]
    if incident.fired_ms is None:
        return [(UNCERTAIN, incident.started_ms, end)]
    since = (FIRES if incident.ended_ms is None else OVER, incident.fired_ms, end)
    if incident.fired_ms <= incident.started_ms:
        return [since]
    return [(UNCERTAIN, incident.started_ms, incident.fired_ms), since]


def _name(lane: int, incident: Incident) -> dict[str, object]:
    word = f"{STATE_SHAPES.get(incident.state, '·')} {incident.kind} · {incident.subject}"
    return _text(lane, word + (" (explained)" if incident.suppressed_by else ""), -0.17)


def _text(row: int, words: str, shift: float) -> dict[str, object]:
    shown = words if len(words) <= 60 else words[:59] + "…"
    return {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": row + shift,
        "yanchor": "middle",
        "text": shown.replace("<", "&lt;"),
        "showarrow": False,
        "font": {"size": 12},
    }


def _tell(incident: Incident, lasted_ms: int) -> str:
    words = f"{incident.kind}, {incident.subject} ({incident.cluster})".replace("<", "&lt;")
    return f"{words}<br>{incident.state}, {span(lasted_ms)}"


def _since(ms: int) -> str:
    return f"{max(1, ms // 60_000)}m"
