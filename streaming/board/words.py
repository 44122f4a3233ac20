"""Words and shapes of the pages: counts, states, verdicts worst first, and the labels of the times beside them.

A verdict becomes certain only after a silence has lasted long enough, so it is later than the beginning of its alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.text import times
from streaming.text.language import gettext, localize
from udfs.alerts.phrase import Phrase, Words, phrase
from udfs.groups.queue_state import (
    DOUBLE_CONSUMED,
    MISPLACED,
    NOT_CONSUMED,
    NOT_JUDGED,
    OK,
    UNKNOWN,
    UNOWNED,
    WORST_FIRST,
)

STATE_SHAPES = {"FIRING": "▲", "PENDING": "◷", "RECOVERING": "▽", "RESOLVED": "✓", "UNKNOWN": "?"}

OUTCOMES = {
    "DELIVERED": ("✓", "state-resolved"),
    "PENDING": ("◷", "state-pending"),
    "RETRYING": ("▽", "state-pending"),
    "REFUSED": ("✖", "state-firing"),
    "SILENCED": ("◌", "muted"),
    "INHIBITED": ("⤷", "muted"),
    "LIMITED": ("≡", "muted"),
    "NO_ROUTE": ("∅", "muted"),
}
"""Outcome of a notification to its shape and look."""

CERTAIN_SINCE = phrase("when the data first proved the verdict; its alert may begin earlier, with the first sign")


@dataclass(frozen=True)
class Verdict:
    """One verdict. `tone` and `hatch` are those of its bars; the hatching distinguishes them without colour."""

    name: str
    shape: str
    tone: str
    hatch: str
    meaning: Words


VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict(UNOWNED, "✖", "red", "cross", phrase("no planned owner, and no client consumes it")),
        Verdict(
            NOT_CONSUMED,
            "○",
            "red",
            "slash",
            phrase("no client consumes it, or its commits have stopped while messages wait"),
        ),
        Verdict(DOUBLE_CONSUMED, "●●", "amber", "plus", phrase("several clients consume it at the same time")),
        Verdict(MISPLACED, "◆", "amber", "backslash", phrase("a client other than the planned owner consumes it")),
        Verdict(UNKNOWN, "?", "purple", "dots", phrase("too little data to judge")),
        Verdict(
            NOT_JUDGED,
            "∅",
            "grey",
            "lines",
            phrase("not assigned by clients (broadcasting, POP, gRPC, assign()), or deleted"),
        ),
        Verdict(OK, "●", "green", "", phrase("the planned owner consumes it")),
    )
}
"""Verdicts by name, worst first."""

RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(WORST_FIRST)}


def worst_first(names: Iterable[str]) -> list[str]:
    """Sort verdicts by WORST_FIRST; unknown ones last."""
    return sorted(names, key=lambda name: (RANK.get(name, len(RANK)), name))


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return `5 UNOWNED, 11 OK`: worst first, without zeros."""
    return ", ".join(f"{counts[name]:,} {name}" for name in worst_first(counts) if counts[name]) or gettext("no queues")


def counted(number: int, noun: str) -> str:
    """Return `1 queue` or `10,000 queues`."""
    template = f"{{number}} {noun}{'' if number == 1 else 's'}"
    return localize(Phrase(template, {"number": f"{number:,}"}))


def version_words(language: str | None, client_version: str | None) -> str:
    """Return `Java 4.9.8` for JAVA and V4_9_8."""
    release = (client_version or "").removeprefix("V").replace("_", ".")
    return " ".join(word for word in ((language or "").capitalize(), release) if word) or gettext("unknown")


UNITS = {"s": phrase("{number} s"), "min": phrase("{number} min"), "h": phrase("{number} h"), "d": phrase("{number} d")}


def span(ms: int) -> str:
    """Return `3 h 20 min`; every age and duration of a page comes from here or from `span` of board.js."""
    numbers = times.span(ms).split(" ")
    return " ".join(
        localize(UNITS[unit].given(number=number)) for number, unit in zip(numbers[::2], numbers[1::2], strict=True)
    )


def ago(ms: int) -> str:
    """Return `12 s ago`; `now` within a second; `in 3 min` for a future time."""
    if ms <= -times.SECOND:
        return localize(phrase("in {span}", span=span(-ms)))
    return localize(phrase("{span} ago", span=span(ms)) if ms >= times.SECOND else phrase("now"))
