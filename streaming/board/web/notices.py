"""What is said under the heading of any page: that its data are old, or that rows of its tables cannot be read.

Rows that break their table's contract are in no view, so that each page says so of the tables that it tells of.
"""

from collections.abc import Collection, Mapping

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.pages.page import View
from streaming.text.times import span


def stale_notice(view: View) -> Component | None:
    """Where nothing new came for `stale_ms`."""
    if not view.is_stale or view.newest_ms is None:
        return None
    return el.notice(
        "stale",
        f"No data for {span(view.now_ms - view.newest_ms)}: what is shown is old.",
        html.P(
            [
                "The newest row is of ",
                el.moment(view.newest_ms, view.now_ms),
                ". Is ",
                el.code("balancewatch run"),
                " up, and do events reach Kafka?",
            ]
        ),
        id_="stale",
    )


def left_out_notice(left_out: Mapping[str, int], tables: Collection[str]) -> Component | None:
    """How many rows of which of these tables cannot be read; None where all can."""
    counts = {name: number for name, number in sorted(left_out.items()) if name in tables}
    if not counts:
        return None
    rows = " and ".join(f"{counted(number, 'row')} of {name}" for name, number in counts.items())
    return el.notice(
        "stale",
        f"{rows} cannot be read and {'is' if sum(counts.values()) == 1 else 'are'} left out.",
        html.P(
            "They break their table's contract, as rows of a damaged or forged file do. All others are shown; what "
            "these would tell is missing here, and in the answers of the commands."
        ),
        id_="unreadable",
    )


def with_notices(body: Component, *notices: Component | None) -> Component:
    """The page, with what is to be said of all of it after its heading."""
    said = [notice for notice in notices if notice is not None]
    parts = getattr(body, "children", None)
    if not said:
        return body
    if not isinstance(parts, list):
        return html.Div([body, *said])
    body.children = [*parts[:1], *said, *parts[1:]]
    return body
