"""`python -m tests.lab.bench.soak`: what grows in an hour of 1,000 events/s? Its first tenth against its last.

`balancewatch run` with its defaults but without on-call, on an embedded Kafka; the events of the latency bench, with
twins that come and go each second. A table goes to stdout, all samples as JSON to a file, a line a minute to stderr.
Ctrl-C ends it with the samples so far. An hour takes about 2 GB in the folder for temporary files.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from schemas.tables import ALERTS, FAULT_ITEMS, TABLES
from streaming.maintenance.files import take_stock
from streaming.maintenance.table_keeper import TIERS
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.tables import open_delta, table_path
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


def latencies_since(table: Path, version: int, *, only_unavailable: bool = False) -> tuple[int, Timed]:
    """Return the version after the newest, and (commit's time, ms from a row's `changed_at` to it) of each new row.

    `version` is the first that is read; of FaultItems only the unavailable ones may count.
    """
    timed: Timed = []
    while (commit := read_commit(table, version)) is not None:
        version += 1
        for file in commit.appended:
            try:
                rows = pq.read_table(table / file)
            except FileNotFoundError:  # compacted and cleaned away since
                continue
            if only_unavailable:
                rows = rows.filter(~pc.field("available"))
            moments = rows["changed_at"].cast(pa.int64()).to_pylist()
            timed += [(commit.at_ms / 1000, commit.at_ms - moment / 1000) for moment in moments]
    return version, timed


class Sampler:
    """Samples a `run` whose process is `pid`, and keeps the latencies of its rows."""

    def __init__(self, settings: Settings, pid: int) -> None:
        self._paths, self._pid = settings.paths, pid
        self._versions = {"FaultItem": 0, "alert": 0}
        self._tree, self._at = read_tree(pid), time.time()
        self.latencies: dict[str, Timed] = {"FaultItem": [], "alert": []}
        self.samples: list[Sample] = []

    def sample(self) -> Sample:
        handles = {name: open_delta(table_path(self._paths.warehouse, name)) for name in TABLES}
        for name, table in (("FaultItem", FAULT_ITEMS), ("alert", ALERTS)):
            self._versions[name], timed = latencies_since(
                Path(table_path(self._paths.warehouse, table.name)),
                self._versions[name],
                only_unavailable=table is FAULT_ITEMS,
            )
            self.latencies[name] += timed
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
                COMMITS: sum(handle.version() + 1 for handle in handles.values()),
                SMALL_FILES: max(sum(size < TIERS[0][0] for size in take_stock(one)[1]) for one in handles.values()),
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
    with scratch(0, retention_hours=KAFKA_HOURS) as place:
        settings = place.settings_for("soak")
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
