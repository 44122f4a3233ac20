"""Links to the previous and next page of a long list, and how much of it a page shows."""

from collections.abc import Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria
from streaming.board.drawing.counts import counted
from streaming.board.url.parameters import href
from streaming.board.url.slices import Slice


def describe_slice(of: Slice[Any], noun: str) -> str:
    """Return `100 of 10,000 queues`, or `16 queues` if all are shown."""
    shown = f"{len(of.items):,} of " if len(of.items) < of.total else ""
    return f"{shown}{counted(of.total, noun)}"


def page_links(of: Slice[Any], path: str, asked: Mapping[str, str], label: str) -> Component:
    """Return a navigation, empty for a single page."""
    if of.pages == 1:
        return html.Div()
    links: list[el.Child] = [html.Span(f"Page {of.page:,} of {of.pages:,}", className="muted")]
    if of.page > 1:
        links.insert(0, html.A("← Previous", href=href(path, asked, page=of.page - 1 if of.page > 2 else None)))
    if of.page < of.pages:
        links.append(html.A("Next →", href=href(path, asked, page=of.page + 1)))
    return html.Nav(links, className="pager", **aria(label=label))
