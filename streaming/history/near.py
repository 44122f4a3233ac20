"""Names that come near a name that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMED = 5


def near(name: str, known: Iterable[str]) -> str:
    """`; near it are orders and order-dlq`, what there is where nothing comes near, "" where there is nothing."""
    names = sorted(set(known))
    close = get_close_matches(name, names, MOST_NAMED, 0.5)
    if close:
        return f"; near it: {', '.join(close)}"
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; there is {', '.join(names[:MOST_NAMED])}{more}"
