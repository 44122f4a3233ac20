"""Lanes and bars of figures over time: names, tints and hatchings that are readable without colour."""

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.text.visible_text import visible_name

WIDEST_PX = 1_150
"""Greatest width of a figure's time axis."""

CHARACTER_PX = 6

LONGEST_NAME = 20
"""Characters of a lane's name; longer names lose their middle."""


def plain(text: str) -> str:
    """Escape a text for Plotly, which interprets some tags and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def lane_name(name: str) -> str:
    """Return the name as a tick of the axis."""
    name = visible_name(name)  # before the cut, since it gets longer
    return plain(name if len(name) <= LONGEST_NAME else f"{name[:8]}…{name[9 - LONGEST_NAME :]}")


def lane_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return a y axis with one lane per name, the first on top."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [lane_name(name) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "tickfont": {"size": 11},
        "ticklabeloverflow": "allow",
    }


def left_margin(names: Iterable[str]) -> int:
    """Return the width of the lanes' names in px. Plotly would measure each, which takes longer than drawing them."""
    longest = max((min(len(visible_name(name)), LONGEST_NAME) for name in names), default=0)
    return max(60, round(longest * 6.3) + 12)


def fitting(text: str, share: float) -> str:
    """Return the text if it may fit into this share of the figure's width, else "". Plotly takes 0.6 ms to try each."""
    return text if len(text) * CHARACTER_PX <= share * WIDEST_PX else ""


def tint(tone: str, strength: float = 0.16) -> str:
    """Return the tone `#rrggbb` as a transparent colour."""
    red, green, blue = (int(tone[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {strength})"


def hatched(tone: str, shape: str) -> dict[str, Any]:
    """Return a Plotly marker; `shape` is Plotly's pattern, empty for none."""
    film = tint(tone, 0.16 if shape else 0.1)
    pattern = {"shape": shape, "fillmode": "replace", "fgcolor": tone, "bgcolor": film, "size": 9, "solidity": 0.14}
    return {"color": film, "line": {"width": 1, "color": tone}, "pattern": pattern}
