"""Labels of the times that a page shows side by side: when an alert began, and since when a verdict is certain.

A verdict becomes certain only after a silence has lasted long enough, so it is later than the beginning of its alert.
"""

from streaming.board.queries.verdict_order import WRONG


def began_words(kind: str) -> str:
    """Return the label of an alert's beginning."""
    return "not consumed since" if kind == "starved_queue" else "began"


def verdict_since_words(verdict: str) -> str:
    """Return the label of a verdict's time."""
    return "certain since" if verdict in WRONG else "since"
