"""Names that come near a name that is not there."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

MOST_NAMED = 5


def closest(name: str, known: Collection[str], likeness: float = 0.5) -> list[str]:
    """The most alike first, at most MOST_NAMED of them; `likeness` from 0 to 1 is the least."""
    return get_close_matches(name, known, MOST_NAMED, likeness)


def suggest(name: str, known: Iterable[str]) -> str:
    """`; near it are orders and order-dlq`, what there is where nothing comes near, "" where there is nothing."""
    names = sorted(set(known))
    close = closest(name, names)
    if close:
        return f"; near it: {', '.join(close)}"
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; there is {', '.join(names[:MOST_NAMED])}{more}"
