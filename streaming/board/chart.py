"""Charts over time as values: bars, marks and ticks in percent of the time axis. chart.html draws them as SVG.

Colours are classes of the style sheet, so that charts follow the theme. A bar has a hatching, a word or a shape besides
its colour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streaming.text.times import DAY, HOUR, MINUTE, SECOND, to_time
from streaming.text.visible_text import visible_name

RED, AMBER, GREEN, BLUE, PURPLE, GREY = "red", "amber", "green", "blue", "purple", "grey"
"""Tones. Each has a contrast of at least 3:1 on white and on near-black."""

HATCHES = ("", "slash", "backslash", "dots", "cross", "lines", "plus")

STEPS_MS = (
    *(number * SECOND for number in (1, 2, 5, 10, 15, 30)),
    *(number * MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * HOUR for number in (1, 2, 3, 6, 12)),
    *(number * DAY for number in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
)
"""Distances of ticks."""

MOST_TICKS, MOST_MINOR_TICKS = 8, 60
"""Minor ticks are shown while the chart is zoomed."""

WIDEST_PX = 1_150
CHARACTER_PX = 6
LONGEST_NAME = 20
"""Characters of a lane's name; longer names lose their middle."""


@dataclass(frozen=True)
class Key:
    """One line of a chart's key: a tone with a hatching or a symbol, and its name in English."""

    name: str
    tone: str
    hatch: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Bar:
    """A bar from `x`, `width` wide, in percent; `y` and `height` in px. `href` is where a click leads.

    `strength` is the opacity of a solid bar; 0 for an outlined one with a tint.
    """

    x: float
    width: float
    y: float
    height: float
    tone: str
    hatch: str = ""
    name: str = ""
    title: str = ""
    text: str = ""
    href: str = ""
    strength: float = 0.0


@dataclass(frozen=True)
class Mark:
    """A symbol with its middle at `x` percent, `y` px."""

    x: float
    y: float
    symbol: str
    tone: str
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Tick:
    """A line across the chart at `x` percent, with its label. `look` is a CSS class: minor, or second of two major."""

    x: float
    text: str
    look: str = ""


@dataclass(frozen=True)
class Axis:
    from_ms: int
    until_ms: int

    def x(self, time_ms: float) -> float:
        """Return the place of a time in percent."""
        return (time_ms - self.from_ms) * 100 / max(self.until_ms - self.from_ms, 1)

    def span(self, start_ms: float, end_ms: float, least_share: float = 0.0) -> tuple[float, float]:
        """Return place and width in percent of a time within the axis, at least `least_share` wide."""
        least = 100 * least_share
        start = min(max(self.x(start_ms), 0.0), 100 - least)
        return start, max(min(self.x(end_ms), 100.0) - start, least)

    def ticks(self) -> list[Tick]:
        """Return major ticks at round times, and minor ones between them."""
        time_ms = max(self.until_ms - self.from_ms, 1)
        major = next((step for step in STEPS_MS if time_ms / step <= MOST_TICKS), STEPS_MS[-1])
        minor = next((step for step in STEPS_MS if time_ms / step <= MOST_MINOR_TICKS and major % step == 0), major)
        ticks = []
        for at_ms in range(-(-self.from_ms // minor) * minor, self.until_ms + 1, minor):
            is_minor = at_ms % major != 0
            look = "minor" if is_minor else "second" if at_ms // major % 2 else ""
            step_ms = minor if is_minor else major
            words = "%-d %b" if step_ms >= DAY or at_ms % DAY == 0 else "%H:%M:%S" if step_ms < MINUTE else "%H:%M"
            ticks.append(Tick(self.x(at_ms), f"{to_time(at_ms):{words}}", look))
        return ticks


@dataclass(frozen=True)
class Chart:
    """A chart `height` px high without its axis. `label` describes it in a sentence.

    names    of lanes, with their middle in px; shown left of the bars
    labels   text at the left edge, with its middle in px
    levels   heights with their numbers, for a chart of counts
    at       a vertical line, in percent
    """

    id: str
    label: str
    height: int
    axis: Axis
    bars: Sequence[Bar] = ()
    marks: Sequence[Mark] = ()
    keys: Sequence[Key] = ()
    names: Sequence[tuple[float, str]] = ()
    labels: Sequence[tuple[float, str]] = ()
    levels: Sequence[tuple[float, str]] = ()
    at: float | None = None

    @property
    def names_px(self) -> int:
        longest = max((len(name) for _, name in (*self.names, *self.levels)), default=0)
        return 0 if not longest else max(40, round(longest * 7) + 12)

    @property
    def patterns(self) -> list[tuple[str, str]]:
        return sorted({(bar.hatch, bar.tone) for bar in self.bars if bar.hatch})


def lane_name(name: str) -> str:
    """Return the name as it is shown beside a lane."""
    name = visible_name(name)  # before the cut, since it gets longer
    return name if len(name) <= LONGEST_NAME else f"{name[:8]}…{name[9 - LONGEST_NAME :]}"


def fitting(text: str, width: float) -> str:
    """Return the text if it may fit into this width in percent, else "". Chinese characters take two places."""
    places = len(text) + sum(one >= "\u2e80" for one in text)
    return text if places * CHARACTER_PX <= width * WIDEST_PX / 100 else ""


def runs(values: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return runs of equal values that are not 0: the first index, the index after the last, and the value."""
    found: list[tuple[int, int, int]] = []
    for number, value in enumerate(values):
        if found and found[-1][1:] == (number, value):
            found[-1] = (found[-1][0], number + 1, value)
        elif value:
            found.append((number, number + 1, value))
    return found
