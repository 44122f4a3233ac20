"""Stretches of time, in ms, end excluded: joined, and where several overlap."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """From `start_ms` up to `end_ms`; None: it had not ended when the logs did."""

    start_ms: int
    end_ms: int | None

    def lasted_ms(self, now_ms: int) -> int:
        return (now_ms if self.end_ms is None else self.end_ms) - self.start_ms

    def overlaps(self, start_ms: int, end_ms: int | None) -> bool:
        """Whether it shares a moment with [start_ms, end_ms)."""
        return (end_ms is None or self.start_ms < end_ms) and (self.end_ms is None or self.end_ms > start_ms)


def joined(spans: Iterable[Span], gap_ms: int = 0) -> list[Span]:
    """The same, those up to `gap_ms` apart as one, by start."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start_ms):
        last = found[-1] if found else None
        if last is None or (last.end_ms is not None and span.start_ms > last.end_ms + gap_ms):
            found.append(span)
        elif last.end_ms is not None and (span.end_ms is None or span.end_ms > last.end_ms):
            found[-1] = Span(last.start_ms, span.end_ms)
    return found


def shared(owners: Iterable[Sequence[Span]], least: int = 2) -> list[Span]:
    """Where `least` owners or more have a span; the spans of one owner do not overlap, and all have ended."""
    edges = sorted((edge, step) for spans in owners for span in spans for edge, step in _edges(span))
    found: list[Span] = []
    count, start_ms = 0, 0
    for time_ms, step in edges:
        if step > 0 and count + 1 == least:
            start_ms = time_ms
        if step < 0 and count == least and time_ms > start_ms:
            found.append(Span(start_ms, time_ms))
        count += step
    return joined(found)


def between(spans: Sequence[Span], start_ms: int, end_ms: int) -> list[Span]:
    """The gaps of [start_ms, end_ms) that `spans`, joined before, leave; one that reaches the end has none itself."""
    found: list[Span] = []
    at_ms = start_ms
    for span in spans:
        if span.start_ms > at_ms:
            found.append(Span(at_ms, span.start_ms))
        at_ms = max(at_ms, end_ms if span.end_ms is None else span.end_ms)
    return [*found, Span(at_ms, None)] if at_ms < end_ms else found


def before(spans: Iterable[Span], ends: Sequence[Span]) -> list[Span]:
    """Each up to where one of `ends` begins; those that begin within one are left out."""
    found: list[Span] = []
    for span in spans:
        if any(end.overlaps(span.start_ms, span.start_ms + 1) for end in ends):
            continue
        starts = [end.start_ms for end in ends if end.overlaps(span.start_ms, span.end_ms)]
        found.append(Span(span.start_ms, min(starts)) if starts else span)
    return found


def _edges(span: Span) -> list[tuple[int, int]]:
    assert span.end_ms is not None
    return [(span.start_ms, 1), (span.end_ms, -1)]
