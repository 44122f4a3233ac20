"""Incidents over time, drawn: a lane an incident where they are few, a row of counts a kind where they are many.

Each bar is of what the incident went through. What pages is solid; what another incident explains is grey and hatched;
what is not certain is dotted. Where the data end, or no data come from a cluster any more, what lasts ends too.
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
from streaming.board.queries.known_until import NOT_KNOWN, Known
from streaming.board.url.parameters import href
from streaming.text.times import span
from streaming.text.visible_text import visible_name

LANE_PX = 36
ROW_PX = 30
BASE_PX = 46


LOOKS = (
    Key("fires", figures.RED),
    Key("fired, is over", figures.BLUE),
    Key("explained, does not page", figures.GREY, "/"),
    Key("seen, not certain", figures.AMBER, "."),
    Key("recovers", figures.BLUE, "\\"),
    Key("without data", figures.PURPLE, "x"),
)
FIRES, OVER, EXPLAINED, UNCERTAIN, RECOVERS, NO_DATA = LOOKS
BY_STATE = {"FIRING": FIRES, "PENDING": UNCERTAIN, "RECOVERING": RECOVERS, "UNKNOWN": NO_DATA}

COUNT_KEYS = (
    Key("that page", figures.RED),
    Key("explained, do not page", figures.GREY),
    Key(f"{NOT_KNOWN} whether they last", figures.PURPLE, "x"),
)

LEAST_SHARE = 0.006
"""A bar is drawn at least this wide, as a share of the axis, so that a short incident can be seen and clicked."""


@dataclass(frozen=True)
class Reach:
    """The time that is drawn; what still goes on is drawn up to where it is known."""

    from_ms: int
    until_ms: int
    known: Known


def lanes(id_: str, incidents: Sequence[Incident], steps: Mapping[str, Sequence[Step]], reach: Reach) -> Component:
    """One lane an incident, named above its bar; a click leads to it."""
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
    label = f"Timeline of {len(incidents)} incidents, the newest first; the table below says the same."
    return figures.figure(id_, drawn, label, BASE_PX + LANE_PX * max(1, len(incidents)), keys=LOOKS)


def rows_of_counts(id_: str, bins: Sequence[Bins], from_ms: int, until_ms: int, since_ms: int) -> Component:
    """One row a kind, each cell with how many incidents were open then; a click leads to those of `since_ms`."""
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
            _text(row, f"{name}: at most {one.most:,} at a time", -0.5)
            for row, (name, one) in enumerate(zip(names, bins, strict=True))
        ],
    )
    label = f"How many incidents of each of {len(bins)} kinds were open over time; the table below lists them."
    has_unknown = any(map(any, (one.unknown for one in bins)))
    if has_unknown:
        label += " Where a row is hatched, no data come from some of them any more."
    keys = COUNT_KEYS if has_unknown else COUNT_KEYS[:2]
    return figures.figure(id_, drawn, label, BASE_PX + (ROW_PX + 10) * max(1, len(bins)), keys=keys)


def _not_known(bins: Sequence[Bins], from_ms: int, until_ms: int, since_ms: int) -> go.Bar:
    """Over a row, the time in which it is not known how many of its incidents last, hatched and with the word."""
    step = (until_ms - from_ms) / BINS
    runs = []
    for row, one in enumerate(bins):
        numbers = [number for number, count in enumerate(one.unknown) if count]
        if numbers:  # what is not known is not known up to the end
            runs.append((row, numbers[0], one))
    return go.Bar(
        name=NOT_KNOWN,
        orientation="h",
        y=[row for row, _, _ in runs],
        base=figures.moments([round(from_ms + first * step) for _, first, _ in runs]),
        x=[round((BINS - first) * step) for _, first, _ in runs],
        width=0.58,
        offset=-0.29,
        customdata=[_of_kind(one, since_ms) for _, _, one in runs],
        marker=framed(figures.PURPLE, "x"),
        text=[fitting(NOT_KNOWN, (BINS - first) / BINS) for _, first, _ in runs],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        hovertext=[f"{plain(one.kind)}<br>{NOT_KNOWN} whether {max(one.unknown):,} still last" for _, _, one in runs],
        hoverinfo="text",
    )


def _known_pieces(incident: Incident, steps: Sequence[Step], known: Known) -> list[tuple[Key, int, int]]:
    """The pieces; from where no data come from the incident's cluster, it gives no data either, whatever it was."""
    pieces = pieces_of(incident, steps, known.until_ms)
    heard_ms = known.of_incident(incident.cluster, incident.kind, incident.started_ms)
    if incident.ended_ms is not None or heard_ms >= known.until_ms:
        return pieces
    cut = [(look, start, min(end, heard_ms)) for look, start, end in pieces if start < heard_ms]
    return [*cut, (NO_DATA, heard_ms, known.until_ms)]


def pieces_of(incident: Incident, steps: Sequence[Step], known_until_ms: int) -> list[tuple[Key, int, int]]:
    """What a lane is drawn of: each state from its row to the next one's, the last up to the end or to what is known.

    Before the first row it was uncertain until it fired, and fired since.
    """
    first_ms = steps[0].at_ms if steps else known_until_ms
    fired_ms = first_ms if incident.fired_ms is None else min(incident.fired_ms, first_ms)
    reported = [Step(incident.started_ms, "PENDING", False), Step(fired_ms, "FIRING", False), *steps]
    end_ms = incident.ended_ms if incident.ended_ms is not None else max(known_until_ms, reported[-1].at_ms + 1)
    ends = [*(step.at_ms for step in reported[1:]), end_ms]
    pieces: list[tuple[Key, int, int]] = []
    for step, end in zip(reported, ends, strict=True):
        look = EXPLAINED if step.is_explained else BY_STATE.get(step.state, NO_DATA)
        if look is FIRES and incident.ended_ms is not None:
            look = OVER
        if step.state == "RESOLVED" or end <= step.at_ms:
            continue
        if pieces and pieces[-1][0] is look and pieces[-1][2] == step.at_ms:
            pieces[-1] = (look, pieces[-1][1], end)
        else:
            pieces.append((look, step.at_ms, end))
    return pieces


def _name(lane: int, incident: Incident) -> dict[str, object]:
    word = f"{STATE_SHAPES.get(incident.state, '·')} {incident.kind} · {incident.subject}"
    return _text(lane, word + (" (explained)" if incident.inhibited_by else ""), -0.17)


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
    """The incidents that a row counts."""
    return href("/alerts", kind=one.kind, explained="yes" if one.is_explained else "no", since=_since(time_ms))


def _since(ms: int) -> str:
    return f"{max(1, ms // 60_000)}m"
