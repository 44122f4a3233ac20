"""Notices under the heading of any page: stale data, and unreadable rows of its tables.

The views leave out rows that violate their table's schema; each page says so for the tables that it reads.
"""

from collections.abc import Collection, Mapping

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.pages.page import View
from streaming.text.times import span


def stale_notice(view: View) -> Component | None:
    """Return the notice of data older than `stale_ms`."""
    if not view.is_stale or view.newest_ms is None:
        return None
    return el.notice(
        "stale",
        f"Stale data: the newest row is {span(view.now_ms - view.newest_ms)} old.",
        html.P(
            [
                "No data since ",
                el.moment(view.newest_ms, view.now_ms),
                ". Check that ",
                el.code("balancewatch run"),
                " is up and that events reach Kafka.",
            ]
        ),
        id_="stale",
    )


def left_out_notice(left_out: Mapping[str, int], tables: Collection[str]) -> Component | None:
    """Return the notice of unreadable rows in these tables; None if there are none."""
    counts = {name: number for name, number in sorted(left_out.items()) if name in tables}
    if not counts:
        return None
    rows = " and ".join(f"{counted(number, 'row')} of {name}" for name, number in counts.items())
    return el.notice(
        "stale",
        f"{rows} cannot be read and {'is' if sum(counts.values()) == 1 else 'are'} left out.",
        html.P(
            "They violate their table's schema, as rows of a damaged or forged file do. This page and the commands "
            "show all other rows."
        ),
        id_="unreadable",
    )


def with_notices(body: Component, *notices: Component | None) -> Component:
    """Return the page with notices after its heading."""
    shown = [notice for notice in notices if notice is not None]
    parts = getattr(body, "children", None)
    if not shown:
        return body
    if not isinstance(parts, list):
        return html.Div([body, *shown])
    body.children = [*parts[:1], *shown, *parts[1:]]
    return body
