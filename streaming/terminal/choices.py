"""Values of closed lists: kinds, severities and states, several with commas."""

from collections.abc import Sequence
from fnmatch import filter as matching

from streaming.terminal.command import fail
from streaming.text.suggestions import closest

MOST_CHARACTERS = 50

LIKENESS = 0.6
"""Least similarity of a suggested value."""


def choose(flag: str, text: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the values that comma-separated names and globs select. Leaves with 2 for one that selects none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        fail(f"{flag} {text!r}: choose one of {', '.join(values)}", code=2)
    chosen: list[str] = []
    for name in names:
        found = matching(values, name)
        if not found:
            near = closest(name, values, LIKENESS)
            hint = f"nearest: {', '.join(near)}; " if near else ""
            fail(f"{flag} {name[:MOST_CHARACTERS]!r}: {hint}choose one of {', '.join(values)}", code=2)
        chosen += found
    return tuple(dict.fromkeys(chosen))
