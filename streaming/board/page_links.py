"""Links to the pages before and after, of a list that does not fit on one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import href, read_number
from streaming.board.attributes import aria
from streaming.board.counts import counted

Item = TypeVar("Item")


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """One page of a list; `page` counts from 1 and is the last one where the URL asks for more."""

    items: Sequence[Item]
    page: int
    pages: int
    whole: int

    def tell(self, noun: str) -> str:
        """`100 of 10,000 queues`, or `16 queues` where that is all."""
        shown = f"{len(self.items):,} of " if len(self.items) < self.whole else ""
        return f"{shown}{counted(self.whole, noun)}"


def slice_of(items: Sequence[Item], asked: Mapping[str, str], size: int) -> Slice[Item]:
    """The page that `page` asks for. Raises AskedError."""
    pages = max(1, -(-len(items) // size))
    page = min(read_number(asked, "page", 1, 1, 1_000_000), pages)
    return Slice(items[(page - 1) * size : page * size], page, pages, len(items))


def page_links(of: Slice[Item], path: str, asked: Mapping[str, str], label: str) -> Component:
    """A navigation of its own, or nothing where there is one page."""
    if of.pages == 1:
        return html.Div()
    links: list[el.Child] = [html.Span(f"Page {of.page:,} of {of.pages:,}", className="muted")]
    if of.page > 1:
        links.insert(0, html.A("← Before", href=href(path, asked, page=of.page - 1 if of.page > 2 else None)))
    if of.page < of.pages:
        links.append(html.A("Next →", href=href(path, asked, page=of.page + 1)))
    return html.Nav(links, className="pager", **aria(label=label))
