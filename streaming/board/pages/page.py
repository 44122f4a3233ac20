"""What a page of the board is: a name, a path, `read(view)` to a value, and `draw(value)` to Dash components.

The contract that every page keeps:

- `read` asks the tables and the URL, and returns a frozen dataclass that is all the page shows; it makes no component.
  `draw` turns that value into components; it asks no table, no URL and no clock. Both run again whenever the tables
  have changed, once a minute besides, and for every viewer; they may run in several threads at once.
- `draw` returns `html` components, `dcc.Graph` and `dcc.Input` (any type, `range` too); assets/body.js renders them
  itself, one React element each, because Dash would mount all of it anew at every change. The first is
  `elements.heading`.
- What can move among its siblings (rows, cards, options) has an `id`, its key: its node, focus and scroll then stay.
- Whatever a person chooses (a filter, a moment, a queue) stands in the URL, so that a link says it all: links are
  `elements.link(...)`, forms `elements.form(...)`; a select or a range in a form with method="get" sends it when it
  changes. What a page is asked comes back in `view.asked`. A figure's point whose `customdata` is a path leads there.
- Figures come from `figures.figure(...)`: they follow the theme by CSS and keep their zoom.
- A query parameter that cannot be used raises AskedError in `read`; the board shows its sentence.
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
    """What a page may know: the tables as of one refresh, what the URL asks, and the time."""

    history: History
    asked: Mapping[str, str]
    """Query parameters of the URL, the last of each name; values are at most 512 characters."""
    now_ms: int
    stale_ms: int = 120_000
    """Data older than this count as old (board.stale_seconds)."""
    newest_ms: int | None = None
    """When the query wrote last, at most `now_ms`; None where that is not known."""
    runbooks_url: str = "/runbooks"
    """What the names of the runbooks follow."""

    @property
    def is_stale(self) -> bool:
        """Whether what the tables say is old."""
        return self.newest_ms is not None and self.now_ms - self.newest_ms > self.stale_ms

    @property
    def known_until_ms(self) -> int:
        """Until when the tables tell anything: now, or where the data end. What is drawn as lasting ends there."""
        return self.known_within(self.now_ms)

    def known_within(self, until_ms: int) -> int:
        """The same of a time that is drawn up to `until_ms`."""
        return self.newest_ms if self.newest_ms is not None and self.is_stale else until_ms


@dataclass(frozen=True)
class Page(Generic[Value]):
    """One page. `nav` is its word in the navigation; None keeps it out."""

    name: str
    path: str
    title: str
    read: Callable[[View], Value]
    draw: Callable[[Value], Component]
    nav: str | None = None
    parameters: frozenset[str] = field(default_factory=frozenset)
    """Query parameters that it understands; another one is refused in a sentence."""
    tables: frozenset[str] = frozenset(TABLES)
    """Those it tells of: what cannot be read of them is said on it."""

    def body(self, view: View) -> Component:
        """What is read, drawn."""
        return self.draw(self.read(view))
