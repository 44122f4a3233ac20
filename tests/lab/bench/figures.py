"""Figures out of samples, and the rows of the bench's table."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Percentiles:
    """Percentiles by nearest rank of `count` samples; 0 of none."""

    count: int
    p50: float
    p95: float
    max: float


def percentiles_of(samples: Iterable[float]) -> Percentiles:
    ordered = sorted(samples)
    if not ordered:
        return Percentiles(0, 0, 0, 0)
    ranks = [ordered[max(0, math.ceil(len(ordered) * share) - 1)] for share in (0.5, 0.95)]
    return Percentiles(len(ordered), ranks[0], ranks[1], ordered[-1])


def latencies_of(flips: Iterable[tuple[int, int]], from_ms: int, to_ms: int) -> Percentiles:
    """Of (event's time, time of the commit), for the events of the span."""
    return percentiles_of(done_ms - event_ms for event_ms, done_ms in flips if from_ms <= event_ms < to_ms)


@dataclass
class Figures:
    """`rows` of the bench's table: measure, figure, spread or tail, beside. `values` are for the JSON file."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, figure: str, spread: str = "", beside: str = "") -> None:
        self.rows.append((name, figure, spread, beside))

    def add_spread(self, name: str, samples: Sequence[float], form: str, beside: str = "") -> None:
        """The median of several runs, with the lowest and the highest, as `form` formats each: "{:.2f} s"."""
        median, low, high = statistics.median(samples), min(samples), max(samples)
        self.values[name] = {"median": median, "low": low, "high": high}
        self.add(name, form.format(median), f"{form.format(low)} to {form.format(high)}", beside)

    def add_percentiles(self, name: str, ms: Percentiles, beside: str = "") -> None:
        self.values[name] = asdict(ms)
        self.add(name, f"{ms.p50:,.0f} ms", f"p95 {ms.p95:,.0f} ms, {ms.count} samples", beside)

    def add_memory(self, name: str, resident: Mapping[str, int], when: str = "at its peak") -> None:
        """`resident` is bytes by process."""
        by_name = {process: size / (1 << 20) for process, size in resident.items()}
        self.values[f"memory, {name}"] = by_name
        self.add(f"memory, {name}", f"{sum(by_name.values()):,.0f} MiB", when, parts_of(by_name))

    def add_phases(self, name: str, progresses: Sequence[Any]) -> None:
        """The median ms of the longest phases of StreamingQueryProgress.durationMs, and of all of a batch."""
        samples: dict[str, list[int]] = {}
        for progress in progresses:
            for phase, ms in progress.durationMs.items():
                samples.setdefault(phase, []).append(ms)
        medians = {phase: statistics.median(of_phase) for phase, of_phase in samples.items()}
        self.values[f"phases, {name}"] = medians
        total = medians.pop("triggerExecution", 0)
        longest = sorted(medians.items(), key=lambda item: -item[1])[:4]
        self.add(f"phases, {name}", f"{total:,.0f} ms", "median batch", parts_of(dict(longest)))


def parts_of(by_name: Mapping[str, float], digits: int = 0) -> str:
    """Name and figure of each part, for a cell; none of those that round to nothing."""
    return ", ".join(f"{name} {figure:,.{digits}f}" for name, figure in by_name.items() if round(figure, digits))


def seconds_of(progress: Any) -> float:
    """Of a batch."""
    return float(progress.durationMs["triggerExecution"]) / 1000


def started_at(progress: Any) -> float:
    """When the batch was triggered, epoch seconds."""
    return datetime.fromisoformat(progress.timestamp).timestamp()


def ended_at(progress: Any) -> float:
    return started_at(progress) + seconds_of(progress)
