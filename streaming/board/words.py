"""Words and shapes of the pages: counts, states, verdicts worst first, and the labels of the times beside them.

A verdict becomes certain only after a silence has lasted long enough, so it is later than the beginning of its alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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

CERTAIN_SINCE = "when the data first proved the verdict; its alert may begin earlier, with the first sign"


@dataclass(frozen=True)
class Verdict:
    """One verdict. `tone` and `hatch` are those of its bars; the hatching distinguishes them without colour."""

    name: str
    shape: str
    tone: str
    hatch: str
    meaning: str


VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict(UNOWNED, "✖", "red", "cross", "no planned owner, and no client consumes it"),
        Verdict(
            NOT_CONSUMED, "○", "red", "slash", "no client consumes it, or its commits have stopped while messages wait"
        ),
        Verdict(DOUBLE_CONSUMED, "●●", "amber", "plus", "several clients consume it at the same time"),
        Verdict(MISPLACED, "◆", "amber", "backslash", "a client other than the planned owner consumes it"),
        Verdict(UNKNOWN, "?", "purple", "dots", "too little data to judge"),
        Verdict(
            NOT_JUDGED, "∅", "grey", "lines", "not assigned by clients (broadcasting, POP, gRPC, assign()), or deleted"
        ),
        Verdict(OK, "●", "green", "", "the planned owner consumes it"),
    )
}
"""Verdicts by name, worst first."""

RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(WORST_FIRST)}


def worst_first(names: Iterable[str]) -> list[str]:
    """Sort verdicts by WORST_FIRST; unknown ones last."""
    return sorted(names, key=lambda name: (RANK.get(name, len(RANK)), name))


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return `5 UNOWNED, 11 OK`: worst first, without zeros."""
    return ", ".join(f"{counts[name]:,} {name}" for name in worst_first(counts) if counts[name]) or "no queues"


def counted(number: int, noun: str) -> str:
    """Return `1 queue` or `10,000 queues`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def version_words(language: str | None, client_version: str | None) -> str:
    """Return `Java 4.9.8` for JAVA and V4_9_8."""
    release = (client_version or "").removeprefix("V").replace("_", ".")
    return " ".join(word for word in ((language or "").capitalize(), release) if word) or "unknown"
