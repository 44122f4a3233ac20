"""The known names nearest to an unknown one."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

MOST_NAMED = 5


def closest(name: str, known: Collection[str], likeness: float = 0.5) -> list[str]:
    """Return at most MOST_NAMED known names, the nearest first; `likeness` is the minimum similarity, 0 to 1."""
    return get_close_matches(name, known, MOST_NAMED, likeness)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; nearest: orders, order-dlq`, the known names where none is near, or "" where none is known."""
    names = sorted(set(known))
    close = closest(name, names)
    if close:
        return f"; nearest: {', '.join(close)}"
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; known: {', '.join(names[:MOST_NAMED])}{more}"


def describe_choices(name: str, values: Sequence[str]) -> str:
    """Return `nearest: critical; choose one of critical, error`, for an unknown name of a closed list."""
    near = closest(name, values, 0.6)
    hint = f"nearest: {', '.join(near)}; " if near else ""
    return f"{hint}choose one of {', '.join(values)}"
