"""The first against the last tenth of a soak: a figure that grows in the time between grows for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.bench.figures import Percentiles, Span, mean_of, percentiles_of, ratio_of
from tests.bench.soak_samples import Sample, Timed


@dataclass(frozen=True)
class Tenth:
    """Latencies are ms, CPU cores and sizes the mean of the samples, small files the most that a table ever had."""

    samples: int
    flips: Percentiles
    alerts: Percentiles
    cores: dict[str, float]
    memory_mib: dict[str, float]
    small_files: dict[str, int]
    commits_per_second: float
    state_bytes: float
    state_files: float
    checkpoint_bytes: float
    checkpoint_files: float
    warehouse_bytes: float
    warehouse_files: float


def tenth_of(span: Span, samples: Sequence[Sample], flips_ms: Timed, alerts_ms: Timed) -> Tenth:
    """Of the span's samples; where it is too short to have one, the nearest."""
    nearest = sorted(samples, key=lambda sample: abs(sample.at - span.ended))[:1]
    inside = span.samples((sample.at, sample) for sample in samples) or nearest
    ends = [sum(sample.commits.values()) for sample in (*inside[:1], *inside[-1:])]
    seconds = inside[-1].at - inside[0].at if inside else 0.0
    tables = inside[0].small_files if inside else ()
    return Tenth(
        len(inside),
        percentiles_of(span.samples(flips_ms)),
        percentiles_of(span.samples(alerts_ms)),
        _means([sample.cores for sample in inside]),
        _means([sample.memory_mib for sample in inside]),
        {name: max(sample.small_files[name] for sample in inside) for name in tables},
        (ends[-1] - ends[0]) / seconds if seconds else 0.0,
        mean_of([sample.state.bytes for sample in inside]),
        mean_of([sample.state.files for sample in inside]),
        mean_of([sample.checkpoints.bytes for sample in inside]),
        mean_of([sample.checkpoints.files for sample in inside]),
        mean_of([sample.warehouse.bytes for sample in inside]),
        mean_of([sample.warehouse.files for sample in inside]),
    )


def _means(samples: Sequence[dict[str, float]]) -> dict[str, float]:
    """By name; a process that is not in a sample had nothing then."""
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {name: mean_of([sample.get(name, 0.0) for sample in samples]) for name in names}


def tenths_table(first: Tenth, last: Tenth, title: str) -> Table:
    """A row a figure, with the last tenth's beside the first's."""
    table = Table("", "first tenth", "last tenth", "last / first", title=title)
    for column in table.columns[1:]:
        column.justify = "right"

    def add(name: str, early: float, late: float, unit: str = "", digits: int = 0) -> None:
        ratio = ratio_of(late, early)
        figures = (f"{figure:,.{digits}f}{unit}" for figure in (early, late))
        table.add_row(name, *figures, f"{ratio:.2f}" if ratio is not None else "")

    def add_each(
        prefix: str, early: Mapping[str, float], late: Mapping[str, float], unit: str = "", digits: int = 0
    ) -> None:
        """Of both, without those that are 0 in both."""
        for name in dict.fromkeys((*early, *late)):
            if early.get(name) or late.get(name):
                add(f"{prefix}{name}", early.get(name, 0), late.get(name, 0), unit, digits)

    for name, soon, then in (("FaultItem", first.flips, last.flips), ("alert", first.alerts, last.alerts)):
        add(f"{name}, event to Delta row, p50", soon.p50, then.p50, " ms")
        add(f"{name}, event to Delta row, p95", soon.p95, then.p95, " ms")
    table.add_section()
    add("CPU", sum(first.cores.values()), sum(last.cores.values()), " cores", 2)
    add_each("  ", first.cores, last.cores, " cores", 2)
    table.add_section()
    add("memory", sum(first.memory_mib.values()), sum(last.memory_mib.values()), " MiB")
    add_each("  ", first.memory_mib, last.memory_mib, " MiB")
    table.add_section()
    add("commits a second, all tables", first.commits_per_second, last.commits_per_second, "", 2)
    add_each("small files, ", first.small_files, last.small_files)
    table.add_section()
    add("state, size", first.state_bytes / 1e6, last.state_bytes / 1e6, " MB", 1)
    add("state, files", first.state_files, last.state_files)
    add("checkpoints, size", first.checkpoint_bytes / 1e6, last.checkpoint_bytes / 1e6, " MB", 1)
    add("checkpoints, files", first.checkpoint_files, last.checkpoint_files)
    add("warehouse before `maintain`, size", first.warehouse_bytes / 1e6, last.warehouse_bytes / 1e6, " MB", 1)
    add("warehouse before `maintain`, files", first.warehouse_files, last.warehouse_files)
    return table
