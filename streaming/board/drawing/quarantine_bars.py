"""The chart of quarantined messages over time, stacked by topic and reason, each with its own hatching."""

from collections.abc import Sequence

import plotly.graph_objects as go
from dash.development.base_component import Component

from streaming.board.drawing import figures
from streaming.board.drawing.lanes import plain
from streaming.board.queries.quality import BINS, Rejected

TONES = (figures.RED, figures.BLUE, figures.AMBER, figures.PURPLE, figures.GREEN, figures.GREY)
HATCHES = ("", "/", ".", "x", "\\", "-")
HEIGHT_PX = 220


def bars(rejected: Sequence[Rejected], from_ms: int, until_ms: int) -> Component:
    """Return the chart: one colour per topic and reason; after six, colours repeat with another hatching."""
    step = (until_ms - from_ms) / BINS
    middles = figures.moments([round(from_ms + (number + 0.5) * step) for number in range(BINS)])
    highest = max((sum(counts) for counts in zip(*(one.counts for one in rejected), strict=True)), default=0)
    drawn = go.Figure()
    keys = []
    for number, one in enumerate(rejected):
        tone, hatch = TONES[number % len(TONES)], HATCHES[(number + number // len(TONES)) % len(HATCHES)]
        name = f"{one.topic}: {one.reason}"
        keys.append(figures.Key(name, tone, hatch))
        drawn.add_bar(
            x=middles,
            y=list(one.counts),
            width=step * 0.85,
            name=name,
            hovertemplate="%{x|%H:%M, %-d %b}: %{y}<extra>" + plain(name) + "</extra>",
            marker=figures.hatched(tone, hatch),
        )
    drawn.update_layout(
        barmode="stack",
        margin={"l": 44, "r": 8, "t": 8, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"rangemode": "tozero", "tickformat": ",d", "fixedrange": True, "dtick": max(1, -(-highest // 4))},
    )
    label = f"Messages quarantined over time, by {len(rejected)} topics and reasons; the table below has the totals."
    return figures.figure("quarantined", drawn, label, HEIGHT_PX, keys=keys)
