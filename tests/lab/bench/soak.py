"""`python -m tests.lab.bench.soak`: what grows in an hour of 1,000 events/s? Its first tenth against its last.

`balancewatch run` with its defaults but without on-call, on an embedded Kafka; the events of the latency bench, with
twins that come and go each second. A table goes to stdout, all samples as JSON to a file, a line a minute to stderr.
Ctrl-C ends it with the samples so far. An hour takes about 2 GB in the folder for temporary files.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from schemas.tables import ALERTS, FAULT_ITEMS, TABLES
from streaming.kafka_io.topics import create_topics
from streaming.maintenance.table_keeper import TIERS
from streaming.warehouse.delta_log import log_name
from streaming.warehouse.tables import table_path
from tests.lab.bench.figures import percentiles_of
from tests.lab.bench.pacer import pace, publishing
from tests.lab.bench.process_tree import cores_by_name, read_tree, resident_by_name
from tests.lab.bench.scratch import live_run, read_machine, scratch, write_report
from tests.support.laboratory import say
from tests.support.service_process import ServiceEndedError

WIDTH = 100
MINUTE = 60.0
KAFKA_HOURS = 2
"""That Kafka keeps events: a day's would fill the disk."""

MOST_SECONDS_A_SAMPLE = 10.0
SAMPLES_A_TENTH = 5
WARM_UP_SECONDS = 60.0
REPORT = Path(".bench/soak.json")

COMMITS, SMALL_FILES = "commits, all tables", "small files of a table, the most"

Sample = Mapping[str, float]
"""Figures by name, at the time `at` in epoch seconds."""

Timed = list[tuple[float, float]]
"""(epoch seconds of the commit, ms)."""


class TableLog:
    """A Delta table's log, followed as it grows. Each commit is read once, as text; the table is never opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commits = 0
        self._in_use: dict[str, int] = {}

    def follow(self) -> Iterator[tuple[Path, float]]:
        """Yield each file of new rows since the last call, and the time of its commit, epoch seconds."""
        while (commit := self._folder / log_name(self.commits)).exists():
            for line in commit.read_text().splitlines():
                action = json.loads(line)
                if removed := action.get("remove"):
                    self._in_use.pop(removed["path"], None)
                if added := action.get("add"):
                    self._in_use[added["path"]] = added["size"]
                    if added["dataChange"]:
                        yield self._folder / added["path"], commit.stat().st_mtime
            self.commits += 1

    @property
    def small_files(self) -> int:
        """In use now, and below the first tier of compaction."""
        return sum(size < TIERS[0][0] for size in self._in_use.values())


def latencies_ms(path: Path, committed: float, *, only_unavailable: bool = False) -> Timed:
    """(commit's time, ms from a row's `changed_at` to it) of each row; of FaultItems those that are unavailable."""
    try:
        rows = pq.read_table(path, columns=["changed_at", *(["available"] if only_unavailable else [])])
    except FileNotFoundError:  # compacted and cleaned away since
        return []
    moments = rows["changed_at"].cast(pa.int64()).to_pylist()
    is_out = [not one for one in rows["available"].to_pylist()] if only_unavailable else [True] * len(moments)
    return [
        (committed, committed * 1000 - moment / 1000)
        for moment, is_counted in zip(moments, is_out, strict=True)
        if is_counted
    ]


class Sampler:
    """Samples a `run` whose process is `pid`, and keeps the latencies of its rows."""

    def __init__(self, settings: Settings, pid: int) -> None:
        self._paths, self._pid = settings.paths, pid
        self._logs = {name: TableLog(Path(table_path(settings.paths.warehouse, name))) for name in TABLES}
        self._tree, self._at = read_tree(pid), time.time()
        self.latencies: dict[str, Timed] = {"FaultItem": [], "alert": []}
        self.samples: list[Sample] = []

    def sample(self) -> Sample:
        for name, log in self._logs.items():
            for path, committed in log.follow():
                if name == FAULT_ITEMS.name:
                    self.latencies["FaultItem"] += latencies_ms(path, committed, only_unavailable=True)
                elif name == ALERTS.name:
                    self.latencies["alert"] += latencies_ms(path, committed)
        now, tree = time.time(), read_tree(self._pid)
        cores = cores_by_name(self._tree, tree, now - self._at)
        memory = {name: size / (1 << 20) for name, size in resident_by_name(tree).items()}
        self._tree, self._at = tree, now
        self.samples.append(
            {
                "at": now,
                "CPU, cores": sum(cores.values()),
                **{f"CPU, {name}, cores": used for name, used in cores.items()},
                "memory, MiB": sum(memory.values()),
                **{f"memory, {name}, MiB": size for name, size in memory.items()},
                COMMITS: sum(log.commits for log in self._logs.values()),
                SMALL_FILES: max(log.small_files for log in self._logs.values()),
                **_stock("state", *self._paths.checkpoints.glob("*/state")),
                **_stock("checkpoints", self._paths.checkpoints),
                **_stock("tables before `maintain`", Path(self._paths.warehouse)),
            }
        )
        return self.samples[-1]


def _stock(name: str, *folders: Path) -> dict[str, float]:
    """MB and number of all files in the folders now; files deleted meanwhile do not count."""
    sizes = []
    for root, _, names in (found for folder in folders for found in os.walk(folder)):
        for file in names:
            with contextlib.suppress(FileNotFoundError):
                sizes.append((Path(root) / file).lstat().st_size)
    return {f"{name}, MB": sum(sizes) / 1e6, f"{name}, files": len(sizes)}


def tenth_of(began: float, ended: float, samples: Sequence[Sample], latencies: Mapping[str, Timed]) -> dict[str, float]:
    """Return the figures of a span: latencies, means of its samples, commits a second and the most small files.

    A span that is too short to have a sample takes the nearest one.
    """
    nearest = sorted(samples, key=lambda sample: abs(sample["at"] - ended))[:1]
    inside = [sample for sample in samples if began <= sample["at"] <= ended] or nearest
    tenth: dict[str, float] = {}
    for name, timed in latencies.items():
        ms = percentiles_of(ms for at, ms in timed if began <= at <= ended)
        tenth |= {f"{name}, event to Delta row, p50, ms": ms.p50, f"{name}, event to Delta row, p95, ms": ms.p95}
    for name in dict.fromkeys(name for sample in inside for name in sample if name != "at"):
        tenth[name] = fmean(sample.get(name, 0.0) for sample in inside)
    seconds = inside[-1]["at"] - inside[0]["at"]
    tenth[COMMITS] = (inside[-1][COMMITS] - inside[0][COMMITS]) / seconds if seconds else 0.0
    tenth[SMALL_FILES] = max(sample[SMALL_FILES] for sample in inside)
    return tenth


def tenths_table(first: Mapping[str, float], last: Mapping[str, float], title: str) -> Table:
    """A row a figure, with the last tenth's beside the first's."""
    table = Table("", "first tenth", "last tenth", "last / first", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys((*first, *last)):
        early, late = first.get(name, 0.0), last.get(name, 0.0)
        digits = 2 if name.endswith("cores") or name == COMMITS else 1 if name.endswith("MB") else 0
        shown = "commits a second, all tables" if name == COMMITS else name
        table.add_row(shown, f"{early:,.{digits}f}", f"{late:,.{digits}f}", f"{late / early:.2f}" if early else "")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--minutes", type=float, default=60.0, help="to measure (default: %(default)g)")
    minutes = parser.parse_args().minutes
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = read_machine()
    sampler, began, ended = soak(minutes)
    if sampler is None or len(sampler.samples) < 2:
        say("ended before there was anything to compare")
        sys.exit(1)
    last = sampler.samples[-1]["at"]
    tenth = (last - began) / 10
    spans = ((began, began + tenth), (last - tenth, last))
    tenths = [tenth_of(*span, sampler.samples, sampler.latencies) for span in spans]
    title = f"{(last - began) / MINUTE:.1f} minutes of 1,000 events/s, after {WARM_UP_SECONDS:.0f} s of warm-up"
    Console(width=WIDTH).print(tenths_table(tenths[0], tenths[1], title))
    write_report(REPORT, machine, first=tenths[0], last=tenths[1], samples=sampler.samples)
    say(f"written: {REPORT}")
    sys.exit(1 if ended else 0)


def soak(minutes: float) -> tuple[Sampler | None, float, str]:
    """Return the samples, when they began, and why it ended before its time; "" for Ctrl-C and for the end."""
    sampler, began, ended = None, time.time(), ""
    with scratch(0) as place:
        settings = place.settings_for("soak")
        create_topics(settings.kafka.model_copy(update={"retention_hours": KAFKA_HOURS}))
        try:
            with (
                publishing(pace, settings.kafka, 2 * minutes * MINUTE + WARM_UP_SECONDS + 600) as pacer,
                live_run(settings, ONCALL__ENABLED="false") as run,
            ):
                say(f"soak: warming up for {WARM_UP_SECONDS:.0f} s")
                run.sleep(WARM_UP_SECONDS)
                sampler, began = Sampler(settings, run.pid), time.time()
                every = min(MOST_SECONDS_A_SAMPLE, minutes * MINUTE / 10 / SAMPLES_A_TENTH)
                said = 0
                while (left := began + minutes * MINUTE - time.time()) > 0:
                    run.sleep(min(every, left))
                    if not pacer.is_alive():
                        raise ServiceEndedError("the process that publishes the events ended by itself")
                    sample = sampler.sample()
                    if (minute := int((sample["at"] - began) / MINUTE)) > said:
                        said = minute
                        _report(sampler, f"soak {minute}/{minutes:g} min")
        except KeyboardInterrupt:
            say("soak: ended by Ctrl-C")
        except (ServiceEndedError, TimeoutError) as error:
            ended = str(error)
            say(f"soak: {error}")
    return sampler, began, ended


def _report(sampler: Sampler, what: str) -> None:
    """Print the latency of the newest minute's rows, and the newest sample."""
    sample = sampler.samples[-1]
    recent = percentiles_of(ms for at, ms in sampler.latencies["FaultItem"] if at >= sample["at"] - MINUTE)
    names = ("CPU, cores", "memory, MiB", SMALL_FILES, "state, MB", "state, files")
    figures = "; ".join(f"{name} {sample[name]:,.2f}" for name in names)
    say(f"{what}: p50 {recent.p50:,.0f} ms, p95 {recent.p95:,.0f} ms; {figures}")


if __name__ == "__main__":
    main()
