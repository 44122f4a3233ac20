"""The bands of the history: one lane per queue, one hatched bar per verdict; incidents and members above."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import plotly.graph_objects as go
from dash.development.base_component import Component

from streaming.board.drawing.change_table import COMING_WORDS, describe_changes
from streaming.board.drawing.counts import counted
from streaming.board.drawing.figures import AMBER, BLUE, GREEN, GREY, PURPLE, RED, figure, moments, time_axis
from streaming.board.drawing.lanes import fitting, hatched, lane_axis, left_margin, plain
from streaming.board.drawing.verdicts import VERDICTS
from streaming.board.queries.queue_times import Coming, Span, Times
from streaming.board.url.parameters import href
from streaming.text.times import clock
from udfs.alerts.prose import some
from udfs.groups.queue_state import OK

TONES = {
    "UNOWNED": RED,
    "NOT_CONSUMED": RED,
    "DOUBLE_CONSUMED": AMBER,
    "MISPLACED": AMBER,
    "UNKNOWN": PURPLE,
    "NOT_JUDGED": GREY,
    "OK": GREEN,
}

MOST_BARS = 300
"""Above this number, bars of one verdict are joined across owners, then the oldest are not drawn."""

LANE_PX = 22
MARGIN = {"t": 8, "b": 40, "r": 14}
LEAST_SHARE = 1 / 400

Link = Callable[[int], str]
"""Return the link to the page at a time."""


def begins_at(times: Times) -> int:
    """Return the left end of the time axis in px, where the slider begins too."""
    return left_margin([*(span.queue for span in times.spans), *(one.kind for one in times.incidents)])


def band_figure(times: Times, at_ms: int | None, link: Link) -> Component:
    """Return the figure with a lane per queue below those of incidents and members. Its label counts the changes."""
    queues = list(dict.fromkeys((span.topic, span.queue) for span in times.spans))
    incidents = list(times.incidents)
    lanes = [*(one.kind for one in incidents), "members", *(queue for _, queue in queues)]
    place = {name: number for number, name in enumerate(queues, len(incidents) + 1)}
    drawn = go.Figure()
    if incidents:
        drawn.add_trace(_incidents(times))
    for change, symbol in (
        ("JOINED", "triangle-up"),
        ("CHANGED", "diamond"),
        ("LEFT", "triangle-down"),
        ("EXPIRED", "x"),
    ):
        comings = [one for one in times.comings if one.change == change]
        if comings:
            drawn.add_trace(_members(change, symbol, comings, len(incidents), link))
    bars = _bars(times)
    for verdict in VERDICTS:
        chosen = [span for span in bars if span.verdict == verdict]
        if chosen:
            drawn.add_trace(_bands(verdict, chosen, place, times, link))
    drawn.update_layout(
        barmode="overlay",
        margin={**MARGIN, "l": begins_at(times)},
        xaxis=time_axis(times.from_ms, times.until_ms, tickangle=0, ticklabeloverflow="allow"),
        yaxis=lane_axis(lanes),
        uniformtext={"minsize": 10, "mode": "hide"},
        bargap=0.1,
    )
    if at_ms is not None:
        (x,) = moments([at_ms])
        drawn.add_shape(type="line", x0=x, x1=x, yref="paper", y0=0, y1=1, line={"width": 2, "color": BLUE})
    of_all = f" of {times.lanes:,}" if len(queues) < times.lanes else ""
    label = (
        f"{counted(len(queues), 'queue')}{of_all} from {clock(times.from_ms, times.until_ms)} to "
        f"{clock(times.until_ms, times.until_ms)} UTC: {describe_changes(times)}. The table below lists them."
    )
    return figure("bands", drawn, label, MARGIN["t"] + MARGIN["b"] + LANE_PX * len(lanes))


def _bars(times: Times) -> list[Span]:
    """Return the spans to draw: all if there are few, else one per verdict, at most the newest MOST_BARS."""
    if len(times.spans) <= MOST_BARS:
        return list(times.spans)
    merged = []
    for (topic, queue, verdict), group in groupby(times.spans, lambda span: (span.topic, span.queue, span.verdict)):
        newest, *older = group
        start_ms = older[-1].start_ms if older else newest.start_ms
        owner = newest.planned_owner if not older else None
        merged.append(Span(topic, queue, start_ms, newest.end_ms, verdict, owner, newest.observed_owners))
    return sorted(merged, key=lambda span: (span.verdict == OK, -span.end_ms))[:MOST_BARS]


def _bands(verdict: str, spans: Sequence[Span], place: dict[tuple[str, str], int], times: Times, link: Link) -> go.Bar:
    tone = TONES[verdict]
    least_ms = round((times.until_ms - times.from_ms) * LEAST_SHARE)
    return go.Bar(
        **_bar(tone, VERDICTS[verdict].hatch),
        name=verdict,
        y=[place[span.topic, span.queue] for span in spans],
        base=moments([span.start_ms for span in spans]),
        x=[max(span.end_ms - span.start_ms, least_ms) for span in spans],
        width=0.84,
        text=[_word(span, times.until_ms - times.from_ms) for span in spans],
        hovertext=[_hover(span, times.until_ms) for span in spans],
        customdata=[link(span.start_ms) for span in spans],
    )


def _word(span: Span, time_ms: int) -> str:
    """Return the owner for OK, else the verdict; empty if it does not fit."""
    word = (span.planned_owner or "") if span.verdict == OK else span.verdict
    return plain(fitting(word, (span.end_ms - span.start_ms) / time_ms))


def _bar(tone: str, hatch: str) -> dict[str, Any]:
    """Return the layout of a bar, with its text at its start."""
    return {
        "orientation": "h",
        "marker": hatched(tone, hatch),
        "textposition": "inside",
        "insidetextanchor": "start",
        "textangle": 0,
        "hoverinfo": "text",
    }


def _hover(span: Span, now_ms: int) -> str:
    planned = span.planned_owner or "none"
    seen = some(span.observed_owners, 3) if span.observed_owners else "no client"
    return (
        f"<b>{plain(span.queue)} {plain(span.verdict)}</b>"
        f"<br>{clock(span.start_ms, now_ms)} to {clock(span.end_ms, now_ms)}"
        f"<br>planned owner: {plain(planned)}<br>consumed by: {plain(seen)}"
    )


def _incidents(times: Times) -> go.Bar:
    starts = [max(one.start_ms, times.from_ms) for one in times.incidents]
    least_ms = round((times.until_ms - times.from_ms) * LEAST_SHARE)
    ends = [one.end_ms or max(one.start_ms, times.known_until_ms) for one in times.incidents]
    return go.Bar(
        **_bar(BLUE, ""),
        name="incident",
        y=list(range(len(starts))),
        base=moments(starts),
        x=[max(end - start, least_ms) for start, end in zip(starts, ends, strict=True)],
        width=0.84,
        text=[plain(one.state) for one in times.incidents],
        hovertext=[plain(f"{one.kind}, {one.state}") for one in times.incidents],
        customdata=[href("/incident", {"id": one.incident_id}) for one in times.incidents],
    )


def _members(change: str, symbol: str, comings: Sequence[Coming], lane: int, link: Link) -> go.Scatter:
    return go.Scatter(
        name=change,
        mode="markers",
        x=moments([one.time_ms for one in comings]),
        y=[lane] * len(comings),
        marker={"symbol": symbol, "size": 10, "color": GREEN if change == "JOINED" else GREY},
        hovertext=[f"{plain(some(one.client_ids, 3))} {COMING_WORDS[change]}" for one in comings],
        hoverinfo="text",
        customdata=[link(one.time_ms) for one in comings],
    )
