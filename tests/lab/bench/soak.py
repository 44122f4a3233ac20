"""`python -m tests.lab.bench.soak`: what grows in an hour of 1,000 events/s? Its first tenth against its last.

`balancewatch run` with its defaults but without on-call, on an embedded Kafka; the events of the latency bench, with
twins that come and go each second. A table goes to stdout, all samples as JSON to a file, a line a minute to stderr.
Ctrl-C ends it with the samples so far. An hour takes about 2 GB in the folder for temporary files.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from schemas.tables import ALERTS, FAULT_ITEMS, TABLES
from streaming.kafka_io.topics import create_topics
from streaming.maintenance.table_keeper import TIERS
from streaming.warehouse.tables import table_path
from tests.lab.bench.figures import Percentiles, Span, first_and_last_tenth, mean_of, percentiles_of, ratio_of
from tests.lab.bench.live_run import live_run
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import Process, cores_by_name, read_tree, resident_by_name
from tests.lab.bench.scratch import read_machine, say, scratch, write_report
from tests.lab.bench.table_log import TableLog, latencies_ms
from tests.support.service_process import ServiceEndedError

SMALL_BYTES = TIERS[0][0]

_MIB = 1 << 20

Timed = list[tuple[float, float]]
"""(epoch seconds of the commit, ms)."""


@dataclass(frozen=True)
class Stock:
    """Files under a folder, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Sample:
    """`cores` and `memory_mib` by process, since the sample before; `small_files` and `commits` by table."""

    at: float
    cores: dict[str, float]
    memory_mib: dict[str, float]
    small_files: dict[str, int]
    commits: dict[str, int]
    state: Stock
    checkpoints: Stock
    warehouse: Stock


class Sampler:
    """Samples a `run` whose process is `pid`, and keeps the latencies of its rows."""

    def __init__(self, settings: Settings, pid: int) -> None:
        self._settings, self._pid = settings, pid
        self._logs = {name: TableLog(Path(table_path(settings.paths.warehouse, name))) for name in TABLES}
        self._tree: list[Process] = read_tree(pid)
        self._at = time.time()
        self.flips_ms: Timed = []
        self.alerts_ms: Timed = []
        self.samples: list[Sample] = []

    def sample(self) -> None:
        for name, log in self._logs.items():
            appended = list(log.follow())
            if name == FAULT_ITEMS.name:
                self.flips_ms += _in_seconds(latencies_ms(appended, only_unavailable=True))
            elif name == ALERTS.name:
                self.alerts_ms += _in_seconds(latencies_ms(appended))
        now, tree = time.time(), read_tree(self._pid)
        paths = self._settings.paths
        sample = Sample(
            now,
            cores_by_name(self._tree, tree, now - self._at),
            {name: size / _MIB for name, size in resident_by_name(tree).items()},
            {name: log.files(SMALL_BYTES) for name, log in self._logs.items()},
            {name: log.commits for name, log in self._logs.items()},
            stock_of(*paths.checkpoints.glob("*/state")),
            stock_of(paths.checkpoints),
            stock_of(Path(paths.warehouse)),
        )
        self._tree, self._at = tree, now
        self.samples.append(sample)


def stock_of(*folders: Path) -> Stock:
    """Of all files in them now; files deleted meanwhile do not count."""
    sizes = [size for folder in folders for size in _sizes(folder)]
    return Stock(len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterator[int]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _sizes(Path(entry.path))
            continue
        try:
            yield entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue


def _in_seconds(latencies: Timed) -> Timed:
    return [(committed_ms / 1000, ms) for committed_ms, ms in latencies]


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


WIDTH = 100
MINUTE = 60.0
KAFKA_HOURS = 2
"""That Kafka keeps events: a day's would fill the disk."""

MOST_SECONDS_A_SAMPLE = 10.0
SAMPLES_A_TENTH = 5
INTERRUPTED = "Ctrl-C"

WARM_UP_SECONDS = 60.0
REPORT = Path(".bench/soak.json")


@dataclass(frozen=True)
class SoakResult:
    """`minutes` that it lasted, after the warm-up; `ended` is why it ended before its time, if it did."""

    minutes: float
    ended: str
    first: Tenth
    last: Tenth
    samples: list[Sample]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--minutes", type=float, default=60.0, help="to measure (default: %(default)g)")
    minutes = parser.parse_args().minutes
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = read_machine()
    result = soak(minutes)
    if result is None:
        say("ended before there was anything to compare")
        sys.exit(1)
    title = f"{result.minutes:.1f} minutes of 1,000 events/s, after {WARM_UP_SECONDS:.0f} s of warm-up"
    Console(width=WIDTH).print(tenths_table(result.first, result.last, title))
    write_report(REPORT, machine, soak=asdict(result))
    say(f"written: {REPORT}")
    if result.ended and result.ended != INTERRUPTED:
        sys.exit(1)


def soak(minutes: float) -> SoakResult | None:
    """None where it ended before its first two samples."""
    with scratch(0) as place:
        settings = place.settings_for("soak")
        create_topics(settings.kafka.model_copy(update={"retention_hours": KAFKA_HOURS}))
        ended, sampler, began = "", None, time.time()
        try:
            with (
                live_run(settings, ONCALL__ENABLED="false") as run,
                publishing(pace, settings.kafka, 2 * minutes * MINUTE + WARM_UP_SECONDS + 600) as pacer,
            ):
                run.wait_until_written(settings.paths.checkpoints)
                say(f"soak: warming up for {WARM_UP_SECONDS:.0f} s")
                run.sleep(WARM_UP_SECONDS)
                sampler, began = Sampler(settings, run.pid), time.time()
                every = min(MOST_SECONDS_A_SAMPLE, minutes * MINUTE / 10 / SAMPLES_A_TENTH)
                while (left := began + minutes * MINUTE - time.time()) > 0:
                    run.sleep(min(every, left))
                    if not pacer.is_alive():
                        raise ServiceEndedError("the process that publishes the events ended by itself")
                    sampler.sample()
                    _report(sampler, began, minutes)
        except KeyboardInterrupt:
            ended = INTERRUPTED
            say("soak: ended by Ctrl-C")
        except (ServiceEndedError, TimeoutError) as error:
            ended = str(error)
            say(f"soak: {error}")
        if sampler is None or len(sampler.samples) < 2:
            return None
        last = sampler.samples[-1].at
        first_tenth, last_tenth = (
            tenth_of(span, sampler.samples, sampler.flips_ms, sampler.alerts_ms)
            for span in first_and_last_tenth(began, last)
        )
        return SoakResult((last - began) / MINUTE, ended, first_tenth, last_tenth, sampler.samples)


def _report(sampler: Sampler, began: float, minutes: float) -> None:
    """Print a line when a minute is full: the latency of its rows, and the newest sample."""
    sample = sampler.samples[-1]
    before = sampler.samples[-2].at if len(sampler.samples) > 1 else began
    minute = int((sample.at - began) / MINUTE)
    if minute == int((before - began) / MINUTE):
        return
    recent = percentiles_of(ms for at, ms in sampler.flips_ms if at >= sample.at - MINUTE)
    say(
        f"soak {minute}/{minutes:g} min: p50 {recent.p50:,.0f} ms, p95 {recent.p95:,.0f} ms; "
        f"{sum(sample.cores.values()):.2f} cores, {sum(sample.memory_mib.values()):,.0f} MiB, "
        f"{max(sample.small_files.values(), default=0)} small files in a table at most, "
        f"state {sample.state.bytes / 1e6:,.1f} MB in {sample.state.files:,} files"
    )


if __name__ == "__main__":
    main()
