"""ARIA and data attributes, whose names are no Python names: `html.Nav(links, **aria(label="Pages"))`."""

from typing import Any


def aria(**named: str) -> dict[str, Any]:
    """`label="Pages"` as `aria-label`."""
    return {f"aria-{name}": value for name, value in named.items()}


def data(**named: str) -> dict[str, Any]:
    """`ms="5"` as `data-ms`."""
    return {f"data-{name}": value for name, value in named.items()}
