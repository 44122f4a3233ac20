"""What came of one expectation on one sample, as a row of `quality` tells it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.expectations import Expectation, Suite
from streaming.quality.sample import Sample

MOST_OFFSETS = 5
"""Examples of what is unexpected: so many values, and as many offsets where they stand."""

MOST_CHARACTERS = 100


@dataclass(frozen=True)
class Outcome:
    """`evaluated` counts those with a value, `unexpected` those of them that are not as expected; in the sample."""

    suite: str
    expectation: Expectation
    is_success: bool
    evaluated: int
    unexpected: int
    observed: tuple[Any, ...] = ()
    sample_offsets: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the unexpected, 0 to 1."""
        return self.unexpected / self.evaluated if self.evaluated else 0.0


def with_sample_offsets(outcome: Outcome, readings: Iterable[Mapping[str, Any]], topic: str) -> Outcome:
    """The outcome with examples: what was found, and where, as topic-partition@offset."""
    column = outcome.expectation.column
    found: dict[str, Any] = {}
    for row in readings:
        value = row.get(column)
        if value is not None and not outcome.expectation.is_expected(value):
            found.setdefault(f"{topic}-{row['partition']}@{row['offset']}", value)
            if len(found) == MOST_OFFSETS:
                break
    return replace(outcome, observed=tuple(dict.fromkeys(found.values())), sample_offsets=tuple(found))


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
            "evaluated": one.evaluated,
            "unexpected": one.unexpected,
            "unexpected_share": one.share,
            "description": str(one.expectation),
            "observed": [_short(value) for value in one.observed],
            "sample_offsets": list(one.sample_offsets),
            "offsets": json.dumps(sample.spans, sort_keys=True),
            "query": query,
            "validated_at": validated_ms,
        }
        for one in outcomes
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
