"""The known names nearest to an unknown one."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from streaming.text.language import localize
from udfs.alerts.phrase import phrase

MOST_NAMED = 5


def closest(name: str, known: Collection[str], likeness: float = 0.5) -> list[str]:
    """Return at most MOST_NAMED known names, the nearest first; `likeness` is the minimum similarity, 0 to 1."""
    return get_close_matches(name, known, MOST_NAMED, likeness)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; nearest: orders, order-dlq`, the known names where none is near, or "" where none is known."""
    names = sorted(set(known))
    close = closest(name, names)
    if close:
        return localize(phrase("; nearest: {names}", names=", ".join(close)))
    if not names:
        return ""
    more = phrase(" and {number} more", number=len(names) - MOST_NAMED) if len(names) > MOST_NAMED else ""
    return localize(phrase("; known: {names}{more}", names=", ".join(names[:MOST_NAMED]), more=more))


def describe_choices(name: str, values: Sequence[str]) -> str:
    """Return `nearest: critical; choose one of critical, error`, for an unknown name of a closed list."""
    near = closest(name, values, 0.6)
    hint = localize(phrase("nearest: {names}; ", names=", ".join(near))) if near else ""
    return hint + localize(phrase("choose one of {names}", names=", ".join(values)))
