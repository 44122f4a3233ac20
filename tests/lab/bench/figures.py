"""Figures out of samples: medians with their spread, percentiles by nearest rank, tenths of a span; a batch's times."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from rich.table import Table

Sample = TypeVar("Sample")


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

    @property
    def cells(self) -> tuple[str, str]:
        """Figure and tail, of ms."""
        return f"{self.p50:,.0f} ms", f"p95 {self.p95:,.0f} ms, {self.count} samples"


def spread_of(samples: Sequence[float]) -> Spread:
    return Spread(statistics.median(samples), min(samples), max(samples))


def percentiles_of(samples: Iterable[float]) -> Percentiles:
    ordered = sorted(samples)
    if not ordered:
        return Percentiles(0, 0, 0, 0)
    ranks = [ordered[max(0, math.ceil(len(ordered) * share) - 1)] for share in (0.5, 0.95)]
    return Percentiles(len(ordered), ranks[0], ranks[1], ordered[-1])


def latencies_of(flips: Iterable[tuple[int, int]], from_ms: int, to_ms: int) -> Percentiles:
    """Of (event's time, time of the commit), for the events of the span."""
    return percentiles_of(done_ms - event_ms for event_ms, done_ms in flips if from_ms <= event_ms < to_ms)


@dataclass(frozen=True)
class Span:
    """From `began` on, up to and with `ended`."""

    began: float
    ended: float

    def samples(self, timed: Iterable[tuple[float, Sample]]) -> list[Sample]:
        """Return the samples of the span, given (time, sample)."""
        return [sample for at, sample in timed if self.began <= at <= self.ended]


def first_and_last_tenth(began: float, ended: float) -> tuple[Span, Span]:
    tenth = (ended - began) / 10
    return Span(began, began + tenth), Span(ended - tenth, ended)


def mean_of(samples: Sequence[float]) -> float:
    """0 of none."""
    return statistics.fmean(samples) if samples else 0.0


def ratio_of(last: float, first: float) -> float | None:
    """None where there is nothing to compare with."""
    return last / first if first else None


def phases_of(progresses: Iterable[Any]) -> dict[str, int]:
    """Median ms of each phase in StreamingQueryProgress.durationMs, longest first; triggerExecution is the total."""
    samples: dict[str, list[int]] = {}
    for progress in progresses:
        for phase, ms in progress.durationMs.items():
            samples.setdefault(phase, []).append(ms)
    medians = {phase: round(statistics.median(of_phase)) for phase, of_phase in samples.items()}
    return dict(sorted(medians.items(), key=lambda item: -item[1]))


def add_phases(table: Table, name: str, phases_ms: dict[str, int]) -> None:
    longest = [f"{phase} {ms}" for phase, ms in phases_ms.items() if phase != "triggerExecution" and ms][:4]
    table.add_row(f"phases, {name}", f"{phases_ms.get('triggerExecution', 0):,} ms", "median batch", ", ".join(longest))


def state_of(progresses: Sequence[Any]) -> dict[str, int]:
    """Of the stateful operator: median ms of each time, and the newest of every other metric."""
    operators = [progress.stateOperators[0] for progress in progresses if progress.stateOperators]
    if not operators:
        return {}
    times = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    found = {name: round(statistics.median(getattr(operator, name) for operator in operators)) for name in times}
    newest = operators[-1]
    return found | {"numRowsTotal": newest.numRowsTotal, "memoryUsedBytes": newest.memoryUsedBytes}


def busiest(of_queries: Iterable[Sequence[Any]]) -> list[Any]:
    """The progresses of the query that read most."""
    return list(max(of_queries, key=lambda progresses: sum(one.numInputRows for one in progresses), default=[]))


def seconds_of(progress: Any) -> float:
    return float(progress.durationMs["triggerExecution"]) / 1000


def started_at(progress: Any) -> float:
    """When the batch was triggered, epoch seconds."""
    return datetime.fromisoformat(progress.timestamp).timestamp()


def ended_at(progress: Any) -> float:
    return started_at(progress) + seconds_of(progress)
