"""What came of one expectation on one sample, as a row of `quality` tells it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.expectations import Expectation, Suite, holds
from streaming.quality.sample import Sample

PLACES = 5
"""Examples of what is unexpected: so many values and so many places."""

MOST_CHARACTERS = 100


Count = tuple[str, str, str]
"""Topic, expectation, and `rows` (looked at, with a value) or `unexpected` (of them)."""


@dataclass(frozen=True)
class Outcome:
    """`rows` counts those with a value, `unexpected` those of them that are not as expected; in the sample.

    `read_rows` and `read_unexpected` count the same as the query read it, None where nobody looked.
    """

    suite: str
    expectation: Expectation
    is_success: bool
    rows: int
    unexpected: int
    observed: tuple[Any, ...] = ()
    places: tuple[str, ...] = ()
    read_rows: int | None = None
    read_unexpected: int | None = None

    @property
    def share(self) -> float:
        """Of the unexpected, in the sample or as it was read, whichever is worse."""
        pairs = ((self.unexpected, self.rows), (self.read_unexpected or 0, self.read_rows or 0))
        return max(unexpected / rows if rows else 0.0 for unexpected, rows in pairs)

    def as_read(self, rows: int, unexpected: int) -> "Outcome":
        """With what was counted on the hot path; it holds where both do."""
        is_success = self.is_success and holds(self.expectation.mostly, rows, unexpected)
        return replace(self, is_success=is_success, read_rows=rows, read_unexpected=unexpected)


def as_read(outcomes: Iterable[Outcome], topic: str, counts: Mapping[Count, int]) -> tuple[Outcome, ...]:
    """The outcomes, those of the topic's events with what the query counted of them, where it counted."""
    return tuple(
        one.as_read(counts[topic, one.expectation.name, "rows"], counts[topic, one.expectation.name, "unexpected"])
        if one.suite == topic and (topic, one.expectation.name, "rows") in counts
        else one
        for one in outcomes
    )


def with_places(outcome: Outcome, readings: Iterable[Mapping[str, Any]], topic: str) -> Outcome:
    """The outcome with examples: what was found, and where, as topic-partition@offset."""
    column = outcome.expectation.column
    found: dict[str, Any] = {}
    for row in readings:
        value = row.get(column)
        if value is not None and not outcome.expectation.is_expected(value):
            found.setdefault(f"{topic}-{row['partition']}@{row['offset']}", value)
            if len(found) == PLACES:
                break
    return replace(outcome, observed=tuple(dict.fromkeys(found.values())), places=tuple(found))


def rows_of(
    outcomes: Sequence[Outcome], suites: Mapping[str, Suite], sample: Sample, query: str | None, validated_ms: int
) -> list[dict[str, Any]]:
    """Rows of the table `quality`, times in epoch ms."""
    return [
        {
            "suite": one.suite,
            "expectation": one.expectation.name,
            "topic": suites[one.suite].topic,
            "severity": one.expectation.severity.value,
            "success": one.is_success,
            "rows": one.rows,
            "unexpected": one.unexpected,
            "unexpected_share": one.share,
            "read_rows": one.read_rows,
            "read_unexpected": one.read_unexpected,
            "says": str(one.expectation),
            "observed": [_short(value) for value in one.observed],
            "places": list(one.places),
            "offsets": json.dumps(sample.spans, sort_keys=True),
            "query": query,
            "validated_at": validated_ms,
        }
        for one in outcomes
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
