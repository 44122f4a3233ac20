"""Verdicts of queues: word, shape, hatching and meaning, worst first."""

from collections.abc import Mapping
from dataclasses import dataclass

from dash import html

from streaming.board.drawing.elements import mark
from streaming.board.queries.verdict_order import worst_first
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED


@dataclass(frozen=True)
class Verdict:
    """One verdict. `hatch` is Plotly's pattern, which distinguishes bands without colour."""

    name: str
    shape: str
    hatch: str
    meaning: str


VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict(UNOWNED, "✖", "x", "no planned owner, and no client consumes it"),
        Verdict(NOT_CONSUMED, "○", "/", "no client consumes it, or its commits have stopped while messages wait"),
        Verdict(DOUBLE_CONSUMED, "●●", "+", "several clients consume it at the same time"),
        Verdict(MISPLACED, "◆", "\\", "a client other than the planned owner consumes it"),
        Verdict(UNKNOWN, "?", ".", "too little data to judge"),
        Verdict(NOT_JUDGED, "∅", "-", "not assigned by clients (broadcasting, POP, gRPC, assign()), or deleted"),
        Verdict(OK, "●", "", "the planned owner consumes it"),
    )
}
"""Verdicts by name, worst first."""


def verdict_mark(name: str, number: int | None = None) -> html.Span:
    """Return the verdict as shape and word, with the number of queues if given."""
    known = VERDICTS.get(name)
    words = name if number is None else f"{number:,} {name}"
    return mark(known.shape if known else "·", words, f"verdict-{name.lower()}")


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return `5 UNOWNED, 11 OK`: worst first, without zeros."""
    return ", ".join(f"{counts[name]:,} {name}" for name in worst_first(counts) if counts[name]) or "no queues"


def version_words(language: str | None, client_version: str | None) -> str:
    """Return `Java 4.9.8` for JAVA and V4_9_8."""
    release = (client_version or "").removeprefix("V").replace("_", ".")
    return " ".join(word for word in ((language or "").capitalize(), release) if word) or "unknown"
