"""The band of an incident's states over time, with marks for membership changes."""

from collections.abc import Sequence

import plotly.graph_objects as go
from dash.development.base_component import Component

from streaming.board.drawing import figures
from streaming.board.drawing.elements import STATE_SHAPES
from streaming.board.drawing.lanes import plain
from streaming.board.queries.extent import extent_of
from streaming.history.story import IncidentStory, Step
from streaming.text.times import clock, span

HATCHES = {"PENDING": ".", "UNKNOWN": "x", "RECOVERING": "\\", "FIRING": "", "RESOLVED": ""}
HEIGHT_PX = 128


def band(story: IncidentStory, now_ms: int, known_until_ms: int) -> Component:
    """Return the band, which ends with the incident or with the data.

    The axis begins at the first sign, or at a membership change shortly before, and ends with the band.
    """
    end = story.ended_ms or max(known_until_ms, story.changed_ms)
    shown_ms = [story.started_ms, *(step.at_ms for step in story.steps), *(one.at_ms for one in story.members), end]
    from_ms, until_ms = extent_of(story.from_ms, max(now_ms, end), shown_ms)
    drawn = go.Figure()
    steps = _merged(story.steps)
    keys: list[figures.Key] = []
    for number, step in enumerate(steps):
        until = steps[number + 1].at_ms if number + 1 < len(steps) else end
        if step.state == "RESOLVED" or until <= step.at_ms:
            continue
        key = _add_piece(drawn, step, until, is_inhibited=step.inhibited_by is not None)
        if key not in keys:
            keys.append(key)
    if story.members:
        _add_marks(
            drawn, "membership change", "diamond", figures.PURPLE, [one.at_ms for one in story.members], now_ms, 1.4
        )
        keys.append(figures.Key("membership change", figures.PURPLE, symbol="◆"))
    if story.ended_ms:
        _add_marks(drawn, "resolved", "square", figures.GREEN, [story.ended_ms], now_ms, 0.5)
        keys.append(figures.Key("resolved", figures.GREEN, symbol="■"))
    drawn.update_layout(
        barmode="overlay",
        margin={"l": 8, "r": 8, "t": 4, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"range": [-0.1, 1.9], "visible": False, "fixedrange": True},
    )
    return figures.figure("band", drawn, _describe(story, steps, now_ms), HEIGHT_PX, keys=keys)


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that changed the state or the inhibition."""
    kept: list[Step] = []
    for step in steps:
        if not kept or (kept[-1].state, kept[-1].inhibited_by is None) != (step.state, step.inhibited_by is None):
            kept.append(step)
    return kept


def _add_piece(drawn: go.Figure, step: Step, until_ms: int, *, is_inhibited: bool) -> figures.Key:
    tone = figures.GREY if is_inhibited else figures.STATE_TONES.get(step.state, figures.GREY)
    hatch = "/" if is_inhibited else HATCHES.get(step.state, "")
    name = f"{STATE_SHAPES.get(step.state, '·')} {step.state}" + (" (inhibited)" if is_inhibited else "")
    drawn.add_bar(
        orientation="h",
        name=name,
        y=[0.5],
        width=[0.9],
        base=figures.moments([step.at_ms]),
        x=[until_ms - step.at_ms],
        hovertext=[f"{plain(name)} for {span(until_ms - step.at_ms)}"],
        hovertemplate="%{hovertext}<extra></extra>",
        marker=figures.hatched(tone, hatch),
    )
    return figures.Key(name, tone, hatch)


def _add_marks(
    drawn: go.Figure, name: str, symbol: str, tone: str, times_ms: Sequence[int], now_ms: int, height: float
) -> None:
    drawn.add_scatter(
        x=figures.moments(list(times_ms)),
        y=[height] * len(times_ms),
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": 9, "color": tone},
        hovertext=[f"{plain(name)}, {clock(one, now_ms)}" for one in times_ms],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _describe(story: IncidentStory, steps: Sequence[Step], now_ms: int) -> str:
    reported = "; ".join(f"{step.state} at {clock(step.at_ms, now_ms)}" for step in steps[:20])
    return f"States of {story.kind} over time: {reported}. The story below lists them."
