"""A queue's verdict as people see it: its word, its shape, its hatching, and what it means; worst first."""

from collections.abc import Mapping
from dataclasses import dataclass

from dash import html

from streaming.board.drawing.elements import mark
from streaming.board.queries.verdict_order import worst_first
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED


@dataclass(frozen=True)
class Verdict:
    """`hatch` is plotly's pattern, so that bands are told apart in grey; `letter` stands where a word does not fit."""

    name: str
    shape: str
    letter: str
    hatch: str
    meaning: str


VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict(UNOWNED, "✖", "S", "x", "nobody is meant to consume it, and nobody does"),
        Verdict(NOT_CONSUMED, "○", "s", "/", "somebody is meant to consume it, and nobody does"),
        Verdict(DOUBLE_CONSUMED, "●●", "D", "+", "two clients consume it side by side"),
        Verdict(MISPLACED, "◆", "M", "\\", "another client than the one that is meant to consumes it"),
        Verdict(UNKNOWN, "?", "?", ".", "too little was seen to say"),
        Verdict(NOT_JUDGED, "∅", "-", "-", "not shared out by clients (broadcasting, POP, gRPC, assign()), or deleted"),
        Verdict(OK, "●", "", "", "who is meant to consume it does"),
    )
}
"""In the order in which they are looked at."""


def verdict_mark(name: str, number: int | None = None) -> html.Span:
    """The verdict as shape and word, with the number of queues where it is given."""
    known = VERDICTS.get(name)
    words = name if number is None else f"{number:,} {name}"
    return mark(known.shape if known else "·", words, f"verdict-{name.lower()}")


def describe_counts(counts: Mapping[str, int]) -> str:
    """`5 UNOWNED, 11 OK`: worst first, without those that are none."""
    return ", ".join(f"{counts[name]:,} {name}" for name in worst_first(counts) if counts[name]) or "no queues"


def version_words(language: str | None, client_version: str | None) -> str:
    """`Java 4.9.8` of JAVA and V4_9_8."""
    release = (client_version or "").removeprefix("V").replace("_", ".")
    return " ".join(word for word in ((language or "").capitalize(), release) if word) or "not told"
