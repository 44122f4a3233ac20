"""Data that are old say so on every page: one notice under the heading, whatever the page shows."""

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.page import View
from streaming.board.times import span


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
