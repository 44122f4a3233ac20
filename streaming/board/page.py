"""A page of the board: `read(view)` returns its value, a template of the same name shows it, `/api` returns it as JSON.

Rules for every page:

- `read` queries the tables and the URL and returns all values of the page. It runs after
  every change of the tables and once a minute, for every viewer, possibly in several threads at once.
- The template shows the value as `page`. `draw` may derive more from the value, such as a chart; it uses no table, URL
  or clock. The first element is `parts.heading`.
- Elements that can move (rows, cards) have an `id`, which keeps their node, focus and scroll position.
- The URL holds every choice (filter, time, queue), so a link reproduces the page. `view.asked` has the parameters. One
  that cannot be used raises AskedError in `read`; the board shows its message.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from schemas.tables import TABLES
from streaming.board import words
from streaming.board.url import href
from streaming.relay.mutes import Mute
from streaming.store.current import read_silences
from streaming.store.store import History
from streaming.text.language import LANGUAGE, gettext, listed, localize, ngettext
from streaming.text.times import clock, iso
from streaming.text.visible_text import visible
from udfs.alerts.phrase import Words, some_of
from udfs.alerts.prose import runs_of
from udfs.alerts.silence import MUTED_BY, Quiet, pick_silence
from udfs.alerts.static_labels import LabelRules, describe_labels, pick_static_labels
from udfs.groups.queue_state import WRONG
from udfs.groups.verdict_reason import VERDICT_REASONS


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
    labels: LabelRules = ()
    """Rules of static labels."""
    mutes: Sequence[Mute] = ()
    """Mutes of the settings."""
    can_write: bool = False
    """Whether the page may offer to acknowledge and silence (board.write)."""
    author: str = ""
    """Name that the viewer gave last, on pages that ask for it."""

    @property
    def is_stale(self) -> bool:
        return self.newest_ms is not None and self.now_ms - self.newest_ms > self.stale_ms

    @cached_property
    def quiets(self) -> Sequence[Quiet]:
        """Silences of the table, ended ones too, and mutes of the settings."""
        return [*read_silences(self.history), *self.mutes]

    def labelled(self, incident: Mapping[str, Any]) -> dict[str, Any]:
        """Return the incident as silences match it: with its static labels, too."""
        return {**pick_static_labels(self.labels, incident), **incident}

    def with_silences(self, incidents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the incidents with `silence`: the active one that covers it and ends last, or None."""
        return [{**row, "silence": pick_silence(self.quiets, self.labelled(row), self.now_ms)} for row in incidents]

    @property
    def known_until_ms(self) -> int:
        """End of the data: now, or the newest row of stale data. Open incidents are drawn up to it."""
        return self.known_within(self.now_ms)

    def known_within(self, until_ms: int) -> int:
        """Return the end of the data for a period that ends at `until_ms`."""
        return self.newest_ms if self.newest_ms is not None and self.is_stale else until_ms


@dataclass(frozen=True, eq=False)
class Page:
    """One page; its template is `name`.html. `nav` is its label in the navigation; None hides it there."""

    name: str
    path: str
    title: Words
    read: Callable[[View], Mapping[str, Any]]
    draw: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    nav: Words | None = None
    parameters: frozenset[str] = field(default_factory=frozenset)
    """Allowed query parameters; any other is an error."""
    tables: frozenset[str] = frozenset(TABLES)
    """Tables that the page reads; it shows a notice for unreadable rows of these."""
    back: tuple[Words, str] | None = None
    """Text and path of the link shown with a URL error; None links to this page without parameters."""
    takes_author: bool = False
    """Whether the page has a field with the viewer's name."""

    def body(self, view: View) -> str:
        value = self.read(view)
        left_out = {name: number for name, number in sorted(view.history.left_out.items()) if name in self.tables}
        return render(f"{self.name}.html", view.now_ms, page=value, view=view, left_out=left_out, **self.draw(value))


def render(template: str, now_ms: int, **values: Any) -> str:
    """Return a template's HTML. Characters that are invisible or turn the direction of reading are written out."""
    return visible(ENVIRONMENT.get_template(template).render(now_ms=now_ms, **values))


def as_json(value: Any) -> str:
    """Return a page's value as JSON: dataclasses as objects, epoch ms as numbers, bytes as text with escapes."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return dict(value) if isinstance(value, Mapping) else str(value)


ENVIRONMENT = Environment(
    loader=PackageLoader("streaming.board"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    auto_reload=False,
    extensions=["jinja2.ext.i18n"],
)
ENVIRONMENT.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]  # of the extension
ENVIRONMENT.filters |= {
    "ago": words.ago,
    "clock": clock,
    "iso": iso,
    "span": words.span,
    "counted": words.counted,
    "counts": words.describe_counts,
    "number": "{:,}".format,
    "percent": "{:.0%}".format,
    "worst_first": words.worst_first,
    "command": shlex.join,
    "queues": lambda queues: listed(runs_of(queues)),
    "labels": describe_labels,
    "some": lambda names, limit: listed(some_of(names, limit)),
    "words": listed,
    "local": localize,
    "translated": gettext,
    "version": words.version_words,
}
ENVIRONMENT.globals |= {
    "link": href,
    "STATES": words.STATE_SHAPES,
    "OUTCOMES": words.OUTCOMES,
    "MUTED_BY": MUTED_BY,
    "VERDICTS": words.VERDICTS,
    "WRONG": WRONG,
    "REASONS": VERDICT_REASONS,
    "language": LANGUAGE.get,
}
