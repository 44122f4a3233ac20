"""Figures out of samples: medians with their spread, and percentiles by nearest rank."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spread:
    """The median of several runs, with the lowest and the highest."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of `count` samples; 0 of none."""

    count: int
    p50: float
    p95: float
    max: float


def spread_of(samples: Sequence[float]) -> Spread:
    return Spread(statistics.median(samples), min(samples), max(samples))


def percentiles_of(samples: Iterable[float]) -> Percentiles:
    ordered = sorted(samples)
    if not ordered:
        return Percentiles(0, 0, 0, 0)
    ranks = [ordered[max(0, math.ceil(len(ordered) * share) - 1)] for share in (0.5, 0.95)]
    return Percentiles(len(ordered), ranks[0], ranks[1], ordered[-1])


def phases_of(progresses: Iterable[Any]) -> dict[str, int]:
    """Median ms of each phase in StreamingQueryProgress.durationMs, longest first; triggerExecution is the whole."""
    samples: dict[str, list[int]] = {}
    for progress in progresses:
        for phase, ms in progress.durationMs.items():
            samples.setdefault(phase, []).append(ms)
    medians = {phase: round(statistics.median(of_phase)) for phase, of_phase in samples.items()}
    return dict(sorted(medians.items(), key=lambda item: -item[1]))


def state_of(progresses: Sequence[Any]) -> dict[str, int]:
    """Of the stateful operator: median ms of each time, and the newest of every other metric."""
    operators = [progress.stateOperators[0] for progress in progresses if progress.stateOperators]
    if not operators:
        return {}
    times = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    found = {name: round(statistics.median(getattr(operator, name) for operator in operators)) for name in times}
    newest = operators[-1]
    return found | {"numRowsTotal": newest.numRowsTotal, "memoryUsedBytes": newest.memoryUsedBytes}
