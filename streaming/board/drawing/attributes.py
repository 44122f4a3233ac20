"""ARIA and data attributes, whose names are not valid in Python: `html.Nav(links, **aria(label="Pages"))`."""

from typing import Any


def aria(**named: str) -> dict[str, Any]:
    """Return `label="Pages"` as `aria-label`."""
    return {f"aria-{name}": value for name, value in named.items()}


def data(**named: str) -> dict[str, Any]:
    """Return `ms="5"` as `data-ms`."""
    return {f"data-{name}": value for name, value in named.items()}
