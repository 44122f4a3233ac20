"""Building blocks of pages: links, times, states, tables, panels, forms.

A state has a word and a shape besides its colour. A table has scopes and a caption for screen readers. A time carries
its ISO form, UTC.
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
    """A row of a table: its stable key, its cells, and a CSS class."""

    key: str
    cells: Sequence[Children]
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the layout of its cells: `number`, `name`, `wide` or `narrow`."""

    heading: str
    shape: str = ""


def link(text: Children, path: str, /, **asked: str | int | None) -> html.A:
    """Return a link within the board, which the script follows without a page load."""
    return html.A(text, href=href(path, asked))


def age(ms: int | None, now_ms: int) -> Component:
    """Return "12 s ago", which the browser keeps counting, with the time itself as title."""
    if ms is None:
        return html.Span("never", className="muted")
    return html.Time(ago(now_ms - ms), dateTime=iso(ms), title=iso(ms), className="age", **data(ms=str(ms)))


def moment(ms: int | None, now_ms: int) -> Component:
    """Return the clock time, UTC, with the day unless it is today."""
    if ms is None:
        return html.Span("-", className="muted")
    return html.Time(clock(ms, now_ms), dateTime=iso(ms), title=iso(ms), className="moment")


def state(name: str) -> html.Span:
    """Return an incident's state as shape and word."""
    return mark(STATE_SHAPES.get(name, "·"), name, f"state-{name.lower()}")


def mark(shape: str, word: str, look: str = "") -> html.Span:
    """Return a word after a shape that screen readers skip."""
    return html.Span([html.Span(shape, className="shape", **aria(hidden="true")), word], className=f"mark {look}")


def severity(name: str) -> html.Span:
    """Return the severity as a word."""
    return html.Span(name, className=f"severity severity-{name}")


def code(text: Child) -> html.Code:
    """Return a name of RocketMQ or of a table, or a command line."""
    return html.Code(text)


def heading(text: Children, *beside: Child) -> html.Div:
    """Return the page's only h1 and what follows it on the line. Its text is the browser's title."""
    return html.Div([html.H1(text, id="title", tabIndex=-1), *beside], className="heading")


def panel(id_: str, title: str, *children: Child, note: Children = None, look: str = "") -> html.Section:
    """Return a titled part of a page."""
    head = html.Div([html.H2(title, id=f"{id_}-title"), html.Span(note, className="note")], className="panel-head")
    return html.Section([head, *children], id=id_, className=f"panel {look}".strip(), **aria(labelledby=f"{id_}-title"))


def empty(*children: Child) -> html.P:
    """Return the text of an empty part."""
    return html.P(list(children), className="empty")


def notice(look: str, title: str, *children: Child, id_: str = "notice") -> html.Div:
    """Return a highlighted box: `error`, `stale`, `calm` or `hint`."""
    shapes = {"error": "✖", "stale": "◷", "calm": "✓", "hint": "i"}
    shape = html.Span(shapes[look], className="shape", **aria(hidden="true"))
    return html.Div(
        [html.P([shape, html.Strong(title)]), *children],
        id=id_,
        className=f"notice notice-{look}",
        role="alert" if look == "error" else None,
    )


def table(id_: str, caption: str, columns: Iterable[Column | str], rows: Iterable[Row]) -> html.Div:
    """Return a table in a box that scrolls sideways. `caption` is for screen readers."""
    known = [Column(one) if isinstance(one, str) else one for one in columns]
    head = html.Thead(html.Tr([html.Th(one.heading, scope="col", className=one.shape or None) for one in known]))
    body = html.Tbody([_row(id_, row, known) for row in rows])
    return html.Div(
        html.Table([html.Caption(caption, className="unseen"), head, body], id=id_),
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
    """A select field of a form: values with their labels; the first means "any"."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    value: str = ""


@dataclass(frozen=True)
class Entry:
    """A text field of a form."""

    name: str
    label: str
    value: str = ""
    placeholder: str = ""
    size: int = 12


@dataclass(frozen=True)
class Form:
    """A form whose fields become URL parameters; `kept` are hidden parameters."""

    id: str
    path: str
    label: str
    fields: Sequence[Choice | Entry]
    kept: dict[str, str] = field(default_factory=dict)
    button: str = "Apply"


def form(of: Form) -> html.Form:
    """Return the form. A select applies at once, a text field on Enter."""
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
