"""Lanes and bars of figures over time: named, tinted and hatched, so that a word in a bar is read in grey, too."""

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.text.visible_text import visible_name

WIDEST_PX = 1_150
"""A figure's time is drawn over no more than this."""

CHARACTER_PX = 6

LONGEST_NAME = 20
"""Characters of a lane's name; of a longer one the middle is left out."""


def plain(text: str) -> str:
    """Plotly reads a few tags, and entities, in its texts; a client's name must be neither."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def lane_name(name: str) -> str:
    """The name as a tick of the axis."""
    name = visible_name(name)  # before it is cut, for it gets longer
    return plain(name if len(name) <= LONGEST_NAME else f"{name[:8]}…{name[9 - LONGEST_NAME :]}")


def lane_axis(names: Sequence[str]) -> dict[str, Any]:
    """A y axis of one lane a name, the first on top."""
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
    """The room that the lanes' names take, px. Plotly would measure each: that takes longer than to draw them."""
    longest = max((min(len(visible_name(name)), LONGEST_NAME) for name in names), default=0)
    return max(60, round(longest * 6.3) + 12)


def fitting(text: str, share: float) -> str:
    """The text where it may fit into this share of the figure's width, else none: Plotly takes 0.6 ms to try each."""
    return text if len(text) * CHARACTER_PX <= share * WIDEST_PX else ""


def tint(tone: str, strength: float = 0.16) -> str:
    """The tone, `#rrggbb`, as a film over what is behind it."""
    red, green, blue = (int(tone[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {strength})"


def hatched(tone: str, shape: str) -> dict[str, Any]:
    """A plotly marker; `shape` is plotly's pattern shape, empty for none."""
    film = tint(tone, 0.16 if shape else 0.1)
    pattern = {"shape": shape, "fillmode": "replace", "fgcolor": tone, "bgcolor": film, "size": 9, "solidity": 0.14}
    return {"color": film, "line": {"width": 1, "color": tone}, "pattern": pattern}
