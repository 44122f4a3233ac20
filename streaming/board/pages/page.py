"""A page of the board: a name, a path, `read(view)` to a value, and `draw(value)` to Dash components.

Rules for every page:

- `read` queries the tables and the URL and returns a frozen dataclass with all values of the page, no component. `draw`
  turns that value into components and uses no table, URL or clock. Both run after every change of the tables and once
  a minute, for every viewer, possibly in several threads at once.
- `draw` returns `html` components, `dcc.Graph` and `dcc.Input` (any type, including `range`). assets/body.js renders
  them, one React element each, because Dash would mount all of them anew at every change. The first is
  `elements.heading`.
- Siblings that can move (rows, cards, options) have an `id`, which keeps their node, focus and scroll position.
- The URL holds every choice (filter, time, queue), so a link reproduces the page. Links are `elements.link(...)`, forms
  `elements.form(...)`; a select or a range in a form with method="get" submits on change. `view.asked` has the
  parameters. A click on a figure's point whose `customdata` is a path follows it.
- Figures come from `figures.figure(...)`: they follow the theme by CSS and keep their zoom.
- A query parameter that cannot be used raises AskedError in `read`; the board shows its message.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dash.development.base_component import Component

from schemas.tables import TABLES
from streaming.store.store import History

Value = TypeVar("Value")


@dataclass(frozen=True)
class View:
    """Inputs of a page: the tables as of one refresh, the URL's parameters, and the time."""

    history: History
    asked: Mapping[str, str]
    """Query parameters of the URL, the last of each name; values are at most 512 characters."""
    now_ms: int
    stale_ms: int = 120_000
    """Age from which data are stale (board.stale_seconds)."""
    newest_ms: int | None = None
    """Time of the newest row, at most `now_ms`; None if unknown."""
    runbooks_url: str = "/runbooks"
    """Base URL of the runbooks."""

    @property
    def is_stale(self) -> bool:
        """Whether the data are stale."""
        return self.newest_ms is not None and self.now_ms - self.newest_ms > self.stale_ms

    @property
    def known_until_ms(self) -> int:
        """End of the data: now, or the newest row of stale data. Open incidents are drawn up to it."""
        return self.known_within(self.now_ms)

    def known_within(self, until_ms: int) -> int:
        """Return the end of the data for a period that ends at `until_ms`."""
        return self.newest_ms if self.newest_ms is not None and self.is_stale else until_ms


@dataclass(frozen=True)
class Page(Generic[Value]):
    """One page. `nav` is its label in the navigation; None hides it there."""

    name: str
    path: str
    title: str
    read: Callable[[View], Value]
    draw: Callable[[Value], Component]
    nav: str | None = None
    parameters: frozenset[str] = field(default_factory=frozenset)
    """Allowed query parameters; any other is an error."""
    tables: frozenset[str] = frozenset(TABLES)
    """Tables that the page reads; it shows a notice for unreadable rows of these."""
    back: tuple[str, str] | None = None
    """Text and path of the link shown with a URL error; None links to this page without parameters."""

    def body(self, view: View) -> Component:
        """Return the components of the page."""
        return self.draw(self.read(view))
