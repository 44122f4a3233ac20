"""An incident's states over time as one band, with marks where members changed: the shape of its story."""

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
    """The band ends when the incident does, or where the data end, which is now unless they are old.

    The axis begins at the first sign, or where members changed shortly before, and ends with the band.
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
        key = _add_piece(drawn, step, until, is_explained=step.inhibited_by is not None)
        if key not in keys:
            keys.append(key)
    if story.members:
        _add_marks(
            drawn, "members change", "diamond", figures.PURPLE, [one.at_ms for one in story.members], now_ms, 1.4
        )
        keys.append(figures.Key("members change", figures.PURPLE, symbol="◆"))
    if story.ended_ms:
        _add_marks(drawn, "over", "square", figures.GREEN, [story.ended_ms], now_ms, 0.5)
        keys.append(figures.Key("over", figures.GREEN, symbol="■"))
    drawn.update_layout(
        barmode="overlay",
        margin={"l": 8, "r": 8, "t": 4, "b": 40},
        xaxis=figures.time_axis(from_ms, until_ms),
        yaxis={"range": [-0.1, 1.9], "visible": False, "fixedrange": True},
    )
    return figures.figure("band", drawn, _say(story, steps, now_ms), HEIGHT_PX, keys=keys)


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Steps that changed the state or whether it is explained."""
    kept: list[Step] = []
    for step in steps:
        if not kept or (kept[-1].state, kept[-1].inhibited_by is None) != (step.state, step.inhibited_by is None):
            kept.append(step)
    return kept


def _add_piece(drawn: go.Figure, step: Step, until_ms: int, *, is_explained: bool) -> figures.Key:
    tone = figures.GREY if is_explained else figures.STATE_TONES.get(step.state, figures.GREY)
    hatch = "/" if is_explained else HATCHES.get(step.state, "")
    name = f"{STATE_SHAPES.get(step.state, '·')} {step.state}" + (" (explained)" if is_explained else "")
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


def _say(story: IncidentStory, steps: Sequence[Step], now_ms: int) -> str:
    reported = "; ".join(f"{step.state} at {clock(step.at_ms, now_ms)}" for step in steps[:20])
    return f"States of {story.kind} over time: {reported}. The story below says the same."
