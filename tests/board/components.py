"""What a page says, out of its HTML: text, links, and elements by name and id."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
"""Elements without an end."""


@dataclass(eq=False)
class Element:
    """One element of a page."""

    name: str
    attributes: dict[str, str]
    children: "list[Element | str]" = field(default_factory=list)

    def __getitem__(self, attribute: str) -> str:
        return self.attributes[attribute]

    def get(self, attribute: str) -> str:
        return self.attributes.get(attribute, "")


class _Reader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.top = Element("", {})
        self._open = [self.top]
        self.feed(html)
        assert self._open == [self.top], [element.name for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), names
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, (self._open[-1], tag)
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def read_html(html: str) -> Element:
    """The elements of a page. Fails where one is not closed."""
    return _Reader(html).top


def walk(node: Element) -> Iterator[Element]:
    """Yield the element and every one in it, in the order of the page."""
    yield node
    for child in node.children:
        if isinstance(child, Element):
            yield from walk(child)


def text_of(node: Element | str) -> str:
    """All text, that of different elements apart by one space."""
    if isinstance(node, str):
        return " ".join(node.split())
    return " ".join(" ".join(text_of(child) for child in node.children).split())


def links_of(node: Element) -> list[str]:
    """Where the links lead."""
    return [element["href"] for element in walk(node) if element.name == "a"]


def by_id(node: Element, id_: str) -> Element:
    """The element with this id; fails when there is none."""
    return next(element for element in walk(node) if element.get("id") == id_)


def rows_of(node: Element, table_id: str) -> list[Element]:
    """Rows of a table's body."""
    (body,) = (element for element in walk(by_id(node, table_id)) if element.name == "tbody")
    return [child for child in body.children if isinstance(child, Element)]


def cells_of(row: Element) -> list[Element]:
    return [child for child in row.children if isinstance(child, Element)]


def head_of(page: Element) -> Element:
    """The heading with what follows it on its line."""
    return next(element for element in walk(page) if element.get("class") == "heading")
