"""How much of a time is drawn: a timeline begins before the first thing in it and ends after the last."""

from collections.abc import Iterable

MARGIN = 40
"""The margin on either side is this part of what lies between the first and the last."""

LEAST_MARGIN_MS = 30_000


def extent_of(from_ms: int, until_ms: int, times_ms: Iterable[int]) -> tuple[int, int]:
    """The part of [from_ms, until_ms] that holds these moments, a margin around it; all of it where there are none."""
    known = [min(max(ms, from_ms), until_ms) for ms in times_ms]
    if not known:
        return from_ms, until_ms
    margin_ms = max(LEAST_MARGIN_MS, (max(known) - min(known)) // MARGIN)
    return max(from_ms, min(known) - margin_ms), min(until_ms, max(known) + margin_ms)
