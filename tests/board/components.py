"""What a page says, out of its components: text, links, and the components of a kind."""

from collections.abc import Iterator
from typing import Any

from dash.development.base_component import Component


def walk(node: Any) -> Iterator[Component]:
    """Every component, in the order of the page."""
    if isinstance(node, Component):
        yield node
        yield from walk(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        for one in node:
            yield from walk(one)


def text_of(node: Any) -> str:
    """All text, words apart by one space."""
    if node is None:
        return ""
    if isinstance(node, list | tuple):
        return " ".join(" ".join(map(text_of, node)).split())
    return text_of(getattr(node, "children", None)) if isinstance(node, Component) else str(node)


def links_of(node: Any) -> list[str]:
    return [one.href for one in walk(node) if type(one).__name__ == "A"]


def by_id(node: Any, id_: str) -> Component:
    """The component with this id; fails when there is none."""
    return next(one for one in walk(node) if getattr(one, "id", None) == id_)
