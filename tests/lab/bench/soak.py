"""`python -m tests.lab.bench.soak`: what grows in three hours? The first tenth against the last, and two other loads.

`balancewatch run` with its defaults but without on-call, on an embedded Kafka. For a sixth of the time it gets the
1,000 events/s of the latency bench, for a third 29 events/s, for a third 3,000, and for the last sixth 1,000 again. A
table goes to stdout, all samples as JSON to a file each minute, a line a minute to stderr. Ctrl-C and SIGTERM end it
with the samples so far. Three hours take about 6 GB in the folder for temporary files.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from conf.settings import Settings
from schemas.events import EVENTS
from schemas.tables import ALERTS, FAULT_ITEMS, TABLES
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.publisher import Publisher
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.tables import open_delta, table_path
from tests.lab.bench.aged_tables import count_small
from tests.lab.bench.events import CLUSTER
from tests.lab.bench.figures import percentiles_of
from tests.lab.bench.latency import publish_idle
from tests.lab.bench.pacer import PLAIN, SOAK, pace_soak, publishing
from tests.lab.bench.process_tree import Process, cores_by_name, read_tree, resident_by_name
from tests.lab.bench.scratch import live_run, read_machine, scratch, write_report
from tests.support.laboratory import say, stop_on_signals
from tests.support.service_process import ServiceEndedError

WIDTH = 100
MINUTE = 60.0
KAFKA_HOURS = 2
"""That Kafka keeps events: a day's would fill the disk."""

MOST_SECONDS_A_SAMPLE = 10.0
SAMPLES_A_TENTH = 5
WARM_UP_SECONDS = 60.0
REPORT = Path(".bench/soak.json")

PUBLISHED, COMMITS, SMALL_FILES = "events", "commits, all tables", "small files of a table, the most"
RATES = {PUBLISHED: "events a second in Kafka", COMMITS: "commits a second, all tables"}
"""Counts of a sample, and their names as rates of a span."""

Sample = Mapping[str, float]
"""Figures by name, at the time `at` in epoch seconds."""

Timed = list[tuple[float, float]]
"""(epoch seconds of the commit, ms)."""

WANTED = {"FaultItem": (FAULT_ITEMS, ~pc.field("available")), "alert": (ALERTS, pc.field("cluster") == CLUSTER)}
"""Rows whose latency counts."""


def latencies_since(table: Path, version: int, wanted: pc.Expression | None = None) -> tuple[int, Timed]:
    """Return the version after the newest, and (commit's time, ms from a row's `changed_at` to it) of each new row.

    `version` is the first that is read; only the `wanted` rows count.
    """
    timed: Timed = []
    while (commit := read_commit(table, version)) is not None:
        version += 1
        for file in commit.appended:
            try:
                rows = pq.read_table(table / file)
            except FileNotFoundError:  # compacted and cleaned away since
                continue
            if wanted is not None:
                rows = rows.filter(wanted)
            moments = rows["changed_at"].cast(pa.int64()).to_pylist()
            timed += [(commit.at_ms / 1000, commit.at_ms - moment / 1000) for moment in moments]
    return version, timed


class Sampler:
    """Samples a `run`, and keeps the latencies of its rows."""

    def __init__(self, settings: Settings) -> None:
        self._paths = settings.paths
        self._consumer = open_consumer(settings.kafka)
        self._versions = dict.fromkeys(WANTED, 0)
        self._tree: list[Process] = []
        self.began = self._at = self._tables_at = 0.0
        self._published, self._tables = 0, dict[str, float]()
        self.latencies: dict[str, Timed] = {name: [] for name in WANTED}
        self.samples: list[Sample] = []

    def begin(self, pid: int) -> None:
        """Sample the `run` whose process is `pid` from now on."""
        self._pid = pid
        self._tree, self._at = read_tree(pid), time.time()
        self.began = self._at

    def sample(self) -> Sample:
        handles = [open_delta(table_path(self._paths.warehouse, name)) for name in TABLES]
        for name, (table, wanted) in WANTED.items():
            folder = Path(table_path(self._paths.warehouse, table.name))
            self._versions[name], timed = latencies_since(folder, self._versions[name], wanted)
            self.latencies[name] += timed
        with contextlib.suppress(KafkaError):  # it answers the next sample
            self._published = sum(span.end for span in read_spans(self._consumer, EVENTS).values())
        now, tree = time.time(), read_tree(self._pid)
        cores = cores_by_name(self._tree, tree, now - self._at)
        memory = {name: size / (1 << 20) for name, size in resident_by_name(tree).items()}
        self._tree, self._at = tree, now
        if now >= self._tables_at + MINUTE:  # each time, the files of hours would cost the machine too much
            self._tables, self._tables_at = _stock("tables before `maintain`", Path(self._paths.warehouse)), now
        self.samples.append(
            {
                "at": now,
                PUBLISHED: self._published,
                "CPU, cores": sum(cores.values()),
                **{f"CPU, {name}, cores": used for name, used in cores.items()},
                "memory, MiB": sum(memory.values()),
                **{f"memory, {name}, MiB": size for name, size in memory.items()},
                COMMITS: sum(handle.version() + 1 for handle in handles),
                SMALL_FILES: max(map(count_small, handles)),
                **_stock("state", *self._paths.checkpoints.glob("*/state")),
                **_stock("checkpoints", self._paths.checkpoints),
                **self._tables,
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


def figures_of(
    began: float, ended: float, samples: Sequence[Sample], latencies: Mapping[str, Timed]
) -> dict[str, float]:
    """Return the figures of a span: rates, latencies, means of its samples and the most small files.

    A span that is too short to have a sample takes the nearest one.
    """
    nearest = sorted(samples, key=lambda sample: abs(sample["at"] - ended))[:1]
    inside = [sample for sample in samples if began <= sample["at"] <= ended] or nearest
    seconds = inside[-1]["at"] - inside[0]["at"]
    figures = {
        rate: (inside[-1][count] - inside[0][count]) / seconds if seconds else 0.0 for count, rate in RATES.items()
    }
    for name, timed in latencies.items():
        ms = percentiles_of(ms for at, ms in timed if began <= at <= ended)
        figures |= {f"{name}, event to Delta row, p50, ms": ms.p50, f"{name}, event to Delta row, p95, ms": ms.p95}
    for name in dict.fromkeys(name for sample in inside for name in sample if name not in ("at", *RATES)):
        figures[name] = fmean(sample.get(name, 0.0) for sample in inside)
    figures[SMALL_FILES] = max(sample[SMALL_FILES] for sample in inside)
    return figures


def spans_of(began: float, ended: float, seconds: float) -> dict[str, tuple[float, float]]:
    """Return the times of each column: tenths of what was measured, and the thirds of `seconds` that were reached."""
    tenth = (ended - began) / 10
    spans = {"first tenth": (began, began + tenth), "last tenth": (ended - tenth, ended)}
    at = began
    for load, share in SOAK:
        if load != PLAIN and at < ended:
            spans[f"{load} third"] = (at, min(ended, at + seconds * share))
        at += seconds * share
    return spans


def table_of(spans: Mapping[str, Mapping[str, float]], title: str) -> Table:
    """A row a figure, a column a span, with the ratio of the last tenth to the first."""
    first, last, *others = spans
    table = Table("", title=title)
    for name in (first, last, "last / first", *others):
        table.add_column(name.replace(" ", "\n", 1), justify="right")
    for name in dict.fromkeys(name for figures in spans.values() for name in figures):
        digits = 2 if name.endswith("cores") else 1 if name.endswith("MB") or name == RATES[COMMITS] else 0
        values = [f"{figures.get(name, 0.0):,.{digits}f}" for figures in spans.values()]
        early, late = spans[first].get(name, 0.0), spans[last].get(name, 0.0)
        table.add_row(name, *values[:2], f"{late / early:.2f}" if early else "", *values[2:])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--minutes", type=float, default=180.0, help="to measure (default: %(default)g)")
    seconds = parser.parse_args().minutes * MINUTE
    stop, machine, failed = stop_on_signals(say), read_machine(), False
    with scratch(0, retention_hours=KAFKA_HOURS) as place:
        settings = place.settings_for("soak")
        sampler = Sampler(settings)
        try:
            soak(settings, sampler, seconds, stop)
        except Exception:  # the samples so far are worth a table
            traceback.print_exc()
            failed = True
        if len(sampler.samples) < 2:
            say("ended before there was anything to compare")
            sys.exit(1)
        last = sampler.samples[-1]["at"]
        spans = {
            name: figures_of(*span, sampler.samples, sampler.latencies)
            for name, span in spans_of(sampler.began, last, seconds).items()
        }
        minutes = f"{(last - sampler.began) / MINUTE:.1f} of {seconds / MINUTE:g} minutes"
        title = f"{minutes}, after {WARM_UP_SECONDS:.0f} s of warm-up"
        Console(width=WIDTH).print(table_of(spans, title))
        write_report(REPORT, machine, spans=spans, samples=sampler.samples)
        say(f"written: {REPORT}")
    sys.exit(failed)


def soak(settings: Settings, sampler: Sampler, seconds: float, stop: threading.Event) -> None:
    """Sample a `run` for `seconds` after its warm-up, or until `stop` is set. Raises ServiceEndedError."""
    with Publisher(settings.kafka) as publisher:
        publish_idle(publisher)  # the first batch
    with live_run(settings, ONCALL__ENABLED="false") as run:
        say(f"soak: warming up for {WARM_UP_SECONDS:.0f} s")
        began = time.time() + WARM_UP_SECONDS
        with publishing(partial(pace_soak, began), settings.kafka, seconds) as pacer:
            stop.wait(began - time.time())
            sampler.begin(run.pid)
            every = min(MOST_SECONDS_A_SAMPLE, seconds / 10 / SAMPLES_A_TENTH)
            said = 0
            while not stop.is_set() and (left := began + seconds - time.time()) > 0:
                stop.wait(min(every, left))
                run.check()
                if not pacer.is_alive():
                    raise ServiceEndedError("the process that publishes the events ended by itself")
                sample = sampler.sample()
                if (minute := int((sample["at"] - began) / MINUTE)) > said:
                    said = minute
                    _report(sampler, f"soak {minute}/{seconds / MINUTE:g} min")


def _report(sampler: Sampler, what: str) -> None:
    """Print the latency and the events of the newest minute, and the newest sample; write all samples so far."""
    sample = sampler.samples[-1]
    recent = [one for one in sampler.samples if one["at"] >= sample["at"] - MINUTE - MOST_SECONDS_A_SAMPLE / 2]
    figures = figures_of(recent[0]["at"], sample["at"], recent, sampler.latencies)
    latency = [figures[f"FaultItem, event to Delta row, {name}, ms"] for name in ("p50", "p95")]
    ms = "/".join(f"{one:,.0f}" for one in latency if one) or "-"
    names = ("CPU, cores", "memory, MiB", SMALL_FILES, "state, MB", "state, files")
    shown = "; ".join(f"{name} {sample[name]:,.2f}" for name in names)
    say(f"{what}: {figures[RATES[PUBLISHED]]:,.0f} events/s, p50/p95 {ms} ms; {shown}")
    write_report(REPORT, read_machine(), samples=sampler.samples)


if __name__ == "__main__":
    main()
