"""The drawn part of a period: from before the first event in it to after the last."""

from collections.abc import Iterable

MARGIN = 40
"""Divisor: the margin on either side is this part of the time between first and last."""

LEAST_MARGIN_MS = 30_000


def extent_of(from_ms: int, until_ms: int, times_ms: Iterable[int]) -> tuple[int, int]:
    """Return the part of [from_ms, until_ms] with these times and a margin; all of it without times."""
    known = [min(max(ms, from_ms), until_ms) for ms in times_ms]
    if not known:
        return from_ms, until_ms
    margin_ms = max(LEAST_MARGIN_MS, (max(known) - min(known)) // MARGIN)
    return max(from_ms, min(known) - margin_ms), min(until_ms, max(known) + margin_ms)
