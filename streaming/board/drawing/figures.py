"""Figures of the board: text and lines take the page's colours by CSS.

Marks have a contrast of at least 3:1 on white and on near-black, and a pattern or a word besides the colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from streaming.board.drawing.attributes import aria
from streaming.text.times import iso

RED, AMBER, GREEN, BLUE, PURPLE, GREY = "#d9483b", "#b07400", "#2f9660", "#3b82d6", "#8b6fd0", "#7f8894"

STATE_TONES = {"FIRING": RED, "PENDING": AMBER, "RECOVERING": BLUE, "RESOLVED": GREEN, "UNKNOWN": PURPLE}

CLEAR = "rgba(0,0,0,0)"

HATCH_CLASSES = {"": "solid", "/": "slash", "\\": "backslash", ".": "dots", "x": "cross", "-": "lines", "+": "plus"}


@dataclass(frozen=True)
class Key:
    """One line of a figure's key: a tone with a hatching (Plotly's pattern) or a symbol, and its name."""

    name: str
    tone: str
    hatch: str = ""
    symbol: str = ""


def hatched(tone: str, hatch: str) -> dict[str, Any]:
    """Return a bar's marker."""
    pattern = {"shape": hatch, "fgcolor": tone, "bgcolor": CLEAR, "size": 6}
    return {"color": tone, "line": {"width": 0}, "pattern": pattern}


def key_of(keys: Sequence[Key]) -> Component:
    """Return the key as a list, which wraps on a narrow page."""
    return html.Ul([html.Li([_swatch(one), one.name]) for one in keys], className="key", **aria(label="Key"))


def _swatch(one: Key) -> Component:
    if one.symbol:
        return html.Span(one.symbol, style={"color": one.tone}, className="shape", **aria(hidden="true"))
    look = f"swatch hatch-{HATCH_CLASSES.get(one.hatch, 'solid')}"
    return html.Span(className=look, style={"--tone": one.tone}, **aria(hidden="true"))


def figure(
    id_: str,
    drawn: go.Figure,
    label: str,
    height: int,
    *,
    keys: Sequence[Key] = (),
    text: Component | None = None,
) -> Component:
    """Return a figure `height` px high. `label` describes it in a sentence; `text` below it has the same content."""
    drawn.update_layout(
        height=height,
        uirevision=id_,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12},
        hoverlabel={"font": {"family": "system-ui, sans-serif", "size": 12}},
        showlegend=drawn.layout.showlegend or False,
        dragmode=drawn.layout.dragmode or "zoom",
    )
    graph = dcc.Graph(id=id_, figure=drawn)
    picture = html.Div(graph, role="img", className="picture", **aria(label=label))
    above = [key_of(keys)] if keys else []
    return html.Figure([*above, picture, *([text] if text is not None else [])])


def time_axis(from_ms: int, until_ms: int, **more: Any) -> dict[str, Any]:
    """Return an x axis of times, UTC; `moments` turns epoch ms into its values."""
    return {
        "type": "date",
        "range": moments([from_ms, until_ms]),
        "showgrid": True,
        "zeroline": False,
        "tickformatstops": [
            {"dtickrange": [None, 60_000], "value": "%H:%M:%S"},
            {"dtickrange": [60_000, 86_400_000], "value": "%H:%M\n%-d %b"},
            {"dtickrange": [86_400_000, None], "value": "%-d %b"},
        ],
        **more,
    }


def moments(times_ms: list[int]) -> list[str]:
    """Return epoch ms as Plotly's dates, which have no zone; the board means UTC."""
    return [iso(ms).removesuffix("Z") for ms in times_ms]
