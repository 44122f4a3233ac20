"""What pages are built of: links, times, states as word and shape, tables, panels. Each keeps the board's manners.

A state is never a colour alone; a table has a caption and scopes; a time has its ISO form, UTC, on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from streaming.board.drawing.attributes import aria, data
from streaming.board.url.parameters import href
from streaming.text.times import ago, clock, iso

Child = Component | str | int | float | None
Children = Child | Sequence[Child]

STATE_SHAPES = {
    "FIRING": "▲",
    "PENDING": "◷",
    "RECOVERING": "▽",
    "RESOLVED": "✓",
    "UNKNOWN": "?",
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its stable name, its cells, and the class that marks it."""

    key: str
    cells: Sequence[Children]
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and `number`, `name`, `wide` or `narrow` where its cells are laid out so."""

    heading: str
    shape: str = ""


def link(text: Children, path: str, /, **asked: str | int | None) -> html.A:
    """A link within the board. The script follows it without loading the page again."""
    return html.A(text, href=href(path, asked))


def age(ms: int | None, now_ms: int) -> Component:
    """ "12 s ago", which goes on counting in the browser, with the moment itself on it."""
    if ms is None:
        return html.Span("never", className="muted")
    return html.Time(ago(now_ms - ms), dateTime=iso(ms), title=iso(ms), className="age", **data(ms=str(ms)))


def moment(ms: int | None, now_ms: int) -> Component:
    """The clock time, UTC, with the day where it is not today's."""
    if ms is None:
        return html.Span("-", className="muted")
    return html.Time(clock(ms, now_ms), dateTime=iso(ms), title=iso(ms), className="moment")


def state(name: str) -> html.Span:
    """The state of an incident: shape and word."""
    return mark(STATE_SHAPES.get(name, "·"), name, f"state-{name.lower()}")


def mark(shape: str, word: str, look: str = "") -> html.Span:
    """A word with a shape before it, which a screen reader passes over."""
    return html.Span([html.Span(shape, className="shape", **aria(hidden="true")), word], className=f"mark {look}")


def severity(name: str) -> html.Span:
    """How bad it is, as a word."""
    return html.Span(name, className=f"severity severity-{name}")


def code(text: Child) -> html.Code:
    """A name out of RocketMQ or of our tables, or a line to type."""
    return html.Code(text)


def heading(text: Children, *beside: Child) -> html.Div:
    """The page's only h1, with what stands beside it. The browser's title is its text."""
    return html.Div([html.H1(text, id="title", tabIndex=-1), *beside], className="heading")


def panel(id_: str, title: str, *children: Child, note: Children = None, look: str = "") -> html.Section:
    """A titled part of a page."""
    head = html.Div([html.H2(title, id=f"{id_}-title"), html.Span(note, className="note")], className="panel-head")
    return html.Section([head, *children], id=id_, className=f"panel {look}".strip(), **aria(labelledby=f"{id_}-title"))


def empty(*children: Child) -> html.P:
    """What is said where there is nothing to show."""
    return html.P(list(children), className="empty")


def notice(look: str, title: str, *children: Child, id_: str = "notice") -> html.Div:
    """A box that is read first: `error`, `stale`, `calm` or `hint`."""
    shapes = {"error": "✖", "stale": "◷", "calm": "✓", "hint": "i"}
    shape = html.Span(shapes[look], className="shape", **aria(hidden="true"))
    return html.Div(
        [html.P([shape, html.Strong(title)]), *children],
        id=id_,
        className=f"notice notice-{look}",
        role="alert" if look == "error" else None,
    )


def table(id_: str, caption: str, columns: Iterable[Column | str], rows: Iterable[Row]) -> html.Div:
    """A table in a box of its own that scrolls sideways; the first cell of a row names it."""
    known = [Column(one) if isinstance(one, str) else one for one in columns]
    head = html.Thead(html.Tr([html.Th(one.heading, scope="col", className=one.shape or None) for one in known]))
    body = html.Tbody([_row(id_, row, known) for row in rows])
    return html.Div(
        html.Table([html.Caption(caption), head, body], id=id_),
        className="scroll",
        tabIndex=0,
        role="region",
        **aria(label=caption),
    )


def _row(id_: str, row: Row, columns: Sequence[Column]) -> html.Tr:
    cells: list[Component] = []
    for number, (cell, column) in enumerate(zip(row.cells, columns, strict=True)):
        look = column.shape or None
        cells.append(html.Td(cell, className=look) if number else html.Th(cell, scope="row", className=look))
    return html.Tr(cells, id=f"{id_}-{row.key}", className=row.mark or None)


@dataclass(frozen=True)
class Choice:
    """A field of a form with a list to choose from: values with their words; the first is "any"."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    value: str = ""


@dataclass(frozen=True)
class Entry:
    """A field of a form to type into."""

    name: str
    label: str
    value: str = ""
    placeholder: str = ""
    size: int = 12


@dataclass(frozen=True)
class Form:
    """A form whose answers become the URL's parameters; `kept` go along unseen."""

    id: str
    path: str
    label: str
    fields: Sequence[Choice | Entry]
    kept: dict[str, str] = field(default_factory=dict)
    button: str = "Show"


def form(of: Form) -> html.Form:
    """The form, usable by keyboard; choosing from a list shows at once, typing when Enter is pressed."""
    return html.Form(
        [*(_field(of.id, one) for one in of.fields), html.Button(of.button, type="submit")],
        id=of.id,
        action=href(of.path, of.kept),
        method="get",
        role="search",
        className="filters",
        **aria(label=of.label),
    )


def _field(form_id: str, one: Choice | Entry) -> html.Label:
    id_ = f"{form_id}-{one.name}"
    if isinstance(one, Entry):
        control: Any = dcc.Input(
            id=id_,
            name=one.name,
            value=one.value,
            placeholder=one.placeholder,
            size=str(one.size),
            maxLength=200,
            type="text",
            autoComplete="off",
            debounce=True,
        )
    else:
        options = [html.Option(word, value=value, selected=value == one.value) for value, word in one.options]
        control = html.Select(options, id=id_, name=one.name)
    return html.Label([html.Span(one.label), control], htmlFor=id_, className="field")
